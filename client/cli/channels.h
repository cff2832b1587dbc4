/* SPDX-License-Identifier: Apache-2.0
 *
 * A loop and a channel to each server that was named, for a load that keeps its own schedule.
 */
#ifndef FOLIOT_CLIENT_CLI_CHANNELS_H
#define FOLIOT_CLIENT_CLI_CHANNELS_H

#include "client/cli/session.h"

struct loop;
struct resolver;
struct rpc_channel;
struct tls;

struct channels {
    struct loop *loop;
    struct tls *tls; /* NULL: cleartext */
    struct resolver *resolver;
    struct servers servers;
    struct rpc_channel *list[SERVER_COUNT_MAX]; /* to each of the servers */
    size_t count;
};

/* errors: an exit code after saying so on standard error; then there is nothing to close. */
MUST_USE int channels_open(struct channels *channels, const struct args *args);

void channels_close(struct channels *channels);

#endif
