/* SPDX-License-Identifier: Apache-2.0
 *
 * Each row of a view as one line of text, each row of the memory store as the line that it should
 * be there; both sorted.
 */
#include "tests/contract/oracle_views.h"

#include "lib/base/buf.h"
#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 1024

/* Columns that all three views have, and the ends of time in them. */
#define SQL_MS(column) "(extract(epoch FROM " column ") * 1000)::bigint"
#define SQL_COMMON                                                                                 \
    "'%s ' || id || ' shard ' || shard || ' queue ' || queue || ' due ' || " SQL_MS(               \
        "due") " || ' created ' || " SQL_MS("created") " || ' attempt ' || attempt || ' failures " \
                                                       "' || "                                     \
                                                       "failures || ' unknowns ' || unknowns || "  \
                                                       "' key ' || coalesce(key, '') || ' tags ' " \
                                                       "|| "                                       \
                                                       "coalesce(tags, '')"

struct lines {
    char **text;
    size_t count;
};

static void add_line(struct lines *lines, const char *text, size_t len)
{
    lines->text = mem_resize(lines->text, (lines->count + 1) * sizeof(char *));
    MUST(lines->text != NULL);
    lines->text[lines->count] = mem_copy(text, len);
    MUST(lines->text[lines->count] != NULL);
    lines->count++;
}

static int compare_lines(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void free_lines(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        mem_free(lines->text[i]);
    }
    mem_free(lines->text);
}

/* Bytes as encode(…, 'escape') shows them. */
static void say_escaped(struct buf *line, struct slice bytes)
{
    for (size_t i = 0; i < bytes.len; i++) {
        if (bytes.data[i] == 0 || bytes.data[i] >= 0x80) {
            (void)buf_printf(line, "\\%03o", bytes.data[i]);
        } else if (bytes.data[i] == '\\') {
            (void)buf_append_text(line, "\\\\");
        } else {
            (void)buf_append(line, &bytes.data[i], 1);
        }
    }
}

/* Lines of tags, on one line. */
static void say_tags(struct buf *line, struct slice tags)
{
    while (tags.len > 0) {
        const uint8_t *end = memchr(tags.data, '\n', tags.len);
        size_t len = (size_t)(end - tags.data);

        say_escaped(line, (struct slice){tags.data, len});
        tags = (struct slice){end + 1, tags.len - len - 1};
        if (tags.len > 0) {
            (void)buf_append_text(line, ", ");
        }
    }
}

static void say_task(struct buf *line, const char *view, uint32_t shard, const struct task *task)
{
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(task->id, id);
    (void)buf_printf(line,
                     "%s %s shard %u queue %u due %lld created %lld attempt %u failures %u "
                     "unknowns %u key ",
                     view, id, shard, task->queue, (long long)task->due_ms,
                     (long long)task->created_ms, task->attempt, task->failures, task->unknowns);
    say_escaped(line, task->key);
    (void)buf_append_text(line, " tags ");
    say_tags(line, task->tags);
}

static void say_expiry(struct buf *line, const struct task *task)
{
    (void)buf_printf(line, " payload %u expires %lld", task->payload_len,
                     (long long)task->expire_ms);
}

/* How an end is called in foliot.ended. */
static const char *how_of(enum task_end end)
{
    return end == TASK_END_DONE ? "done" : end == TASK_END_OBSOLETE ? "obsolete" : "expired";
}

static void expect_pending(struct lines *lines, struct buf *line, const struct store_mem *mem,
                           uint32_t shard)
{
    int64_t bucket = INT64_MIN;
    int64_t seq = 0;
    const struct task *row;

    while ((row = store_mem_row_after(mem, shard, bucket, seq)) != NULL) {
        bucket = due_bucket(row->due_ms);
        seq = row->id.seq;
        buf_clear(line);
        say_task(line, "pending", shard, row);
        say_expiry(line, row);
        add_line(lines, buf_text(line), buf_len(line));
    }
}

static void expect_ended(struct lines *lines, struct buf *line, const struct store_mem *mem,
                         uint32_t shard)
{
    const struct ended_task *row;

    for (int64_t seq = 0; (row = store_mem_dead_after(mem, shard, seq)) != NULL;) {
        seq = row->task.id.seq;
        buf_clear(line);
        say_task(line, "dead", shard, &row->task);
        say_expiry(line, &row->task);
        (void)buf_printf(line, " died %lld error ", (long long)row->ended_ms);
        say_escaped(line, row->error_text);
        add_line(lines, buf_text(line), buf_len(line));
    }
    for (int64_t seq = 0; (row = store_mem_ended_after(mem, shard, seq)) != NULL;) {
        seq = row->task.id.seq;
        buf_clear(line);
        say_task(line, "ended", shard, &row->task);
        (void)buf_printf(line, " ended %lld until %lld %s response %zu", (long long)row->ended_ms,
                         (long long)row->until_ms, how_of(row->end), row->response.len);
        add_line(lines, buf_text(line), buf_len(line));
    }
}

static void read_view(struct lines *lines, PGconn *conn, const char *view, const char *rest)
{
    char sql[3 * LINE_BYTES_MAX];
    char common[LINE_BYTES_MAX];
    PGresult *result;

    (void)snprintf(common, sizeof(common), SQL_COMMON, view);
    (void)snprintf(sql, sizeof(sql), "SELECT %s || %s FROM foliot.%s", common, rest, view);
    result = PQexec(conn, sql);
    if (PQresultStatus(result) != PGRES_TUPLES_OK) {
        must_fail(MUST_HERE, "%s: %s", sql, PQerrorMessage(conn));
    }
    for (int i = 0; i < PQntuples(result); i++) {
        add_line(lines, PQgetvalue(result, i, 0), (size_t)PQgetlength(result, i, 0));
    }
    PQclear(result);
}

static void compare(struct lines *seen, struct lines *expected)
{
    if (seen->count > 0) {
        qsort(seen->text, seen->count, sizeof(char *), compare_lines);
    }
    if (expected->count > 0) {
        qsort(expected->text, expected->count, sizeof(char *), compare_lines);
    }
    for (size_t i = 0; i < seen->count && i < expected->count; i++) {
        if (strcmp(seen->text[i], expected->text[i]) != 0) {
            must_fail(MUST_HERE, "a view has\n  %s\nand it should have\n  %s", seen->text[i],
                      expected->text[i]);
        }
    }
    MUST_EQ(seen->count, expected->count);
}

size_t oracle_views_compare(PGconn *conn, const struct store_mem *mem, uint32_t shard_count)
{
    static const char expiry[] = "' payload ' || octet_length(payload) || ' expires ' || "
                                 "coalesce(" SQL_MS("expires") ", 0)";
    static const char dead[] = "' payload ' || octet_length(payload) || ' expires ' || "
                               "coalesce(" SQL_MS("expires") ", 0) || ' died ' || " SQL_MS(
                                   "died") " || ' error ' || error";
    static const char ended[] = "' ended ' || " SQL_MS("ended") " || ' until ' || " SQL_MS(
        "kept_until") " || ' ' || how || ' response ' || coalesce(octet_length(response), 0)";
    struct lines seen = {NULL, 0};
    struct lines expected = {NULL, 0};
    struct buf line;
    size_t count;

    buf_init(&line, LINE_BYTES_MAX);
    for (uint32_t shard = 0; shard < shard_count; shard++) {
        expect_pending(&expected, &line, mem, shard);
        expect_ended(&expected, &line, mem, shard);
    }
    read_view(&seen, conn, "pending", expiry);
    read_view(&seen, conn, "dead", dead);
    read_view(&seen, conn, "ended", ended);
    compare(&seen, &expected);
    count = seen.count;
    free_lines(&seen);
    free_lines(&expected);
    buf_fini(&line);
    return count;
}
