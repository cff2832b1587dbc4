/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing queues.
 */
#include "client/cli/queue_view.h"

#include "client/cli/moment.h"

#include <inttypes.h>
#include <stdio.h>

#define COLUMNS(wide)                                                                             \
    {                                                                                             \
        {"NAMESPACE", false}, {"NAME", false}, {"STATE", false}, {"TIMEOUT", false},              \
            {"TARGET", false}, {"PAUSED UNTIL", wide}, {"DELIVERY", wide}, {"CONCURRENCY", wide}, \
            {"KEY MEMORY", wide}, {"RESULT MEMORY", wide}, {"EXPIRE AFTER", wide},                \
            {"RETRY", wide}, {"ID", wide}, {"VERSION", wide}, {"ORDER", wide},                    \
    }

static const struct output_column LIST_COLUMNS[] = COLUMNS(true);
static const struct output_column ALL_COLUMNS[] = COLUMNS(false);

const struct output_layout QUEUE_LIST_LAYOUT = {LIST_COLUMNS, ARRAY_COUNT(LIST_COLUMNS), 1,
                                                "queues"};
const struct output_layout QUEUE_LAYOUT = {ALL_COLUMNS, ARRAY_COUNT(ALL_COLUMNS), 1, NULL};

static const char *state_name(const struct queue *queue, const char *both)
{
    return queue->is_paused && queue->is_draining ? both
           : queue->is_paused                     ? "PAUSED"
           : queue->is_draining                   ? "DRAINING"
                                                  : "ACTIVE";
}

static void order_json(struct json *json, const struct queue *queue)
{
    static const char *const modes[] = {
        [ORDER_BLOCK] = "ORDER_MODE_BLOCK",
        [ORDER_SKIP] = "ORDER_MODE_SKIP",
        [ORDER_DEAD] = "ORDER_MODE_DEAD_LETTER",
    };

    json_open(json, "order", '{');
    json_text(json, "onFailure", modes[queue->order_policy]);
    if (queue->order_policy == ORDER_SKIP) {
        json_int(json, "failures", queue->order_failures);
    }
    json_close(json, '}');
}

/* What a failing task does to those of its order key. */
static void write_order(const struct queue *queue, char *out, size_t size)
{
    if (queue->order_policy == ORDER_SKIP) {
        (void)snprintf(out, size, "skip after %" PRIu32, queue->order_failures);
    } else {
        (void)snprintf(out, size, "%s",
                       queue->order_policy == ORDER_DEAD ? "dead letter" : "block");
    }
}

void queue_view_json(struct json *json, const char *name, const struct queue *queue)
{
    const struct retry_policy *retry = &queue->retry;
    char state[40];

    json_open(json, name, '{');
    json_text(json, "namespace", queue->tenant);
    json_text(json, "name", queue->name);
    json_text(json, "target", queue->target);
    json_text(json, "delivery",
              queue->at_most_once ? "DELIVERY_AT_MOST_ONCE" : "DELIVERY_AT_LEAST_ONCE");
    json_span(json, "attemptTimeout", queue->attempt_timeout_ms);
    json_span(json, "keyMemory", queue->key_memory_ms);
    json_int(json, "concurrencyMax", queue->concurrency_max);
    json_open(json, "retry", '{');
    json_span(json, "initialBackoff", retry->initial_ms);
    json_span(json, "maxBackoff", retry->max_ms);
    json_int(json, "multiplierPermille", retry->multiplier_permille);
    json_int(json, "jitterPermille", retry->jitter_permille);
    json_int(json, "failuresMax", retry->failures_max);
    json_int(json, "unknownsMax", retry->unknowns_max);
    if (retry->age_max_ms != 0) {
        json_span(json, "ageMax", retry->age_max_ms);
    }
    json_close(json, '}');
    order_json(json, queue);
    json_span(json, "resultMemory", queue->result_memory_ms);
    if (queue->expire_after_ms != 0) {
        json_span(json, "expireAfter", queue->expire_after_ms);
    }
    (void)snprintf(state, sizeof(state), "QUEUE_STATE_%s", state_name(queue, "PAUSED_DRAINING"));
    json_text(json, "state", state);
    if (queue->is_paused && queue->paused_until_ms != 0) {
        json_time(json, "pausedUntil", queue->paused_until_ms);
    }
    json_int(json, "version", queue->version);
    json_int(json, "id", queue->id);
    json_close(json, '}');
}

static void write_retry(const struct retry_policy *retry, char *out, size_t size)
{
    char spans[3][TIMETEXT_BYTES];

    timetext_write_span(retry->initial_ms, spans[0]);
    timetext_write_span(retry->max_ms, spans[1]);
    timetext_write_span(retry->age_max_ms, spans[2]);
    (void)snprintf(out, size,
                   "%s to %s, x %" PRIu32 ".%03" PRIu32 ", jitter %" PRIu32 " permille, %" PRIu32
                   " failures, %" PRIu32 " unknowns, age %s",
                   spans[0], spans[1], retry->multiplier_permille / 1000,
                   retry->multiplier_permille % 1000, retry->jitter_permille, retry->failures_max,
                   retry->unknowns_max, retry->age_max_ms == 0 ? "any" : spans[2]);
}

const char *queue_view_state(const struct queue *queue)
{
    return state_name(queue, "PAUSED, DRAINING");
}

/* A length of time of which 0 is none. */
static void write_span(span_ms span, char *out)
{
    out[0] = '\0';
    if (span != 0) {
        timetext_write_span(span, out);
    }
}

void queue_view_row(struct output *output, const struct queue *queue)
{
    char spans[4][TIMETEXT_BYTES];
    char until[TIMETEXT_BYTES] = "";
    char numbers[3][16];
    char retry[256];
    char order[32];

    write_span(queue->attempt_timeout_ms, spans[0]);
    write_span(queue->key_memory_ms, spans[1]);
    write_span(queue->result_memory_ms, spans[2]);
    write_span(queue->expire_after_ms, spans[3]);
    if (queue->is_paused && queue->paused_until_ms != 0) {
        moment_write(queue->paused_until_ms, until);
    }
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu32, queue->concurrency_max);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu32, queue->id);
    (void)snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu32, queue->version);
    write_retry(&queue->retry, retry, sizeof(retry));
    write_order(queue, order, sizeof(order));
    output_row(output, (const char *const[]){queue->tenant, queue->name, queue_view_state(queue),
                                             spans[0], queue->target, until,
                                             queue->at_most_once ? "at most once" : "at least once",
                                             numbers[0], spans[1], spans[2], spans[3], retry,
                                             numbers[1], numbers[2], order});
}
