/* SPDX-License-Identifier: Apache-2.0
 *
 * Showing queues.
 */
#include "client/cli/queue_view.h"

#include "client/cli/timetext.h"

#include <inttypes.h>
#include <stdio.h>

#define COLUMNS(wide)                                                                         \
    {                                                                                         \
        {"NAMESPACE", false}, {"NAME", false}, {"TIMEOUT", false}, {"TARGET", false},         \
            {"DELIVERY", wide}, {"CONCURRENCY", wide}, {"KEY MEMORY", wide}, {"RETRY", wide}, \
            {"ID", wide}, {"VERSION", wide},                                                  \
    }

static const struct output_column LIST_COLUMNS[] = COLUMNS(true);
static const struct output_column ALL_COLUMNS[] = COLUMNS(false);

const struct output_layout QUEUE_LIST_LAYOUT = {LIST_COLUMNS, ARRAY_COUNT(LIST_COLUMNS), 1,
                                                "queues"};
const struct output_layout QUEUE_LAYOUT = {ALL_COLUMNS, ARRAY_COUNT(ALL_COLUMNS), 1, NULL};

void queue_view_json(struct json *json, const char *name, const struct queue *queue)
{
    const struct retry_policy *retry = &queue->retry;

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

void queue_view_row(struct output *output, const struct queue *queue)
{
    char spans[2][TIMETEXT_BYTES];
    char numbers[3][16];
    char retry[256];

    timetext_write_span(queue->attempt_timeout_ms, spans[0]);
    timetext_write_span(queue->key_memory_ms, spans[1]);
    (void)snprintf(numbers[0], sizeof(numbers[0]), "%" PRIu32, queue->concurrency_max);
    (void)snprintf(numbers[1], sizeof(numbers[1]), "%" PRIu32, queue->id);
    (void)snprintf(numbers[2], sizeof(numbers[2]), "%" PRIu32, queue->version);
    write_retry(&queue->retry, retry, sizeof(retry));
    output_row(output, (const char *const[]){queue->tenant, queue->name, spans[0], queue->target,
                                             queue->at_most_once ? "at most once" : "at least once",
                                             numbers[0], spans[1], retry, numbers[1], numbers[2]});
}
