/* SPDX-License-Identifier: Apache-2.0
 *
 * Dead letters as they are read: listed one by one, or counted by their errors.
 */
#include "broker/service_dead.h"

#include "lib/base/err.h"
#include "lib/base/map.h"
#include "lib/base/mem.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* Dead letters of one read. */
#define DEAD_READ_ROWS 500

/* What one call of GroupDead looks at, and how many different errors it tells apart. */
#define GROUP_ROWS_MAX  100000U
#define GROUP_COUNT_MAX 1000U

_Static_assert(DEAD_READ_ROWS <= LIST_PAGE_COUNT_MAX, "a page of another broker is as large");

bool dead_matches(const struct dead_request *request, struct slice error)
{
    struct slice part = request->error_contains;

    for (size_t i = 0; part.len > 0 && i + part.len <= error.len; i++) {
        if (memcmp(error.data + i, part.data, part.len) == 0) {
            return true;
        }
    }
    return part.len == 0;
}

void dead_fill_view(const struct broker *broker, const struct ended_task *letter,
                    struct task_view *view)
{
    service_fill_view(broker, &letter->task, view);
    view->state = TASK_VIEW_DEAD;
    view->ended_ms = letter->ended_ms;
    view->error = letter->error_text;
}

/* ---- ListDead ---- */

struct dead_walk {
    struct walk walk;
    struct dead_request request;
};

static struct dead_walk *dead_of(struct walk *walk)
{
    return CONTAINER_OF(walk, struct dead_walk, walk);
}

static void prepare(struct walk *walk, struct store_read *read)
{
    read->kind = STORE_READ_DEAD;
    read->queue = walk->queue_id;
    read->after_seq = walk->mark.seq;
    read->limit = DEAD_READ_ROWS;
}

static void take_list(struct walk *walk, const struct store_read *read)
{
    struct dead_walk *dead = dead_of(walk);

    for (size_t i = 0; i < read->ended_count && walk->left > 0; i++) {
        const struct ended_task *letter = &read->ended[i];
        struct task_view view;

        walk->mark.seq = letter->task.id.seq;
        if (!dead_matches(&dead->request, letter->error_text)) {
            continue;
        }
        dead_fill_view(walk->service->options.broker, letter, &view);
        if (!dead->request.with_payload) {
            view.payload = (struct slice){NULL, 0};
        }
        walk->left--;
        if (codec_write_dead_item(&view, &walk->items) != 0) {
            walk->left = 0;
        }
    }
    if (walk->left > 0 && read->ended_count < DEAD_READ_ROWS) {
        walk_next_shard(walk);
    }
}

static int write_list(struct walk *walk, struct buf *out)
{
    struct dead_request *request = &dead_of(walk)->request;

    request->count_max = walk->left;
    request->mark = walk->mark;
    return codec_write_dead_list(request, out);
}

static int merge_list(struct walk *walk, struct slice payload, struct arena *arena,
                      const char **token)
{
    struct list_reply reply;
    struct fault fault;
    int err = codec_read_dead_reply(payload, arena, &reply, &fault);

    for (size_t i = 0; err == 0 && i < reply.count && walk->left > 0; i++) {
        struct task_view view;

        err = codec_read_dead_item(&reply, i, &view, &fault);
        if (err == 0) {
            err = codec_write_dead_item(&view, &walk->items);
            walk->left--;
        }
    }
    *token = err == 0 ? reply.next_token : "";
    return err;
}

static int answer_list(struct walk *walk, struct buf *out)
{
    struct slice items = buf_slice(&walk->items);
    int err = buf_append(out, items.data, items.len);

    return err != 0 ? err : codec_write_dead_end(walk->mark, walk_shard_count(walk), out);
}

static const struct walk_verbs LIST_VERBS = {
    .what = "cannot list the dead letters",
    .path = DEAD_LIST_PATH,
    .prepare = prepare,
    .take = take_list,
    .write = write_list,
    .merge = merge_list,
    .answer = answer_list,
};

void service_dead_list(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct walk *walk = walk_new(sizeof(struct dead_walk), ctx, rpc, &LIST_VERBS);
    struct dead_walk *dead;
    struct fault fault;

    if (walk == NULL) {
        return;
    }
    dead = dead_of(walk);
    if (codec_read_dead_list(request, &dead->walk.arena, &dead->request, &fault) != 0) {
        walk_fail(&dead->walk, &fault);
        return;
    }
    dead_start(&dead->walk, &dead->request);
}

void dead_start(struct walk *walk, const struct dead_request *request)
{
    walk->queue = request->queue;
    walk->needs_queue = true;
    walk->mark = request->mark;
    walk->left = request->count_max;
    walk_start(walk);
}

/* ---- GroupDead ---- */

struct group {
    uint64_t count;
    struct task_id example;
    wall_ms first_ms;
    wall_ms last_ms;
    size_t len;
    uint8_t text[];
};

/* The walk's request is that of a list: other brokers are asked for their letters. */
struct group_walk {
    struct walk walk;
    struct dead_request request;
    struct map groups; /* hash of the text → struct group; two texts of one hash are one group */
    uint64_t looked_at;
    bool is_cut; /* there were more groups than are kept */
};

static struct group_walk *group_of(struct walk *walk)
{
    return CONTAINER_OF(walk, struct group_walk, walk);
}

/* The text with # for each number, also a hexadecimal one; returns its length. */
static size_t fingerprint(struct slice error, uint8_t *text)
{
    size_t len = 0;
    size_t i = 0;

    while (i < error.len && len < ERROR_TEXT_BYTES_MAX) {
        size_t end = i;
        bool has_digit = false;

        while (end < error.len && isxdigit(error.data[end]) != 0) {
            has_digit = has_digit || isdigit(error.data[end]) != 0;
            end++;
        }
        if (has_digit) {
            text[len++] = '#';
            i = end;
            continue;
        }
        do {
            text[len++] = error.data[i++];
        } while (i < end && len < ERROR_TEXT_BYTES_MAX);
    }
    return len;
}

static uint64_t hash_of(const uint8_t *text, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ text[i]) * UINT64_C(0x100000001b3);
    }
    return hash;
}

static struct group *new_group(struct group_walk *groups, uint64_t hash, const uint8_t *text,
                               size_t len)
{
    struct group *group = NULL;

    if (map_count(&groups->groups) < GROUP_COUNT_MAX) {
        group = mem_new(1, sizeof(*group) + len);
    }
    if (group != NULL && map_put(&groups->groups, hash, group) != 0) {
        mem_free(group);
        group = NULL;
    }
    if (group == NULL) {
        groups->is_cut = true;
        return NULL;
    }
    group->first_ms = WALL_NEVER;
    group->len = len;
    if (len > 0) {
        memcpy(group->text, text, len);
    }
    return group;
}

static void count_letter(struct group_walk *groups, struct task_id id, struct slice error,
                         wall_ms dead_ms)
{
    uint8_t text[ERROR_TEXT_BYTES_MAX];
    size_t len = fingerprint(error, text);
    uint64_t hash = hash_of(text, len);
    struct group *group = map_find(&groups->groups, hash);

    groups->looked_at++;
    groups->walk.left--;
    if (group == NULL) {
        group = new_group(groups, hash, text, len);
    }
    if (group == NULL) {
        return;
    }
    group->count++;
    group->example = id;
    group->first_ms = time_min(group->first_ms, dead_ms);
    group->last_ms = time_max(group->last_ms, dead_ms);
}

static void take_groups(struct walk *walk, const struct store_read *read)
{
    struct group_walk *groups = group_of(walk);

    for (size_t i = 0; i < read->ended_count && walk->left > 0; i++) {
        const struct ended_task *letter = &read->ended[i];

        walk->mark.seq = letter->task.id.seq;
        count_letter(groups, letter->task.id, letter->error_text, letter->ended_ms);
    }
    if (walk->left > 0 && read->ended_count < DEAD_READ_ROWS) {
        walk_next_shard(walk);
    }
}

static int write_groups(struct walk *walk, struct buf *out)
{
    struct dead_request *request = &group_of(walk)->request;

    request->count_max = walk->left < LIST_PAGE_COUNT_MAX ? walk->left : LIST_PAGE_COUNT_MAX;
    request->mark = walk->mark;
    return codec_write_dead_list(request, out);
}

static int merge_groups(struct walk *walk, struct slice payload, struct arena *arena,
                        const char **token)
{
    struct list_reply reply;
    struct fault fault;
    int err = codec_read_dead_reply(payload, arena, &reply, &fault);

    for (size_t i = 0; err == 0 && i < reply.count && walk->left > 0; i++) {
        struct task_view view;

        err = codec_read_dead_item(&reply, i, &view, &fault);
        if (err == 0) {
            count_letter(group_of(walk), view.id, view.error, view.ended_ms);
        }
    }
    *token = err == 0 ? reply.next_token : "";
    return err;
}

/* The largest first; of equals the one whose text comes first. */
static int compare_groups(const void *a, const void *b)
{
    const struct group *left = *(const struct group *const *)a;
    const struct group *right = *(const struct group *const *)b;
    size_t len = left->len < right->len ? left->len : right->len;
    int order;

    if (left->count != right->count) {
        return left->count > right->count ? -1 : 1;
    }
    order = len == 0 ? 0 : memcmp(left->text, right->text, len);
    return order != 0 ? order : (left->len > right->len) - (left->len < right->len);
}

static int answer_groups(struct walk *walk, struct buf *out)
{
    struct group_walk *groups = group_of(walk);
    size_t count = map_count(&groups->groups);
    struct group **sorted = mem_new(count + 1, sizeof(struct group *));
    struct map_iter iter = {0};
    int err = sorted == NULL ? ERR_NO_MEMORY : 0;

    for (size_t i = 0; err == 0 && i < count; i++) {
        sorted[i] = map_next(&groups->groups, &iter);
    }
    if (err == 0) {
        qsort(sorted, count, sizeof(sorted[0]), compare_groups);
    }
    for (size_t i = 0; err == 0 && i < count && i < DEAD_GROUP_COUNT_MAX; i++) {
        const struct dead_group group = {
            .error = {sorted[i]->text, sorted[i]->len},
            .count = sorted[i]->count,
            .example = sorted[i]->example,
            .first_ms = sorted[i]->first_ms,
            .last_ms = sorted[i]->last_ms,
        };

        err = codec_write_dead_group_item(&group, out);
    }
    mem_free(sorted);
    return err != 0 ? err
                    : codec_write_dead_group_end(
                          groups->looked_at,
                          groups->is_cut || walk->mark.shard < walk_shard_count(walk), out);
}

static void fini_groups(struct walk *walk)
{
    struct group_walk *groups = group_of(walk);
    struct map_iter iter = {0};
    struct group *group;

    while ((group = map_next(&groups->groups, &iter)) != NULL) {
        mem_free(group);
    }
    map_fini(&groups->groups);
}

static const struct walk_verbs GROUP_VERBS = {
    .what = "cannot count the dead letters",
    .path = DEAD_LIST_PATH,
    .prepare = prepare,
    .take = take_groups,
    .write = write_groups,
    .merge = merge_groups,
    .answer = answer_groups,
    .fini = fini_groups,
};

void service_dead_group(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct walk *walk = walk_new(sizeof(struct group_walk), ctx, rpc, &GROUP_VERBS);
    struct group_walk *groups;
    struct fault fault;

    if (walk == NULL) {
        return;
    }
    groups = group_of(walk);
    map_init(&groups->groups, GROUP_COUNT_MAX);
    if (codec_read_dead_group(request, &groups->walk.arena, &groups->request, &fault) != 0) {
        walk_fail(&groups->walk, &fault);
        return;
    }
    groups->request.count_max = GROUP_ROWS_MAX;
    dead_start(&groups->walk, &groups->request);
}
