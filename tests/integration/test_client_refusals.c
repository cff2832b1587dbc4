/* SPDX-License-Identifier: Apache-2.0
 *
 * What makes no sense is refused by libfoliot before it is sent, with the argument, the limit and
 * what to do; nothing that a caller passes ends the process.
 */
#include "lib/base/err.h"
#include "tests/integration/actor.h"
#include "tests/lib/must.h"

#include <string.h>

#define ID ACTOR_ID

static struct foliot_task_name by_id(void)
{
    struct foliot_task_name name;

    foliot_task_name_init(&name);
    name.id = ID;
    return name;
}

static void refused(struct scene *scene, int code, const char *reason, const char *part)
{
    MUST_EQ(code, FOLIOT_INVALID_ARGUMENT);
    MUST_EQ(scene->error.code, FOLIOT_INVALID_ARGUMENT);
    MUST_EQ_TEXT(scene->error.reason, reason);
    MUST_EQ(scene->error.may_have_happened, 0);
    MUST_EQ(scene->error.tries, 0);
    if (strstr(scene->error.message, part) == NULL) {
        must_fail(MUST_HERE, "\"%s\" does not say \"%s\"", scene->error.message, part);
    }
}

static int try_create(struct scene *scene, const struct foliot_create_request *request)
{
    struct foliot_created created;

    return foliot_task_create(scene->client, request, NULL, &created, &scene->error);
}

static void a_create_that_makes_no_sense_is_not_sent(void)
{
    static char long_text[400];
    static struct foliot_tag tags[17];
    struct foliot_create_request plain;
    struct foliot_create_request request;
    struct scene scene;

    open_scene(&scene);
    memset(long_text, 'x', sizeof(long_text) - 1);
    foliot_create_request_init(&plain);
    plain.queue = "q";
    memset(&request, 0, sizeof(request));
    refused(&scene, try_create(&scene, &request), "STRUCT_NOT_SET_UP", "init");
    memset(&request, 0xee, sizeof(request));
    refused(&scene, try_create(&scene, &request), "STRUCT_NOT_SET_UP", "init");
    refused(&scene, try_create(&scene, NULL), "ARGUMENT_MISSING", "NULL");
    request = plain;
    request.key = long_text;
    refused(&scene, try_create(&scene, &request), "KEY_TOO_LONG", "KEY_BYTES_MAX");
    request = plain;
    request.queue = long_text;
    refused(&scene, try_create(&scene, &request), "NAME_INVALID", "NAME_BYTES_MAX");
    request = plain;
    request.payload_size = 1;
    refused(&scene, try_create(&scene, &request), "ARGUMENT_MISSING", "payload");
    request.payload = "x";
    request.payload_size = RPC_MESSAGE_BYTES_MAX;
    refused(&scene, try_create(&scene, &request), "PAYLOAD_TOO_LARGE", "RPC_MESSAGE_BYTES_MAX");
    request = plain;
    request.when = FOLIOT_WHEN_AT;
    request.when_ms = INT64_MAX;
    refused(&scene, try_create(&scene, &request), "TIME_OUT_OF_RANGE", "DUE_WALL_MS_MAX");
    request.when = FOLIOT_WHEN_AFTER;
    refused(&scene, try_create(&scene, &request), "TIME_OUT_OF_RANGE", "DELAY_MS_MAX");
    request = plain;
    request.key_policy = (enum foliot_key_policy)7;
    refused(&scene, try_create(&scene, &request), "ENUM_UNKNOWN", "key_policy");
    request = plain;
    request.tags = tags;
    request.tag_count = ARRAY_COUNT(tags);
    refused(&scene, try_create(&scene, &request), "TAGS_INVALID", "TAG_COUNT_MAX");
    request.tag_count = 1;
    refused(&scene, try_create(&scene, &request), "TAGS_INVALID", "TAG_NAME_BYTES_MAX");
    MUST_EQ(foliot_task_create(scene.client, &plain, NULL, NULL, &scene.error),
            FOLIOT_INVALID_ARGUMENT);
    MUST_EQ(foliot_task_create_async(scene.client, &plain, NULL, NULL, NULL, &scene.error),
            FOLIOT_INVALID_ARGUMENT);
    MUST_EQ(foliot_task_create(NULL, &plain, NULL, NULL, NULL), FOLIOT_INVALID_ARGUMENT);
    MUST_EQ(atomic_load(&seen_count), 0);
    close_scene(&scene);
}

static void other_calls_that_make_no_sense_are_not_sent(void)
{
    struct foliot_task_name name = by_id();
    struct foliot_call_options options;
    struct foliot_list_request list;
    struct foliot_dead_request dead;
    struct foliot_create_request items[2];
    const struct foliot_task_page *page;
    const struct foliot_batch *batch;
    const struct foliot_task *task;
    struct foliot_dead_done done;
    struct scene scene;

    open_scene(&scene);
    name.id = "0a7-123";
    refused(&scene, foliot_task_get(scene.client, &name, NULL, &task, &scene.error), "ID_INVALID",
            "looks like");
    name = by_id();
    foliot_call_options_init(&options);
    options.timeout_ms = -1;
    refused(&scene, foliot_task_get(scene.client, &name, &options, &task, &scene.error),
            "VALUE_OUT_OF_RANGE", "timeout_ms");
    foliot_list_request_init(&list);
    list.page_token = "nonsense";
    refused(&scene, foliot_task_list(scene.client, &list, NULL, &page, &scene.error),
            "TOKEN_INVALID", "nonsense");
    foliot_dead_request_init(&dead);
    dead.rate_per_second = -1;
    refused(&scene, foliot_dead_redrive(scene.client, &dead, NULL, &done, &scene.error),
            "VALUE_OUT_OF_RANGE", "rate_per_second");
    dead.rate_per_second = 0;
    dead.id_count = 1;
    refused(&scene, foliot_dead_purge(scene.client, &dead, NULL, &done, &scene.error),
            "VALUE_OUT_OF_RANGE", "DEAD_CALL_COUNT_MAX");
    refused(&scene, foliot_task_create_batch(scene.client, NULL, 0, NULL, &batch, &scene.error),
            "BATCH_EMPTY", "BATCH_ITEM_COUNT_MAX");
    foliot_create_request_init(&items[0]);
    items[0].queue = "q";
    items[1] = items[0];
    items[1].payload_size = 1;
    refused(&scene, foliot_task_create_batch(scene.client, items, 2, NULL, &batch, &scene.error),
            "ARGUMENT_MISSING", "items[1]");
    refused(&scene,
            foliot_task_create_batch(scene.client, items, 10001, NULL, &batch, &scene.error),
            "BATCH_TOO_LARGE", "10001");
    MUST_EQ(atomic_load(&seen_count), 0);
    close_scene(&scene);
}

/* The header of an older and of a newer library. */
static void structs_of_other_sizes_are_taken_as_far_as_they_are_known(void)
{
    struct {
        struct foliot_create_request known;
        int64_t later;
    } newer;
    struct foliot_create_request older;
    struct scene scene;

    open_scene(&scene);
    foliot_create_request_init(&newer.known);
    newer.known.queue = "q";
    newer.known.struct_size = sizeof(newer);
    newer.later = 0;
    good(&scene, try_create(&scene, &newer.known));
    newer.later = 1;
    MUST_EQ(try_create(&scene, &newer.known), FOLIOT_UNIMPLEMENTED);
    MUST_EQ_TEXT(scene.error.reason, "STRUCT_TOO_NEW");
    older = newer.known;
    older.struct_size = offsetof(struct foliot_create_request, expire_ms);
    // What lies behind an older struct is not looked at.
    memset((unsigned char *)&older + older.struct_size, 0xee, sizeof(older) - older.struct_size);
    good(&scene, try_create(&scene, &older));
    MUST_EQ(seen_create.expire_ms, 0);
    close_scene(&scene);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_create_that_makes_no_sense_is_not_sent),
        MUST_CASE(other_calls_that_make_no_sense_are_not_sent),
        MUST_CASE(structs_of_other_sizes_are_taken_as_far_as_they_are_known),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
