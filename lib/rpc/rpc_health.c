/* SPDX-License-Identifier: Apache-2.0
 *
 * The health service. Its two messages have one field each and are coded by hand.
 */
#include "lib/rpc/rpc_health.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/list.h"
#include "lib/base/mem.h"
#include "lib/rpc/proto_wire.h"
#include "lib/rpc/rpc_method.h"
#include "lib/rpc/rpc_server.h"

/* HealthCheckResponse.ServingStatus. source: grpc/health/v1/health.proto */
enum serving_status {
    HEALTH_SERVING = 1,
    HEALTH_NOT_SERVING = 2,
    HEALTH_SERVICE_UNKNOWN = 3
};

#define NUMBER_SERVICE 1U   /* of the request */
#define TAG_STATUS     0x08 /* field 1, varint */

struct rpc_health {
    struct rpc_server *server;
    struct rpc_method check;
    struct rpc_method watch;
    struct list watchers;
    bool is_serving;
};

/* A call of Watch, while it lasts. */
struct watcher {
    struct list node;
    struct rpc_call *call;
    enum serving_status told;
};

/* ---- messages ---- */

/* The service asked for: the last field 1, as the protocol wants it; empty if there is none. Other
 * fields are none of this message's and refused. */
static int parse_request(struct slice rest, struct slice *service_out)
{
    *service_out = (struct slice){NULL, 0};
    while (rest.len > 0) {
        struct proto_field field;

        if (proto_wire_next(&rest, &field) != 0 || field.number != NUMBER_SERVICE ||
            field.type != PROTO_BYTES) {
            return ERR_INVALID;
        }
        *service_out = field.bytes;
    }
    return 0;
}

static struct slice response_of(enum serving_status status, uint8_t space[2])
{
    space[0] = TAG_STATUS;
    space[1] = (uint8_t)status;
    return (struct slice){space, 2};
}

/* ---- methods ---- */

static enum serving_status status_of(const struct rpc_health *health, struct slice service)
{
    if (service.len > 0 && !rpc_server_has_service(health->server, service)) {
        return HEALTH_SERVICE_UNKNOWN;
    }
    return health->is_serving ? HEALTH_SERVING : HEALTH_NOT_SERVING;
}

static void fail(struct rpc_call *call, enum rpc_status status, const char *message)
{
    rpc_call_fail(call, status, message, (struct slice){NULL, 0}, 0);
}

static void on_check(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct rpc_health *health = ctx;
    enum serving_status status;
    struct slice service;
    uint8_t space[2];

    if (parse_request(request, &service) != 0) {
        fail(call, RPC_INVALID_ARGUMENT, "the request is no HealthCheckRequest");
        return;
    }
    status = status_of(health, service);
    if (status == HEALTH_SERVICE_UNKNOWN) {
        fail(call, RPC_NOT_FOUND, "there is no such service");
        return;
    }
    rpc_call_reply(call, response_of(status, space));
}

static void end_watch(struct rpc_call *call, void *ctx)
{
    struct watcher *watcher = ctx;

    list_del(&watcher->node);
    mem_free(watcher);
    fail(call, RPC_CANCELLED, "cancelled");
}

static void tell(struct watcher *watcher, enum serving_status status)
{
    uint8_t space[2];

    watcher->told = status;
    if (rpc_call_send(watcher->call, response_of(status, space)) != 0) {
        struct rpc_call *call = watcher->call;

        list_del(&watcher->node);
        mem_free(watcher);
        fail(call, RPC_RESOURCE_EXHAUSTED, "the client does not read");
    }
}

static void on_watch(struct rpc_call *call, struct slice request, void *ctx)
{
    struct rpc_health *health = ctx;
    struct watcher *watcher;
    struct slice service;

    if (parse_request(request, &service) != 0) {
        fail(call, RPC_INVALID_ARGUMENT, "the request is no HealthCheckRequest");
        return;
    }
    watcher = mem_new(1, sizeof(*watcher));
    if (watcher == NULL) {
        fail(call, RPC_RESOURCE_EXHAUSTED, "out of memory");
        return;
    }
    watcher->call = call;
    list_init(&watcher->node);
    list_add(&health->watchers, &watcher->node);
    rpc_call_on_cancel(call, end_watch, watcher);
    tell(watcher, status_of(health, service));
}

/* ---- life ---- */

int rpc_health_open(struct rpc_server *server, struct rpc_health **out)
{
    struct rpc_health *health = mem_new(1, sizeof(*health));
    int err;

    if (health == NULL) {
        return ERR_NO_MEMORY;
    }
    health->server = server;
    list_init(&health->watchers);
    health->check = (struct rpc_method){
        .path = "/grpc.health.v1.Health/Check", .handler = on_check, .ctx = health};
    health->watch = (struct rpc_method){.path = "/grpc.health.v1.Health/Watch",
                                        .handler = on_watch,
                                        .ctx = health,
                                        .is_endless = true};
    err = rpc_server_add(server, &health->check);
    if (err == 0) {
        err = rpc_server_add(server, &health->watch);
    }
    if (err != 0) { // A method that was added would point into freed memory: the server must go.
        mem_free(health);
        return err;
    }
    *out = health;
    return 0;
}

void rpc_health_set(struct rpc_health *health, bool is_serving)
{
    health->is_serving = is_serving;
    list_foreach_safe (node, after, &health->watchers) {
        struct watcher *watcher = LIST_ENTRY(node, struct watcher, node);
        enum serving_status status = is_serving ? HEALTH_SERVING : HEALTH_NOT_SERVING;

        // Services are all known before the first call, so an unknown one stays unknown.
        if (watcher->told != HEALTH_SERVICE_UNKNOWN && watcher->told != status) {
            tell(watcher, status);
        }
    }
}

void rpc_health_close(struct rpc_health *health)
{
    mem_free(health);
}
