/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot task list, and foliot task cancel of many.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/confirm.h"
#include "client/cli/options.h"
#include "client/cli/task_cmd.h"
#include "client/cli/task_filter.h"
#include "client/cli/task_view.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define BATCH_CANCEL_PATH "/foliot.v1.TaskService/BatchCancel"

/* Tasks that are shown if --limit does not say. */
#define LIST_LIMIT_DEFAULT 1000

/* Tasks that one command cancels: their ids are held in memory. */
#define BULK_COUNT_MAX UINT64_C(1000000)

/* Tasks in one BatchCancel: small enough that progress is seen. */
#define BULK_BATCH_COUNT 1000

/* ---- list ---- */

static int list_one(void *ctx, const struct task_view *view)
{
    struct run *run = ctx;

    task_view_add(&run->output, view);
    return CLI_OK;
}

static int read_page(const struct args *args, struct task_filter *filter, int64_t *limit)
{
    const char *token = args_text(args, "page-token", "");

    if (args_number(args, "limit", 0, INT64_MAX / 16, limit) != 0) {
        return CLI_USAGE;
    }
    if (page_parse(token, &filter->request.mark) != 0) {
        return cli_usage(
            "--page-token \"%.70s\" is none: give the nextPageToken of the page before", token);
    }
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

static int task_list(const struct args *args)
{
    char next_token[PAGE_TOKEN_BYTES_MAX + 1] = "";
    int64_t limit = LIST_LIMIT_DEFAULT;
    struct task_filter filter;
    struct run run;
    int code = run_open(&run, args, &TASK_LIST_LAYOUT);

    if (code != CLI_OK) {
        return code;
    }
    code = task_filter_read(args, &filter);
    filter.request.with_payload = args_has(args, "with-payload");
    if (code == CLI_OK) {
        code = read_page(args, &filter, &limit);
    }
    if (code == CLI_OK) {
        code = task_filter_walk(&run, &filter, (uint64_t)limit, list_one, &run, next_token);
    }
    if (code == CLI_OK) {
        code = print_list(&run, next_token);
    }
    return run_close(&run, code);
}

/* ---- cancel of many ---- */

static const struct output_column BULK_COLUMNS[] = {{"MATCHED", false},
                                                    {"CANCELLED", false},
                                                    {"STOPPED", false},
                                                    {"GONE", false},
                                                    {"FAILED", false}};
static const struct output_layout BULK_LAYOUT = {BULK_COLUMNS, ARRAY_COUNT(BULK_COLUMNS), 0, NULL};

struct bulk {
    struct run run;
    struct task_filter filter;
    struct buf ids; /* of struct task_id: found first, cancelled then */
    uint64_t matched;
    uint64_t outcomes[CANCEL_ANSWER_NOT_FOUND + 1]; /* [0]: failed */
    struct fault first_failure;
};

static int note_id(void *ctx, const struct task_view *view)
{
    struct bulk *bulk = ctx;

    if (bulk->matched == BULK_COUNT_MAX) {
        return cli_usage("more than %" PRIu64 " tasks match (BULK_COUNT_MAX); nothing was changed: "
                         "narrow the filter, for example by --due-before",
                         BULK_COUNT_MAX);
    }
    bulk->matched++;
    if (buf_append(&bulk->ids, &view->id, sizeof(view->id)) != 0) {
        cli_say("out of memory for %" PRIu64 " ids; nothing was changed", bulk->matched);
        return CLI_ERROR;
    }
    return CLI_OK;
}

static void count_result(struct bulk *bulk, bool failed, const struct cancel_reply *reply,
                         const struct fault *fault)
{
    if (!failed) {
        bulk->outcomes[reply->outcome]++;
        return;
    }
    if (bulk->outcomes[0]++ == 0) {
        bulk->first_failure = *fault;
    }
}

static int read_results(struct bulk *bulk, size_t count)
{
    struct run *run = &bulk->run;
    struct create_results results;
    struct cancel_reply reply;
    struct fault fault;
    bool failed;

    if (codec_read_cancel_results(buf_slice(&run->reply), &run->arena, &results, &run->fault) !=
        0) {
        return run_refuse_answer(run);
    }
    if (results.count != count) {
        fault_set(&run->fault, RPC_INTERNAL, "MESSAGE_MALFORMED", NULL, "%zu results for %zu items",
                  results.count, count);
        return run_refuse_answer(run);
    }
    for (size_t i = 0; i < count; i++) {
        if (codec_read_cancel_result(&results, i, &reply, &failed, &fault) != 0) {
            run->fault = fault;
            return run_refuse_answer(run);
        }
        count_result(bulk, failed, &reply, &fault);
    }
    return CLI_OK;
}

static int cancel_batch(struct bulk *bulk, size_t first, size_t count)
{
    struct run *run = &bulk->run;
    const uint8_t *bytes = buf_slice(&bulk->ids).data;
    int wrote = 0;
    int code;

    buf_clear(&run->request);
    for (size_t i = first; i < first + count && wrote == 0; i++) {
        struct task_name name = {.queue = {bulk->filter.request.queue.tenant, ""}};

        memcpy(&name.id, bytes + i * sizeof(name.id), sizeof(name.id));
        wrote = codec_write_cancel_item(&name, &run->request);
    }
    code = run_call(run, wrote, BATCH_CANCEL_PATH, true, "cancel");
    return code == CLI_OK ? read_results(bulk, count) : code;
}

static int cancel_all(struct bulk *bulk)
{
    int code = CLI_OK;

    for (uint64_t done = 0; done < bulk->matched && code == CLI_OK;) {
        uint64_t left = bulk->matched - done;
        size_t count = (size_t)(left < BULK_BATCH_COUNT ? left : BULK_BATCH_COUNT);

        code = cancel_batch(bulk, (size_t)done, count);
        done += count;
        if (code == CLI_OK) {
            confirm_progress("cancelled", done, bulk->matched);
        } else {
            cli_say("%" PRIu64 " of %" PRIu64 " were cancelled before that; doing it again does no "
                    "harm",
                    done - count, bulk->matched);
        }
    }
    return code;
}

static int print_bulk(struct bulk *bulk)
{
    struct output *output = &bulk->run.output;
    const uint64_t gone =
        bulk->outcomes[CANCEL_ANSWER_GONE] + bulk->outcomes[CANCEL_ANSWER_NOT_FOUND];
    const uint64_t numbers[] = {bulk->matched, bulk->outcomes[CANCEL_ANSWER_CANCELLED],
                                bulk->outcomes[CANCEL_ANSWER_STOPPED], gone, bulk->outcomes[0]};
    static const char *const names[] = {"matched", "cancelled", "stopped", "gone", "failed"};
    char texts[ARRAY_COUNT(numbers)][24];

    if (output_wants_json(output)) {
        struct json *json = output_json(output);

        json_open(json, NULL, '{');
        for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
            json_int(json, names[i], (int64_t)numbers[i]);
        }
        json_close(json, '}');
        output_json_done(output);
        return output_end(output);
    }
    for (size_t i = 0; i < ARRAY_COUNT(numbers); i++) {
        (void)snprintf(texts[i], sizeof(texts[i]), "%" PRIu64, numbers[i]);
    }
    output_row(output, (const char *const[]){texts[0], texts[1], texts[2], texts[3], texts[4]});
    return output_end(output);
}

static int confirm_bulk(struct bulk *bulk)
{
    struct buf what;
    int code;

    buf_init(&what, 4096);
    (void)buf_printf(&what, "cancel %" PRIu64 " tasks: ", bulk->matched);
    task_filter_describe(bulk->run.args, &what);
    code = confirm_count(bulk->run.args, buf_text(&what), bulk->matched);
    buf_fini(&what);
    return code;
}

static int run_bulk(struct bulk *bulk, const struct args *args)
{
    char next_token[PAGE_TOKEN_BYTES_MAX + 1] = "";
    int code = task_filter_read(args, &bulk->filter);

    if (code == CLI_OK) {
        code = task_filter_walk(&bulk->run, &bulk->filter, 0, note_id, bulk, next_token);
    }
    if (code != CLI_OK || args_has(args, "dry-run") || bulk->matched == 0) {
        return code == CLI_OK ? print_bulk(bulk) : code;
    }
    code = confirm_bulk(bulk);
    if (code == CLI_OK) {
        code = cancel_all(bulk);
    }
    if (code == CLI_OK) {
        code = print_bulk(bulk);
    }
    if (code == CLI_OK && bulk->outcomes[0] > 0) {
        cli_say("%" PRIu64 " could not be cancelled, the first because: %s; try again",
                bulk->outcomes[0], bulk->first_failure.message);
        code = CLI_ERROR;
    }
    return code;
}

int task_cancel_many(const struct args *args)
{
    static struct bulk bulk;
    int code;

    if (!args_has(args, "queue")) {
        return cli_usage("name the queue whose tasks are cancelled: --queue NAME");
    }
    memset(&bulk, 0, sizeof(bulk));
    code = run_open(&bulk.run, args, &BULK_LAYOUT);
    if (code != CLI_OK) {
        return code;
    }
    buf_init(&bulk.ids, BULK_COUNT_MAX * sizeof(struct task_id));
    code = run_bulk(&bulk, args);
    buf_fini(&bulk.ids);
    return run_close(&bulk.run, code);
}

static const struct cli_option LIST_OPTIONS[] = {
    {"queue", 'q', "NAME", "only those of this queue"},
    OPTION_NAMESPACE,
    OPTION_STATE,
    OPTION_DUE_FROM,
    OPTION_DUE_BEFORE,
    OPTION_TAG_FILTER,
    OPTION_ORDER_KEY_FILTER,
    {"limit", 0, "N", "at most so many (default 1000); 0: all"},
    {"page-token", 0, "TOKEN", "go on behind a page"},
    {"with-payload", 0, NULL, "with payloads up to 1024 bytes"},
};

const struct command TASK_LIST_COMMANDS[] = {
    {"task", "list", "", 0, "List pending tasks.",
     "  foliot task list --queue mail --due-before +1h\n"
     "  foliot task list -q mail --state retrying --tag shop=7 -o wide\n"
     "  foliot task list -q mail --limit 0 -o name\n",
     LIST_OPTIONS, ARRAY_COUNT(LIST_OPTIONS), task_list,
     COMMAND_CALLS | COMMAND_ROWS | COMMAND_WATCH},
};
const size_t TASK_LIST_COMMAND_COUNT = ARRAY_COUNT(TASK_LIST_COMMANDS);
