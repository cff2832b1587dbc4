/* SPDX-License-Identifier: Apache-2.0
 *
 * The Queue message.
 */
#include "proto/queue_message.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Room for the message of queue_check(), which quotes the target. */
#define CHECK_MESSAGE_BYTES 512

_Static_assert((int)ORDER_BLOCK == (int)FOLIOT__V1__ORDER_MODE__ORDER_MODE_BLOCK &&
                   (int)ORDER_DEAD == (int)FOLIOT__V1__ORDER_MODE__ORDER_MODE_DEAD_LETTER,
               "order policies have the same numbers on the wire");

/* Replace a default if the duration was sent. */
static int take_duration(const Google__Protobuf__Duration *duration, struct place place,
                         span_ms *value)
{
    return duration == NULL ? 0 : read_duration(duration, place, value);
}

/* Replace a default if the number was sent: 0 stands for absent. */
static void take_number(uint32_t number, uint32_t *value)
{
    if (number != 0) {
        *value = number;
    }
}

static int read_retry(const Foliot__V1__RetryPolicy *policy, struct fault *fault,
                      struct retry_policy *out)
{
    int err =
        take_duration(policy->initial_backoff,
                      (struct place){"queue.retry.", "initial_backoff", fault}, &out->initial_ms);

    if (err == 0) {
        err = take_duration(policy->max_backoff,
                            (struct place){"queue.retry.", "max_backoff", fault}, &out->max_ms);
    }
    if (err == 0) {
        err = take_duration(policy->age_max, (struct place){"queue.retry.", "age_max", fault},
                            &out->age_max_ms);
    }
    take_number(policy->multiplier_permille, &out->multiplier_permille);
    take_number(policy->failures_max, &out->failures_max);
    take_number(policy->unknowns_max, &out->unknowns_max);
    if (policy->jitter_case == FOLIOT__V1__RETRY_POLICY__JITTER_JITTER_PERMILLE) {
        out->jitter_permille = policy->jitter_permille;
    }
    return err;
}

static int read_target(const char *target, struct fault *fault, struct queue *out)
{
    size_t len = strlen(target);

    if (len > TARGET_BYTES_MAX) {
        return refuse_value(&(struct place){"queue.", "target", fault}, "TARGET_INVALID",
                            "has %zu bytes, at most %d are allowed (TARGET_BYTES_MAX)", len,
                            TARGET_BYTES_MAX);
    }
    memcpy(out->target, target, len + 1);
    return 0;
}

static int read_delivery(Foliot__V1__Delivery delivery, struct fault *fault, struct queue *out)
{
    switch ((int)delivery) {
    case FOLIOT__V1__DELIVERY__DELIVERY_UNSPECIFIED:
    case FOLIOT__V1__DELIVERY__DELIVERY_AT_LEAST_ONCE:
        out->at_most_once = false;
        return 0;
    case FOLIOT__V1__DELIVERY__DELIVERY_AT_MOST_ONCE:
        out->at_most_once = true;
        return 0;
    default:
        return refuse_value(&(struct place){"queue.", "delivery", fault}, "ENUM_UNKNOWN",
                            "is %d, which this broker does not know; use AT_LEAST_ONCE or "
                            "AT_MOST_ONCE",
                            (int)delivery);
    }
}

/* Without a policy of its own a queue has its default. */
static int read_order(const Foliot__V1__OrderPolicy *policy, struct fault *fault, struct queue *out)
{
    int mode = (int)policy->on_failure;

    if (mode < 0 || mode > (int)ORDER_DEAD) {
        return refuse_value(&(struct place){"queue.order.", "on_failure", fault}, "ENUM_UNKNOWN",
                            "is %d, which this broker does not know; use BLOCK, SKIP or "
                            "DEAD_LETTER",
                            mode);
    }
    if (policy->failures != 0 && mode != (int)ORDER_SKIP) {
        return refuse_value(&(struct place){"queue.order.", "failures", fault}, "FIELD_UNUSED",
                            "goes with on_failure SKIP only; leave it out");
    }
    out->order_policy = mode == 0 ? ORDER_BLOCK : (enum order_policy)mode;
    out->order_failures = QUEUE_ORDER_FAILURES_DEFAULT;
    take_number(policy->failures, &out->order_failures);
    return 0;
}

static int read_names(const Foliot__V1__Queue *message, struct fault *fault, struct queue *out)
{
    struct queue_name name;
    int err = read_queue_name(message->namespace_, message->name, false,
                              (struct place){"queue.", "name", fault}, &name);

    if (err == 0) {
        (void)snprintf(out->tenant, sizeof(out->tenant), "%s", name.tenant);
        (void)snprintf(out->name, sizeof(out->name), "%s", name.name);
    }
    return err;
}

/* The message of queue_check() names the field first: use that word as the path. */
static int check_queue(struct queue *queue, struct fault *fault)
{
    char message[CHECK_MESSAGE_BYTES];
    char field[FAULT_FIELD_BYTES];
    bool is_backoff;
    int word;

    if (queue_check(queue, message, sizeof(message)) == 0) {
        return 0;
    }
    word = (int)strcspn(message, " ");
    is_backoff =
        strncmp(message, "retry.initial ", 14) == 0 || strncmp(message, "retry.max ", 10) == 0;
    (void)snprintf(field, sizeof(field), "queue.%.*s%s", word, message,
                   is_backoff ? "_backoff" : "");
    fault_set(fault, RPC_INVALID_ARGUMENT,
              strncmp(message, "target", 6) == 0 ? "TARGET_INVALID" : "VALUE_OUT_OF_RANGE", field,
              "%s", message);
    return ERR_INVALID;
}

int read_queue_msg(const Foliot__V1__Queue *message, struct fault *fault, struct queue *out)
{
    int err = read_names(message, fault, out);

    if (err == 0) {
        err = read_target(message->target, fault, out);
    }
    if (err == 0) {
        err = read_delivery(message->delivery, fault, out);
    }
    if (err == 0) {
        err = take_duration(message->attempt_timeout,
                            (struct place){"queue.", "attempt_timeout", fault},
                            &out->attempt_timeout_ms);
    }
    if (err == 0) {
        err = take_duration(message->key_memory, (struct place){"queue.", "key_memory", fault},
                            &out->key_memory_ms);
    }
    if (err == 0) {
        err =
            take_duration(message->result_memory, (struct place){"queue.", "result_memory", fault},
                          &out->result_memory_ms);
    }
    if (err == 0) {
        err = take_duration(message->expire_after, (struct place){"queue.", "expire_after", fault},
                            &out->expire_after_ms);
    }
    if (err == 0 && message->retry != NULL) {
        err = read_retry(message->retry, fault, &out->retry);
    }
    if (err == 0 && message->order != NULL) {
        err = read_order(message->order, fault, out);
    }
    take_number(message->concurrency_max, &out->concurrency_max);
    out->version = message->version;
    return err != 0 ? err : check_queue(out, fault);
}

int read_queue_reply_msg(const Foliot__V1__Queue *message, struct fault *fault, struct queue *out)
{
    wall_ms until_ms = read_reply_time(message->paused_until);
    int state = (int)message->state;
    int err;

    queue_init(out);
    err = read_queue_msg(message, fault, out);
    out->id = message->id;
    out->is_paused = state == FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_PAUSED ||
                     state == FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_PAUSED_DRAINING;
    out->is_draining = state == FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_DRAINING ||
                       state == FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_PAUSED_DRAINING;
    out->paused_until_ms = until_ms == WALL_NEVER ? 0 : until_ms;
    return err;
}

static Foliot__V1__QueueState state_of(const struct queue *queue)
{
    if (queue->is_paused) {
        return queue->is_draining ? FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_PAUSED_DRAINING
                                  : FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_PAUSED;
    }
    return queue->is_draining ? FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_DRAINING
                              : FOLIOT__V1__QUEUE_STATE__QUEUE_STATE_ACTIVE;
}

static void init_optional(struct queue_wire *wire, const struct queue *queue)
{
    Foliot__V1__Queue *message = &wire->message;

    if (queue->result_memory_ms != 0) {
        message->result_memory = write_duration(queue->result_memory_ms, &wire->spans[5]);
    }
    if (queue->expire_after_ms != 0) {
        message->expire_after = write_duration(queue->expire_after_ms, &wire->spans[6]);
    }
    if (queue->is_paused && queue->paused_until_ms != 0) {
        message->paused_until = write_time(queue->paused_until_ms, &wire->paused_until);
    }
}

void init_queue(struct queue_wire *wire, const struct queue *queue)
{
    Foliot__V1__Queue *message = &wire->message;
    Foliot__V1__RetryPolicy *retry = &wire->retry;

    foliot__v1__queue__init(message);
    message->namespace_ = wire_text(queue->tenant);
    message->name = wire_text(queue->name);
    message->target = wire_text(queue->target);
    message->delivery = queue->at_most_once ? FOLIOT__V1__DELIVERY__DELIVERY_AT_MOST_ONCE
                                            : FOLIOT__V1__DELIVERY__DELIVERY_AT_LEAST_ONCE;
    message->attempt_timeout = write_duration(queue->attempt_timeout_ms, &wire->spans[0]);
    message->key_memory = write_duration(queue->key_memory_ms, &wire->spans[1]);
    message->concurrency_max = queue->concurrency_max;
    message->version = queue->version;
    message->id = queue->id;
    message->state = state_of(queue);
    init_optional(wire, queue);
    message->retry = retry;
    message->order = &wire->order;
    foliot__v1__order_policy__init(&wire->order);
    wire->order.on_failure = (Foliot__V1__OrderMode)queue->order_policy;
    if (queue->order_policy == ORDER_SKIP) {
        wire->order.failures = queue->order_failures;
    }
    foliot__v1__retry_policy__init(retry);
    retry->initial_backoff = write_duration(queue->retry.initial_ms, &wire->spans[2]);
    retry->max_backoff = write_duration(queue->retry.max_ms, &wire->spans[3]);
    retry->multiplier_permille = queue->retry.multiplier_permille;
    retry->jitter_case = FOLIOT__V1__RETRY_POLICY__JITTER_JITTER_PERMILLE;
    retry->jitter_permille = queue->retry.jitter_permille;
    retry->failures_max = queue->retry.failures_max;
    retry->unknowns_max = queue->retry.unknowns_max;
    if (queue->retry.age_max_ms != 0) {
        retry->age_max = write_duration(queue->retry.age_max_ms, &wire->spans[4]);
    }
}
