/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients of a coordinator for the tests: a coordinator, and what it was told. Knows no
 * implementation; the program defines the five world_ functions that are declared below.
 */
#ifndef FOLIOT_TESTS_CONTRACT_COORD_CLIENT_H
#define FOLIOT_TESTS_CONTRACT_COORD_CLIENT_H

#include "coordinator/coord.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "tests/lib/must.h"

#include <stdio.h>
#include <string.h>

#define WORLD_SHARD_COUNT 8U

/* Longest wait for an event that must come: generous, for a loaded machine. */
#define WORLD_LIMIT_MS 20000

struct client {
    struct coord *coord;
    struct member self;
    enum coord_session sessions[16]; /* as told, in order */
    size_t session_count;
    struct member members[8]; /* as told last */
    size_t member_count;
    size_t members_told_count;
    uint32_t free_count[WORLD_SHARD_COUNT];
    uint32_t lost_count[WORLD_SHARD_COUNT];
    int64_t config_version;
    bool is_closed;
    bool is_submitting; /* inside submit: no callback and no event may run */
};

/* A request and whether it has been answered. */
struct asked {
    struct coord_request request;
    struct client *client;
    unsigned answer_count;
};

/* ---- what a world provides ---- */

/* A fresh cluster. */
static void world_open(const char *title);

/* A new coordinator for client->self, with client_events(client). */
static void world_add(struct client *client);

/* Let a little time pass and everything that is due happen. */
static void world_turn(void);

/* Milliseconds that have passed in this world, for limits. */
static int64_t world_now_ms(void);

/* End of the case. */
static void world_close(void);

/* ---- clients ---- */

static void client_on_session(void *ctx, enum coord_session session)
{
    struct client *client = ctx;

    MUST(!client->is_submitting);
    MUST(client->session_count < ARRAY_COUNT(client->sessions));
    client->sessions[client->session_count++] = session;
}

static void client_on_members(void *ctx, const struct member *members, size_t count)
{
    struct client *client = ctx;

    MUST(!client->is_submitting);
    MUST(count <= ARRAY_COUNT(client->members));
    for (size_t i = 1; i < count; i++) {
        MUST(strcmp(members[i - 1].name, members[i].name) < 0);
    }
    memcpy(client->members, members, count * sizeof(*members));
    client->member_count = count;
    client->members_told_count++;
}

static void client_on_shard_free(void *ctx, uint32_t shard)
{
    struct client *client = ctx;

    MUST(!client->is_submitting && shard < WORLD_SHARD_COUNT);
    client->free_count[shard]++;
}

static void client_on_shard_lost(void *ctx, uint32_t shard)
{
    struct client *client = ctx;

    MUST(!client->is_submitting && shard < WORLD_SHARD_COUNT);
    client->lost_count[shard]++;
}

static void client_on_config(void *ctx, int64_t version)
{
    struct client *client = ctx;

    MUST(!client->is_submitting);
    client->config_version = version;
}

static UNUSED struct coord_events client_events(struct client *client)
{
    return (struct coord_events){
        .on_session = client_on_session,
        .on_members = client_on_members,
        .on_shard_free = client_on_shard_free,
        .on_shard_lost = client_on_shard_lost,
        .on_config = client_on_config,
        .ctx = client,
    };
}

/* Wait until a condition holds. */
#define WORLD_UNTIL(condition)                                           \
    do {                                                                 \
        int64_t world_end_ms = world_now_ms() + WORLD_LIMIT_MS;          \
        while (!(condition)) {                                           \
            if (world_now_ms() > world_end_ms) {                         \
                must_fail(MUST_HERE, "never came true: %s", #condition); \
            }                                                            \
            world_turn();                                                \
        }                                                                \
    } while (0)

static bool client_is(const struct client *client, enum coord_session session)
{
    return client->session_count > 0 && client->sessions[client->session_count - 1] == session;
}

/* shape: instance is one hex digit, repeated. */
static void client_open(struct client *client, const char *name, char instance)
{
    memset(client, 0, sizeof(*client));
    (void)snprintf(client->self.name, sizeof(client->self.name), "%s", name);
    memset(client->self.instance, instance, INSTANCE_TEXT_LEN);
    (void)snprintf(client->self.grpc, sizeof(client->self.grpc), "127.0.0.1:1%c", instance);
    (void)snprintf(client->self.version, sizeof(client->self.version), "0.1.0");
    client->self.started_ms = 1700000000000;
    client->config_version = -1;
    world_add(client);
    WORLD_UNTIL(client_is(client, COORD_NEW));
}

static void client_on_close(void *ctx)
{
    struct client *client = ctx;

    client->is_closed = true;
}

static void client_close(struct client *client)
{
    client->coord->close(client->coord, client_on_close, client);
    WORLD_UNTIL(client->is_closed);
}

static void asked_cb(struct coord_request *request)
{
    struct asked *asked = request->owner;

    MUST(!asked->client->is_submitting);
    MUST(!asked->client->is_closed);
    asked->answer_count++;
}

static void ask(struct client *client, struct asked *asked)
{
    asked->client = client;
    asked->answer_count = 0;
    asked->request.owner = asked;
    asked->request.cb = asked_cb;
    client->is_submitting = true;
    MUST_OK(client->coord->submit(client->coord, &asked->request));
    client->is_submitting = false;
    MUST_EQ(asked->answer_count, 0);
}

/* Ask and wait: the result, and the generation through the last argument (NULL: not wanted). */
static UNUSED int ask_shard(struct client *client, enum coord_request_kind kind, uint32_t shard,
                            int64_t *generation)
{
    struct asked asked = {.request = {.kind = kind,
                                      .shard = shard,
                                      .epoch = 300,
                                      .state = COORD_ACTIVE,
                                      .member = &client->self}};

    ask(client, &asked);
    WORLD_UNTIL(asked.answer_count > 0);
    MUST_EQ(asked.answer_count, 1);
    if (generation != NULL) {
        *generation = asked.request.generation;
    }
    return asked.request.result;
}

#endif
