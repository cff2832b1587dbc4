/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of tasks.
 */
#include "client/cli/task_filter.h"

#include "client/cli/cli.h"
#include "client/cli/moment.h"
#include "client/cli/options.h"

#include <stdio.h>
#include <string.h>

#define LIST_PATH "/foliot.v1.TaskService/List"

static const struct {
    const char *word;
    enum task_view_state state;
} STATES[] = {
    {"waiting", TASK_VIEW_WAITING},
    {"ready", TASK_VIEW_READY},
    {"running", TASK_VIEW_RUNNING},
    {"retrying", TASK_VIEW_RETRYING},
};

/* One word of --state, in any case. */
static int read_state(const char *word, size_t len, uint32_t *states)
{
    char lower[16] = "";

    for (size_t i = 0; i < len && i + 1 < sizeof(lower); i++) {
        lower[i] = word[i] >= 'A' && word[i] <= 'Z' ? (char)(word[i] - 'A' + 'a') : word[i];
    }
    for (size_t i = 0; i < ARRAY_COUNT(STATES); i++) {
        if (strcmp(lower, STATES[i].word) == 0) {
            *states |= 1U << STATES[i].state;
            return CLI_OK;
        }
    }
    return cli_usage("--state \"%.*s\" must be waiting, ready, running or retrying", (int)len,
                     word);
}

static int read_states(const struct args *args, uint32_t *states)
{
    int code = CLI_OK;

    for (size_t i = 0; i < args->item_count; i++) {
        const char *at = args->items[i].value;

        if (strcmp(args->items[i].name, "state") != 0) {
            continue;
        }
        do {
            size_t len = strcspn(at, ",");

            code = read_state(at, len, states);
            at += len;
        } while (code == CLI_OK && *at++ == ',');
        if (code != CLI_OK) {
            return code;
        }
    }
    return code;
}

int task_filter_read(const struct args *args, struct task_filter *out)
{
    struct list_request *request = &out->request;
    int code;

    memset(request, 0, sizeof(*request));
    options_queue(args, &request->queue);
    request->due_before_ms = WALL_NEVER;
    request->mark = page_start();
    code = read_states(args, &request->states);
    if (code == CLI_OK) {
        code = options_order_key(args, &request->order_key);
    }
    if (code == CLI_OK) {
        code = moment_option_wall(args, "due-from", &request->due_from_ms);
    }
    if (code == CLI_OK) {
        code = moment_option_wall(args, "due-before", &request->due_before_ms);
    }
    return code == CLI_OK ? options_tags(args, out->tags, &request->tags) : code;
}

bool task_filter_is_narrow(const struct args *args)
{
    return args_has(args, "state") || args_has(args, "due-from") || args_has(args, "due-before") ||
           args_has(args, "tag") || args_has(args, "order-key");
}

void task_filter_describe(const struct args *args, struct buf *out)
{
    static const struct {
        const char *option;
        const char *words;
    } parts[] = {{"state", "state"},
                 {"due-from", "due from"},
                 {"due-before", "due before"},
                 {"tag", "tag"},
                 {"order-key", "order key"}};

    (void)buf_printf(out, "namespace %s, %s%s", args_text(args, "namespace", NAMESPACE_DEFAULT),
                     args_has(args, "queue") ? "queue " : "all queues",
                     args_text(args, "queue", ""));
    for (size_t i = 0; i < args->item_count; i++) {
        for (size_t j = 0; j < ARRAY_COUNT(parts); j++) {
            if (strcmp(args->items[i].name, parts[j].option) == 0) {
                (void)buf_printf(out, ", %s %s", parts[j].words, args->items[i].value);
            }
        }
    }
}

/* One page: its tasks to the callback, and where the next one begins. */
static int take_page(struct run *run, task_filter_cb cb, void *ctx, uint64_t *count,
                     char *next_token)
{
    struct list_reply reply;
    struct task_view view;
    int code = CLI_OK;

    if (codec_read_list_reply(buf_slice(&run->reply), &run->arena, &reply, &run->fault) != 0) {
        return run_refuse_answer(run);
    }
    for (size_t i = 0; i < reply.count && code == CLI_OK; i++) {
        if (codec_read_list_item(&reply, i, &view, &run->fault) != 0) {
            return run_refuse_answer(run);
        }
        code = cb(ctx, &view);
    }
    *count += reply.count;
    (void)snprintf(next_token, PAGE_TOKEN_BYTES_MAX + 1, "%s", reply.next_token);
    return code == CLI_OK ? output_page(&run->output) : code;
}

int task_filter_walk(struct run *run, struct task_filter *filter, uint64_t count_max,
                     task_filter_cb cb, void *ctx, char *next_token)
{
    uint64_t count = 0;
    int code;

    do {
        uint64_t left = count_max == 0 ? LIST_PAGE_COUNT_MAX : count_max - count;

        filter->request.page_size =
            (uint32_t)(left < LIST_PAGE_COUNT_MAX ? left : LIST_PAGE_COUNT_MAX);
        buf_clear(&run->request);
        code = run_call(run, codec_write_list(&filter->request, &run->request), LIST_PATH, true,
                        "list");
        if (code == CLI_OK) {
            code = take_page(run, cb, ctx, &count, next_token);
        }
        if (code == CLI_OK && next_token[0] != '\0' &&
            page_parse(next_token, &filter->request.mark) != 0) {
            cli_say("the answer cannot be read: its next_page_token is none of ours");
            code = CLI_ERROR;
        }
    } while (code == CLI_OK && next_token[0] != '\0' && (count_max == 0 || count < count_max));
    return code;
}
