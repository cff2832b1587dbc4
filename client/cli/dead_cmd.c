/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot dead list, groups, redrive, purge.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/confirm.h"
#include "client/cli/moment.h"
#include "client/cli/options.h"
#include "client/cli/run.h"
#include "proto/codec_dead.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LIST_PATH    "/foliot.v1.QueueService/ListDead"
#define GROUP_PATH   "/foliot.v1.QueueService/GroupDead"
#define REDRIVE_PATH "/foliot.v1.QueueService/RedriveDead"
#define PURGE_PATH   "/foliot.v1.QueueService/PurgeDead"

/* Dead letters that are shown if --limit does not say. */
#define LIST_LIMIT_DEFAULT 1000

/* Most tasks a second of --rate. */
#define RATE_MAX INT64_C(1000000)

/* Given each dead letter of a walk. Returns CLI_OK to go on. */
typedef int (*dead_cb)(struct run *run, const struct task_view *view);

/* --queue, --error and the ids. shape: ids has DEAD_CALL_COUNT_MAX. */
static int read_request(const struct args *args, struct task_id *ids, struct dead_request *out)
{
    memset(out, 0, sizeof(*out));
    options_queue(args, &out->queue);
    out->error_contains = slice_of(args_text(args, "error", ""));
    out->mark = page_start();
    out->count_max = LIST_PAGE_COUNT_MAX;
    if (out->queue.name[0] == '\0') {
        return cli_usage("name the queue: --queue NAME");
    }
    if (out->error_contains.len > DEAD_FILTER_BYTES_MAX) {
        return cli_usage("--error has more than %d bytes (DEAD_FILTER_BYTES_MAX)",
                         DEAD_FILTER_BYTES_MAX);
    }
    for (size_t i = 0; i < args->operand_count; i++) {
        if (task_id_parse(slice_of(args->operands[i]), &ids[i]) != 0) {
            return cli_usage("\"%s\" is no task id; one looks like 0a7-0000012300000001",
                             args->operands[i]);
        }
    }
    out->ids = ids;
    out->id_count = args->operand_count;
    return CLI_OK;
}

/* Where the next page begins; an empty token is the end. */
static int read_mark(const char *token, struct page_mark *out)
{
    if (token[0] != '\0' && page_parse(token, out) != 0) {
        cli_say("the answer cannot be read: its next_page_token is none of ours");
        return CLI_ERROR;
    }
    return CLI_OK;
}

/* One page; cb may be NULL. shape: next_token as walk_dead. */
static int walk_page(struct run *run, struct dead_request *request, dead_cb cb, uint64_t *count,
                     char *next_token)
{
    struct list_reply reply;
    struct task_view view;
    int code;

    buf_clear(&run->request);
    code = run_call(run, codec_write_dead_list(request, &run->request), LIST_PATH, true, "list");
    if (code != CLI_OK) {
        return code;
    }
    if (codec_read_dead_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    for (size_t i = 0; i < reply.count && cb != NULL && code == CLI_OK; i++) {
        if (codec_read_dead_item(&reply, i, &view, &run->fault) != 0) {
            return run_refuse_answer(run);
        }
        code = cb(run, &view);
    }
    *count += reply.count;
    (void)snprintf(next_token, PAGE_TOKEN_BYTES_MAX + 1, "%s", reply.next_token);
    if (code == CLI_OK) {
        code = output_page(&run->output);
    }
    return code == CLI_OK ? read_mark(next_token, &request->mark) : code;
}

/* All pages, up to count_max (0: all). shape: next_token is "" if there is nothing behind; it has
 * PAGE_TOKEN_BYTES_MAX + 1 bytes. */
static int walk_dead(struct run *run, struct dead_request *request, uint64_t count_max, dead_cb cb,
                     uint64_t *count, char *next_token)
{
    int code = CLI_OK;

    *count = 0;
    do {
        uint64_t left = count_max == 0 ? LIST_PAGE_COUNT_MAX : count_max - *count;

        request->count_max = (uint32_t)(left < LIST_PAGE_COUNT_MAX ? left : LIST_PAGE_COUNT_MAX);
        code = walk_page(run, request, cb, count, next_token);
    } while (code == CLI_OK && next_token[0] != '\0' && (count_max == 0 || *count < count_max));
    return code;
}

/* ---- list ---- */

static const struct output_column LIST_COLUMNS[] = {
    {"ID", false},    {"KEY", false}, {"DIED", false},   {"ATTEMPT", false}, {"FAILURES", true},
    {"ERROR", false}, {"DUE", true},  {"CREATED", true}, {"PAYLOAD", true},  {"ORDER KEY", true},
};
static const struct output_layout LIST_LAYOUT = {LIST_COLUMNS, ARRAY_COUNT(LIST_COLUMNS), 0,
                                                 "dead"};

static void dead_json(struct json *json, const struct task_view *view)
{
    char id[TASK_ID_TEXT_LEN + 1];

    task_id_format(view->id, id);
    json_open(json, NULL, '{');
    json_text(json, "id", id);
    json_slice(json, "key", view->key);
    if (view->order_key.len > 0) {
        json_slice(json, "orderKey", view->order_key);
    }
    json_time(json, "dueTime", view->due_ms);
    json_time(json, "createTime", view->created_ms);
    json_time(json, "deadTime", view->ended_ms);
    json_int(json, "attempt", view->attempt);
    json_int(json, "failures", view->failures);
    json_slice(json, "error", view->error);
    json_bytes(json, "payload", view->payload);
    json_tags(json, "tags", view->tags);
    json_close(json, '}');
}

static int list_one(struct run *run, const struct task_view *view)
{
    char id[TASK_ID_TEXT_LEN + 1];
    char key[KEY_BYTES_MAX + 1];
    char order_key[ORDER_KEY_BYTES_MAX + 1];
    char error[ERROR_TEXT_BYTES_MAX + 1];
    char times[3][TIMETEXT_BYTES];
    char numbers[3][24];

    if (output_wants_json(&run->output)) {
        dead_json(output_json(&run->output), view);
        output_json_done(&run->output);
        return CLI_OK;
    }
    task_id_format(view->id, id);
    (void)snprintf(key, sizeof(key), "%.*s", (int)view->key.len, (const char *)view->key.data);
    (void)snprintf(order_key, sizeof(order_key), "%.*s", (int)view->order_key.len,
                   (const char *)view->order_key.data);
    (void)snprintf(error, sizeof(error), "%.*s", (int)view->error.len,
                   (const char *)view->error.data);
    moment_write(view->ended_ms, times[0]);
    moment_write(view->due_ms, times[1]);
    moment_write(view->created_ms, times[2]);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu32, view->attempt);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu32, view->failures);
    (void)snprintf(numbers[2], sizeof(numbers[2]), "%zu bytes", view->payload.len);
    output_row(&run->output, (const char *const[]){id, key, times[0], numbers[0], numbers[1], error,
                                                   times[1], times[2], numbers[2], order_key});
    return CLI_OK;
}

static int print_list(struct run *run, const char *next_token)
{
    struct json *tail = output_json_tail(&run->output);
    int code;

    if (tail != NULL) {
        json_text(tail, "nextPageToken", next_token);
    }
    code = output_end(&run->output);
    if (next_token[0] != '\0') {
        cli_say("there are more: --limit 0 shows all, --page-token %s goes on", next_token);
    }
    return code;
}

static int dead_list(const struct args *args)
{
    const char *token = args_text(args, "page-token", "");
    char next_token[PAGE_TOKEN_BYTES_MAX + 1] = "";
    int64_t limit = LIST_LIMIT_DEFAULT;
    struct dead_request request;
    struct run run;
    uint64_t count;
    int code;

    if (args_number(args, "limit", 0, INT64_MAX / 16, &limit) != 0) {
        return CLI_USAGE;
    }
    code = run_open(&run, args, &LIST_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    code = read_request(args, NULL, &request);
    request.with_payload = args_has(args, "with-payload");
    if (code == CLI_OK && page_parse(token, &request.mark) != 0) {
        code = cli_usage(
            "--page-token \"%.70s\" is none: give the nextPageToken of the page before", token);
    }
    if (code == CLI_OK) {
        code = walk_dead(&run, &request, (uint64_t)limit, list_one, &count, next_token);
    }
    if (code == CLI_OK) {
        code = print_list(&run, next_token);
    }
    return run_close(&run, code);
}

/* ---- groups ---- */

static const struct output_column GROUP_COLUMNS[] = {
    {"COUNT", false}, {"ERROR", false}, {"EXAMPLE", false}, {"FIRST", true}, {"LAST", false}};
static const struct output_layout GROUP_LAYOUT = {GROUP_COLUMNS, ARRAY_COUNT(GROUP_COLUMNS), 1,
                                                  "groups"};

static void add_group(struct output *output, const struct dead_group *group)
{
    char id[TASK_ID_TEXT_LEN + 1];
    char count[24];
    char error[ERROR_TEXT_BYTES_MAX + 1];
    char times[2][TIMETEXT_BYTES];

    task_id_format(group->example, id);
    if (output_wants_json(output)) {
        struct json *json = output_json(output);

        json_open(json, NULL, '{');
        json_slice(json, "error", group->error);
        json_int64(json, "count", (int64_t)group->count);
        json_text(json, "exampleId", id);
        json_time(json, "firstDeadTime", group->first_ms);
        json_time(json, "lastDeadTime", group->last_ms);
        json_close(json, '}');
        output_json_done(output);
        return;
    }
    (void)snprintf(count, sizeof(count), "%" PRIu64, group->count);
    (void)snprintf(error, sizeof(error), "%.*s", (int)group->error.len,
                   (const char *)group->error.data);
    moment_write(group->first_ms, times[0]);
    moment_write(group->last_ms, times[1]);
    output_row(output, (const char *const[]){count, error, id, times[0], times[1]});
}

static int print_groups(struct run *run)
{
    struct dead_groups groups;
    struct dead_group group;
    struct json *tail;

    if (codec_read_dead_groups(buf_slice(&run->reply), &run->arena, &groups, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    for (size_t i = 0; i < groups.count; i++) {
        if (codec_read_dead_group_item(&groups, i, &group, &run->fault) != 0) {
            return run_refuse_answer(run);
        }
        add_group(&run->output, &group);
    }
    tail = output_json_tail(&run->output);
    if (tail != NULL) {
        json_int64(tail, "lookedAt", (int64_t)groups.looked_at);
        json_bool(tail, "isPartial", groups.is_partial);
    } else if (groups.is_partial) {
        cli_say("counted %" PRIu64 ", there are more: too many for one call, or a shard had no "
                "owner",
                groups.looked_at);
    }
    return output_end(&run->output);
}

static int dead_groups_run(const struct args *args)
{
    struct dead_request request;
    struct run run;
    int code = run_open(&run, args, &GROUP_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = read_request(args, NULL, &request);
    if (code == CLI_OK) {
        code = run_call(&run, codec_write_dead_group(&request, &run.request), GROUP_PATH, true,
                        "group");
    }
    if (code == CLI_OK) {
        code = print_groups(&run);
    }
    return run_close(&run, code);
}

/* ---- redrive and purge ---- */

static const struct output_column DONE_COLUMNS[] = {
    {"MATCHED", false}, {"HANDLED", false}, {"SKIPPED", false}};
static const struct output_layout DONE_LAYOUT = {DONE_COLUMNS, ARRAY_COUNT(DONE_COLUMNS), 0, NULL};

/* What Redrive and Purge differ in. */
struct dead_change {
    const char *path;
    const char *verb;   /* "redrive" */
    const char *past;   /* "redriven", also the member of the JSON */
    bool is_repeatable; /* doing it twice does no harm */
    int (*write)(const struct dead_request *request, struct buf *out);
    int (*read)(struct slice bytes, struct arena *arena, struct dead_done *out,
                struct fault *fault);
};

static const struct dead_change REDRIVE = {
    REDRIVE_PATH, "redrive", "redriven", true, codec_write_dead_redrive, codec_read_redrive_reply};
static const struct dead_change PURGE = {
    PURGE_PATH, "purge", "purged", true, codec_write_dead_purge, codec_read_purge_reply};

static int print_done(struct run *run, const struct dead_change *change, uint64_t matched,
                      const struct dead_done *done)
{
    struct output *output = &run->output;
    char texts[3][24];

    if (output_wants_json(output)) {
        struct json *json = output_json(output);

        json_open(json, NULL, '{');
        json_int64(json, "matched", (int64_t)matched);
        json_int64(json, change->past, (int64_t)done->handled);
        json_int64(json, "skipped", (int64_t)done->skipped);
        json_close(json, '}');
        output_json_done(output);
        return output_end(output);
    }
    (void)snprintf(texts[0], sizeof(texts[0]), "%" PRIu64, matched);
    (void)snprintf(texts[1], sizeof(texts[1]), "%" PRIu64, done->handled);
    (void)snprintf(texts[2], sizeof(texts[2]), "%" PRIu64, done->skipped);
    output_row(output, (const char *const[]){texts[0], texts[1], texts[2]});
    return output_end(output);
}

static int change_all(struct run *run, struct dead_request *request,
                      const struct dead_change *change, uint64_t matched, struct dead_done *sum)
{
    struct dead_done done;
    int code = CLI_OK;

    request->mark = page_start();
    request->count_max = LIST_PAGE_COUNT_MAX;
    memset(sum, 0, sizeof(*sum));
    do {
        buf_clear(&run->request);
        code = run_call(run, change->write(request, &run->request), change->path,
                        change->is_repeatable, change->verb);
        if (code == CLI_OK &&
            change->read(buf_slice(&run->reply), &run->arena, &done, &run->fault) != 0) {
            code = run_refuse_answer(run);
        }
        if (code != CLI_OK) {
            cli_say("%" PRIu64 " of %" PRIu64 " were %s before that", sum->handled, matched,
                    change->past);
            return code;
        }
        sum->handled += done.handled;
        sum->skipped += done.skipped;
        confirm_progress(change->past, sum->handled + sum->skipped, matched);
        code = read_mark(done.next_token, &request->mark);
    } while (code == CLI_OK && done.next_token[0] != '\0');
    return code;
}

static int confirm_change(struct run *run, const struct dead_change *change, uint64_t matched)
{
    const char *error = args_text(run->args, "error", NULL);
    char what[512];

    (void)snprintf(what, sizeof(what),
                   "%s %s%" PRIu64 " dead letters: namespace %s, queue %s%s%s%s", change->verb,
                   args_has(run->args, "all") ? "all " : "", matched,
                   args_text(run->args, "namespace", NAMESPACE_DEFAULT),
                   args_text(run->args, "queue", ""), error == NULL ? "" : ", error with \"",
                   error == NULL ? "" : error, error == NULL ? "" : "\"");
    return confirm_count(run->args, what, matched);
}

/* Thousandths of a task a second. "0.5" is 500. */
static int read_rate(const struct args *args, int64_t *out)
{
    const char *text = args_text(args, "rate", NULL);
    int64_t rate = 0;
    int64_t digit = 1000;
    const char *at = text;

    if (text == NULL) {
        return CLI_OK;
    }
    for (; *at >= '0' && *at <= '9' && rate <= RATE_MAX * 1000; at++) {
        rate = rate * 10 + (*at - '0') * INT64_C(1000);
    }
    if (*at == '.' && at != text) {
        for (at++; *at >= '0' && *at <= '9' && digit > 1; at++) {
            digit /= 10;
            rate += (*at - '0') * digit;
        }
    }
    if (at == text || *at != '\0' || rate == 0 || rate > RATE_MAX * 1000) {
        return cli_usage("--rate \"%s\" must be tasks a second, 0.001 to %" PRId64 " (RATE_MAX)",
                         text, RATE_MAX);
    }
    *out = rate;
    return CLI_OK;
}

/* All of a queue are meant only by who says so: a filter that a script has left empty is none. */
static int check_choice(const struct args *args, const struct dead_request *request)
{
    bool is_narrow = request->id_count > 0 || request->error_contains.len > 0;

    if (args_has(args, "all") && is_narrow) {
        return cli_usage("name ids, or say which by --error TEXT, or take --all, not both");
    }
    if (!args_has(args, "all") && !is_narrow) {
        return cli_usage("say which: ids, --error TEXT, or --all of the queue");
    }
    return CLI_OK;
}

static int run_change(struct run *run, const struct dead_change *change)
{
    struct task_id ids[DEAD_CALL_COUNT_MAX];
    struct dead_request request;
    struct dead_done done = {.handled = 0};
    char next_token[PAGE_TOKEN_BYTES_MAX + 1] = "";
    uint64_t matched = run->args->operand_count;
    int code = read_request(run->args, ids, &request);

    if (code == CLI_OK) {
        code = check_choice(run->args, &request);
    }
    if (code == CLI_OK) {
        code = read_rate(run->args, &request.rate_millis);
    }
    if (code == CLI_OK && matched == 0) {
        code = walk_dead(run, &request, 0, NULL, &matched, next_token);
    }
    if (code != CLI_OK || args_has(run->args, "dry-run") || matched == 0) {
        return code == CLI_OK ? print_done(run, change, matched, &done) : code;
    }
    code = confirm_change(run, change, matched);
    if (code == CLI_OK) {
        code = change_all(run, &request, change, matched, &done);
    }
    return code == CLI_OK ? print_done(run, change, matched, &done) : code;
}

static int dead_change_run(const struct args *args, const struct dead_change *change)
{
    struct run run;
    int code = run_open(&run, args, &DONE_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    return run_close(&run, run_change(&run, change));
}

static int dead_redrive(const struct args *args)
{
    return dead_change_run(args, &REDRIVE);
}

static int dead_purge(const struct args *args)
{
    return dead_change_run(args, &PURGE);
}

#define OPTION_DEAD_QUEUE                                 \
    {                                                     \
        "queue", 'q', "NAME", "queue of the dead letters" \
    }
#define OPTION_ERROR                                                     \
    {                                                                    \
        "error", 0, "TEXT", "only those whose error has this text in it" \
    }

#define OPTION_ALL                                      \
    {                                                   \
        "all", 0, NULL, "all dead letters of the queue" \
    }

static const struct cli_option LIST_OPTIONS[] = {
    OPTION_DEAD_QUEUE,
    OPTION_NAMESPACE,
    OPTION_ERROR,
    {"limit", 0, "N", "at most so many (default 1000); 0: all"},
    {"page-token", 0, "TOKEN", "go on behind a page"},
    {"with-payload", 0, NULL, "with payloads up to 1024 bytes"},
};
static const struct cli_option GROUP_OPTIONS[] = {OPTION_DEAD_QUEUE, OPTION_NAMESPACE};

static const struct cli_option REDRIVE_OPTIONS[] = {
    OPTION_DEAD_QUEUE,
    OPTION_NAMESPACE,
    OPTION_ALL,
    OPTION_ERROR,
    {"rate", 0, "N", "spread them: so many a second (default all at once)"},
    OPTION_DRY_RUN,
    OPTION_YES,
};
static const struct cli_option PURGE_OPTIONS[] = {
    OPTION_DEAD_QUEUE, OPTION_NAMESPACE, OPTION_ALL, OPTION_ERROR, OPTION_DRY_RUN, OPTION_YES,
};

const struct command DEAD_COMMANDS[] = {
    {"dead", "list", "", 0, "List the dead letters of a queue.",
     "  foliot dead list -q mail\n  foliot dead list -q mail --error timeout -o name\n",
     LIST_OPTIONS, ARRAY_COUNT(LIST_OPTIONS), dead_list,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"dead", "groups", "", 0, "Count the dead letters of a queue by their error.",
     "  foliot dead groups -q mail\n", GROUP_OPTIONS, ARRAY_COUNT(GROUP_OPTIONS), dead_groups_run,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
    {"dead", "redrive", "[ID...]", DEAD_CALL_COUNT_MAX,
     "Give dead letters another chance, all or some.",
     "  foliot dead redrive -q mail 0a7-0000012300000001\n"
     "  foliot dead redrive -q mail --error timeout --rate 10\n"
     "  foliot dead redrive -q mail --all --yes\n",
     REDRIVE_OPTIONS, ARRAY_COUNT(REDRIVE_OPTIONS), dead_redrive, COMMAND_CALLS | COMMAND_ROWS},
    {"dead", "purge", "[ID...]", DEAD_CALL_COUNT_MAX, "Forget dead letters, all or some.",
     "  foliot dead purge -q mail --all --dry-run\n"
     "  foliot dead purge -q mail --error 'no such user'\n",
     PURGE_OPTIONS, ARRAY_COUNT(PURGE_OPTIONS), dead_purge, COMMAND_CALLS | COMMAND_ROWS},
};
const size_t DEAD_COMMAND_COUNT = ARRAY_COUNT(DEAD_COMMANDS);
