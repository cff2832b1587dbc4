/* SPDX-License-Identifier: Apache-2.0
 *
 * What a command that asks brokers holds while it runs: a session, a request, an answer, an output.
 */
#ifndef FOLIOT_CLIENT_CLI_RUN_H
#define FOLIOT_CLIENT_CLI_RUN_H

#include "client/cli/output.h"
#include "client/cli/session.h"
#include "proto/codec.h"

struct run {
    const struct args *args;
    struct session session;
    struct output output;
    struct buf request;
    struct buf reply;
    struct arena arena; /* what was read of the reply points into it */
    struct fault fault;
};

/*
 * Begin: output and session as the options want them.
 *
 * errors: an exit code after saying so; then there is nothing to close.
 */
MUST_USE int run_open(struct run *run, const struct args *args, const struct output_layout *layout);

/* Close, and return `code`. */
int run_close(struct run *run, int code);

/*
 * Send run->request and wait for the answer, which is then run->reply.
 *
 * shape:  is_repeatable as session_call; `what` was wanted, for the complaint: "create". wrote is
 *         what the codec said of the request.
 * errors: an exit code after saying so.
 */
MUST_USE int run_call(struct run *run, int wrote, const char *path, bool is_repeatable,
                      const char *what);

/* Say that the answer cannot be read, run->fault says why; returns CLI_ERROR. */
int run_refuse_answer(struct run *run);

#endif
