/* SPDX-License-Identifier: Apache-2.0
 *
 * A batch of libfoliot over two played brokers: its parts go to the owners of their items, and what
 * each part comes to is told of its own items, in the order in which they were given.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "proto/codec_cluster.h"
#include "proto/codec_list.h"
#include "proto/route.h"
#include "tests/lib/must.h"
#include "tests/lib/played.h"

#include <foliot.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ITEMS 100

/* How a broker answers a batch. */
enum mood {
    MOOD_GOOD = 0,
    MOOD_REFUSES, /* the call as a whole */
    MOOD_SHORT,   /* with one result too few */
    MOOD_STRANGE, /* with fields of a newer version between the results */
    MOOD_SILENT   /* never */
};

/* Broker 0 owns the even slots, broker 1 the odd ones. */
struct broker {
    struct played played;
    enum mood mood;
    atomic_uint items; /* that came */
    atomic_uint calls;
};

static struct broker brokers[2];

static void fail(struct rpc_call *call, void *ctx)
{
    (void)ctx;
    rpc_call_fail(call, RPC_CANCELLED, "gone", (struct slice){NULL, 0}, 0);
}

/* Each key is the number of its item; so is the id of its task. */
static void answer_item(const struct create_request *item, struct buf *out)
{
    struct create_reply reply = {.created = true, .due_ms = 1};
    struct fault fault;
    int number = (int)strtol((const char *)item->key.data, NULL, 10);

    reply.id.slot = route_key_slot("default", "q", item->key);
    reply.id.seq = number + 1;
    fault_set(&fault, RPC_NOT_FOUND, "NO", "items[0].key", "item %d is refused", number);
    MUST_OK(codec_write_batch_result(&reply, number % 10 == 9 ? &fault : NULL, out));
}

static void write_results(struct broker *broker, const struct create_batch *batch, struct buf *out)
{
    static const uint8_t later[] = {0x10, 0x96, 0x01,                      /* 2: varint */
                                    0x19, 1,    2,    3,   4,  5, 6, 7, 8, /* 3: fixed64 */
                                    0x25, 1,    2,    3,   4,              /* 4: fixed32 */
                                    0x2a, 3,    'n',  'e', 'w'};           /* 5: bytes */
    size_t count = batch->count - (broker->mood == MOOD_SHORT);

    for (size_t i = 0; i < count; i++) {
        struct create_request item;
        struct fault fault;

        MUST_OK(codec_read_batch_item(batch, i, &item, &fault));
        MUST_EQ(route_key_slot("default", "q", item.key) % 2, broker == &brokers[1]);
        answer_item(&item, out);
        if (broker->mood == MOOD_STRANGE) {
            MUST_OK(buf_append(out, later, sizeof(later)));
        }
    }
}

static void on_batch(struct rpc_call *call, struct slice request, void *ctx)
{
    struct broker *broker = ctx;
    struct create_batch batch;
    struct arena arena;
    struct fault fault;
    struct buf out;

    arena_init(&arena, 0);
    buf_init(&out, RPC_MESSAGE_BYTES_MAX);
    MUST_OK(codec_read_batch(request, &arena, &batch, &fault));
    atomic_fetch_add(&broker->items, (unsigned)batch.count);
    atomic_fetch_add(&broker->calls, 1);
    if (broker->mood == MOOD_REFUSES) {
        rpc_call_fail(call, RPC_PERMISSION_DENIED, "not you", (struct slice){NULL, 0}, 0);
    } else if (broker->mood == MOOD_SILENT) {
        rpc_call_on_cancel(call, fail, NULL);
    } else {
        write_results(broker, &batch, &out);
        rpc_call_reply(call, buf_slice(&out));
    }
    buf_fini(&out);
    arena_fini(&arena);
}

static void write_broker(struct buf *out, const char *name, const char *address)
{
    MUST_OK(codec_write_topology_broker(&(struct broker_view){.name = name,
                                                              .instance = name,
                                                              .grpc_address = address,
                                                              .admin_address = "",
                                                              .version = "",
                                                              .started_ms = WALL_NEVER},
                                        out));
}

static void on_topology(struct rpc_call *call, struct slice request, void *ctx)
{
    static const char *const names[] = {"even", "odd"};
    struct buf out;

    (void)request;
    (void)ctx;
    buf_init(&out, 65536);
    MUST_OK(codec_write_topology_head(&(struct topology_head){"c", "even", 2, SLOT_COUNT}, &out));
    for (uint32_t i = 0; i < 2; i++) {
        write_broker(&out, names[i], brokers[i].played.address);
        MUST_OK(codec_write_topology_shard(&(struct shard_owner_view){.shard = i,
                                                                      .database = "db0",
                                                                      .owner = names[i],
                                                                      .instance = names[i],
                                                                      .since_ms = WALL_NEVER},
                                           &out));
    }
    rpc_call_reply(call, buf_slice(&out));
    buf_fini(&out);
}

/* ---- the scene ---- */

static struct foliot_client *open_scene(enum mood even, enum mood odd)
{
    struct foliot_client_stats stats;
    struct foliot_options options;
    const struct foliot_topology *topology;
    struct foliot_client *client;

    for (int i = 0; i < 2; i++) {
        const struct rpc_method methods[] = {
            {.path = "/foliot.v1.TaskService/BatchCreate", .handler = on_batch, .ctx = &brokers[i]},
            {.path = "/foliot.v1.ClusterService/GetTopology", .handler = on_topology},
        };

        brokers[i].mood = i == 0 ? even : odd;
        played_start(&brokers[i].played, methods, ARRAY_COUNT(methods));
    }
    foliot_options_init(&options);
    options.servers = brokers[0].played.address;
    options.timeout_ms = 30000;
    MUST_EQ(foliot_client_open(&options, &client, NULL), FOLIOT_OK);
    do { // The first call makes it learn.
        MUST_EQ(foliot_topology_get(client, NULL, &topology, NULL), FOLIOT_OK);
        foliot_topology_free(topology);
        foliot_client_get_stats(client, &stats);
    } while (stats.brokers < 2);
    return client;
}

static void close_scene(struct foliot_client *client)
{
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    played_stop(&brokers[0].played);
    played_stop(&brokers[1].played);
}

static char keys[ITEMS][16];

static void fill_items(struct foliot_create_request *items)
{
    for (int i = 0; i < ITEMS; i++) {
        (void)snprintf(keys[i], sizeof(keys[i]), "%d", i);
        foliot_create_request_init(&items[i]);
        items[i].queue = "q";
        items[i].key = keys[i];
    }
}

static bool is_odd(int number)
{
    return route_key_slot("default", "q", slice_of(keys[number])) % 2 == 1;
}

static int create(struct foliot_client *client, const struct foliot_batch **batch,
                  struct foliot_error *error)
{
    static struct foliot_create_request items[ITEMS];

    fill_items(items);
    return foliot_task_create_batch(client, items, ITEMS, NULL, batch, error);
}

/* Results of the items of one broker, or of both (−1), are as a good one gives them. */
static void check_good(const struct foliot_batch *batch, int broker)
{
    for (int i = 0; i < ITEMS; i++) {
        const struct foliot_batch_result *result = &batch->results[i];
        char text[32];

        if (broker >= 0 && is_odd(i) != (broker == 1)) {
            continue;
        }
        if (i % 10 == 9) {
            (void)snprintf(text, sizeof(text), "items[%d].key", i);
            MUST_EQ(result->code, FOLIOT_NOT_FOUND);
            MUST_EQ_TEXT(result->field, text);
            (void)snprintf(text, sizeof(text), "item %d is refused", i);
            MUST_EQ_TEXT(result->message, text);
        } else {
            (void)snprintf(text, sizeof(text), "-%016x", (unsigned)i + 1);
            MUST_EQ(result->code, FOLIOT_OK);
            MUST_EQ_TEXT(result->id + 3, text);
        }
    }
}

/* ---- cases ---- */

static void parts_go_to_their_owners_and_results_keep_the_order(void)
{
    const struct foliot_batch *batch;
    struct foliot_client *client;
    struct foliot_error error;
    int64_t blocks = mem_block_count();

    client = open_scene(MOOD_GOOD, MOOD_GOOD);
    MUST_EQ(create(client, &batch, &error), FOLIOT_OK);
    MUST_EQ(batch->count, ITEMS);
    MUST_EQ(batch->failed, ITEMS / 10);
    MUST_EQ(error.tries, 1);
    check_good(batch, -1);
    foliot_batch_free(batch);
    MUST(atomic_load(&brokers[0].items) > 20 && atomic_load(&brokers[1].items) > 20);
    MUST_EQ(atomic_load(&brokers[0].items) + atomic_load(&brokers[1].items), ITEMS);
    MUST(atomic_load(&brokers[0].calls) == 1 && atomic_load(&brokers[1].calls) == 1);
    close_scene(client);
    MUST_EQ(mem_block_count(), blocks);
}

static void a_part_that_fails_fails_for_its_own_items(void)
{
    const struct foliot_batch *batch;
    struct foliot_client *client = open_scene(MOOD_GOOD, MOOD_REFUSES);
    struct foliot_error error;

    MUST_EQ(create(client, &batch, &error), FOLIOT_OK);
    check_good(batch, 0);
    for (int i = 0; i < ITEMS; i++) {
        if (is_odd(i)) {
            MUST_EQ(batch->results[i].code, FOLIOT_PERMISSION_DENIED);
            MUST_EQ_TEXT(batch->results[i].message, "not you");
        }
    }
    foliot_batch_free(batch);
    close_scene(client);
}

static void a_call_fails_when_all_its_parts_do(void)
{
    const struct foliot_batch *batch;
    struct foliot_client *client = open_scene(MOOD_REFUSES, MOOD_REFUSES);
    struct foliot_error error;

    MUST_EQ(create(client, &batch, &error), FOLIOT_PERMISSION_DENIED);
    MUST_EQ_TEXT(error.message, "not you");
    MUST_EQ(error.may_have_happened, 0);
    close_scene(client);
}

static void an_answer_with_too_few_results_is_no_answer(void)
{
    const struct foliot_batch *batch;
    struct foliot_client *client = open_scene(MOOD_SHORT, MOOD_GOOD);
    struct foliot_error error;

    MUST_EQ(create(client, &batch, &error), FOLIOT_OK);
    check_good(batch, 1);
    for (int i = 0; i < ITEMS; i++) {
        if (!is_odd(i)) {
            MUST_EQ(batch->results[i].code, FOLIOT_OUTCOME_UNKNOWN);
        }
    }
    foliot_batch_free(batch);
    close_scene(client);
}

static void what_a_newer_broker_says_besides_is_passed_over(void)
{
    const struct foliot_batch *batch;
    struct foliot_client *client = open_scene(MOOD_STRANGE, MOOD_GOOD);
    struct foliot_error error;

    MUST_EQ(create(client, &batch, &error), FOLIOT_OK);
    check_good(batch, -1);
    foliot_batch_free(batch);
    close_scene(client);
}

static void on_stopped(const struct foliot_error *error, const struct foliot_batch *batch,
                       void *ctx)
{
    atomic_int *count = ctx;

    MUST_EQ(error->code, FOLIOT_OUTCOME_UNKNOWN);
    MUST(batch == NULL);
    atomic_fetch_add(count, 1);
}

static void a_stop_ends_parts_that_wait(void)
{
    static struct foliot_create_request items[ITEMS];
    struct foliot_client *client = open_scene(MOOD_SILENT, MOOD_SILENT);
    atomic_int count = 0;

    fill_items(items);
    MUST_EQ(foliot_task_create_batch_async(client, items, ITEMS, NULL,
                                           (struct foliot_batch_callback){on_stopped, &count},
                                           NULL),
            FOLIOT_OK);
    MUST_SOON(atomic_load(&brokers[0].calls) == 1 && atomic_load(&brokers[1].calls) == 1, 10000);
    close_scene(client);
    MUST_EQ(atomic_load(&count), 1);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(parts_go_to_their_owners_and_results_keep_the_order),
        MUST_CASE(a_part_that_fails_fails_for_its_own_items),
        MUST_CASE(a_call_fails_when_all_its_parts_do),
        MUST_CASE(an_answer_with_too_few_results_is_no_answer),
        MUST_CASE(what_a_newer_broker_says_besides_is_passed_over),
        MUST_CASE(a_stop_ends_parts_that_wait),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
