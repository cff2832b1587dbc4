/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tests of lib/rpc share: a server, a name server and a channel in one loop, a call that
 * remembers what came of it, and the means to wait for the events themselves.
 */
#ifndef FOLIOT_TESTS_INTEGRATION_RPC_WORLD_H
#define FOLIOT_TESTS_INTEGRATION_RPC_WORLD_H

#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_server.h"
#include "tests/lib/fake_dns.h"

#define ECHO "/foliot.test.Peer/Echo"
#define WAIT "/foliot.test.Peer/Wait"
#define TELL "/foliot.test.Peer/Tell"

struct world {
    struct loop *loop;
    struct resolver *resolver;
    struct fake_dns dns;
    struct rpc_server *server;
    struct rpc_channel *channel;
    struct rpc_call *held; /* the last call of Wait */
    int held_count;
    int cancelled_count;
    int replies;
    int sent_count;
    bool is_closed; /* the callback of the last close has come */
    bool is_drained;
    uint16_t port;
    char target[64];
};

/* One call and what came of it. */
struct ask {
    struct rpc_request request;
    struct world *world;
    enum rpc_status status;
    bool is_ended;
    bool unprocessed;
    bool was_sent;
    bool from_peer;
    bool has_pushback;
    bool allows_send;
    span_ms pushback_ms;
    size_t payload_len;
    boot_us sent_us;
    char message[128];
    char payload[128];
    char details[32];
    struct ask *next; /* started by this one's callback */
};

/* Turn the loop until an event has made the condition true; the case's time limit ends the rest. */
#define TURN_UNTIL(world, condition)        \
    do {                                    \
        while (!(condition)) {              \
            loop_turn((world)->loop, true); \
        }                                   \
    } while (0)

/* A world with a resolver and a name server that knows no name; close_world requires that nothing
 * is leaked, closing channel and server first if they are open. */
struct world *open_world(void);
void close_world(struct world *world);

/* A world with a server and a channel to it. The changes to the options may be NULL. */
struct world *open_pair(void (*change_server)(struct rpc_server_options *),
                        void (*change_channel)(struct rpc_channel_options *));

/* Serve ECHO, WAIT (held until answered or cancelled) and TELL (fails, telling the metadata) on
 * world->port, 0 for any. */
void open_server(struct world *world, void (*change)(struct rpc_server_options *));
void close_server(struct world *world);

/* Replaces world->channel; the one before is the caller's. */
void open_channel(struct world *world, const char *target,
                  void (*change)(struct rpc_channel_options *));
void close_channel(struct world *world);

/* Fill a call without a deadline; start it on world->channel and require that no callback comes
 * from inside. */
void prepare(struct ask *ask, struct world *world, const char *path, const char *payload);
int start(struct ask *ask);

/* The boot time in so many milliseconds. */
boot_us in_ms(const struct world *world, span_ms delay_ms);

/* mem_new that must succeed. */
void *must_new(size_t count, size_t size);

/* Handler of ECHO; callbacks that set is_closed and is_drained. */
void on_echo(struct rpc_call *call, struct slice request, void *ctx);
void on_closed(void *ctx);
void on_drained(void *ctx);

#endif
