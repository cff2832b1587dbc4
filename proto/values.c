/* SPDX-License-Identifier: Apache-2.0
 *
 * Field types that messages share.
 */
#include "proto/values.h"

#include "proto/message.h"

#include "lib/base/check.h"
#include "lib/model/queue.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S  INT64_C(1000000000)
#define NS_PER_MS INT64_C(1000000)

/* What protobuf allows: years 1 to 9999, and 10 000 years either way. source: timestamp.proto,
 * duration.proto */
#define TIMESTAMP_S_MIN INT64_C(-62135596800)
#define TIMESTAMP_S_MAX INT64_C(253402300799)
#define DURATION_S_MAX  INT64_C(315576000000)

int refuse_value(const struct place *place, const char *reason, const char *format, ...)
{
    char field[FAULT_FIELD_BYTES];
    char what[FAULT_MESSAGE_BYTES];
    va_list args;

    (void)snprintf(field, sizeof(field), "%s%s", place->prefix, place->field);
    va_start(args, format);
    (void)vsnprintf(what, sizeof(what), format, args);
    va_end(args);
    fault_set(place->fault, RPC_INVALID_ARGUMENT, reason, field, "%s %s", field, what);
    return ERR_INVALID;
}

static int check_name(const char *name, const struct place *place)
{
    size_t len = queue_name_span(name);

    if (len > NAME_BYTES_MAX || name[len] != '\0') {
        return refuse_value(place, "NAME_INVALID",
                            "\"%.70s\" must be 1 to %d bytes (NAME_BYTES_MAX) of a-z, 0-9, '.', "
                            "'_' and '-'",
                            name, NAME_BYTES_MAX);
    }
    return 0;
}

int read_queue_name(const char *tenant, const char *name, bool may_be_empty, struct place place,
                    struct queue_name *out)
{
    struct place tenant_place = place;
    int err;

    tenant_place.field = "namespace";
    err = check_name(tenant, &tenant_place);
    if (err == 0) {
        err = check_name(name, &place);
    }
    if (err == 0 && name[0] == '\0' && !may_be_empty) {
        err = refuse_value(&place, "NAME_MISSING", "is empty; name the queue");
    }
    if (err == 0) {
        out->tenant = tenant[0] == '\0' ? NAMESPACE_DEFAULT : tenant;
        out->name = name;
    }
    return err;
}

/* shape: limit is the name of max. */
static int read_short(const char *text, size_t max, const char *limit, const char *reason,
                      const struct place *place, struct slice *out)
{
    size_t len = strlen(text);

    if (len > max) {
        return refuse_value(place, reason,
                            "has %zu bytes, at most %zu are allowed (%s); shorten it, or use a "
                            "hash of it",
                            len, max, limit);
    }
    *out = slice_of(text);
    return 0;
}

int read_key(const char *key, struct place place, struct slice *out)
{
    return read_short(key, KEY_BYTES_MAX, "KEY_BYTES_MAX", "KEY_TOO_LONG", &place, out);
}

int read_order_key(const char *key, struct place place, struct slice *out)
{
    return read_short(key, ORDER_KEY_BYTES_MAX, "ORDER_KEY_BYTES_MAX", "ORDER_KEY_TOO_LONG", &place,
                      out);
}

int read_stored_key(struct slice order_key, struct slice key, struct arena *arena,
                    struct place place, struct slice *out)
{
    size_t len = order_key.len + key.len + 2;
    uint8_t *buf = NULL;

    if (order_key.len > 0 && key.len > 0) {
        // No longer than both were on the wire, so that a message's size bounds it.
        arena_allow(arena, arena->used + len + MESSAGE_ELEMENT_BYTES);
        buf = arena_new(arena, len);
        if (buf == NULL) {
            fault_set_err(place.fault, ERR_NO_MEMORY, "cannot read the key");
            return ERR_NO_MEMORY;
        }
    }
    *out = task_key_join(order_key, key, buf);
    return 0;
}

int read_payload(ProtobufCBinaryData payload, struct place place, struct slice *out)
{
    if (payload.len > PAYLOAD_BYTES_MAX) {
        return refuse_value(&place, "PAYLOAD_TOO_LARGE",
                            "has %zu bytes, at most %d are allowed (PAYLOAD_BYTES_MAX); store it "
                            "elsewhere and send a reference",
                            payload.len, PAYLOAD_BYTES_MAX);
    }
    *out = (struct slice){payload.data, payload.len};
    return 0;
}

int read_task_id(const char *text, struct place place, struct task_id *out)
{
    if (task_id_parse(slice_of(text), out) != 0) {
        return refuse_value(&place, "ID_INVALID",
                            "\"%.40s\" is not a task id; one looks like 0a7-0000012300000001",
                            text);
    }
    return 0;
}

/* Whole milliseconds, rounded up. shape: seconds within ± 10^12, |nanos| < 10^9. */
static int64_t ms_of(int64_t seconds, int32_t nanos)
{
    int64_t part = nanos >= 0 ? (nanos + NS_PER_MS - 1) / NS_PER_MS : nanos / NS_PER_MS;

    return seconds * MS_PER_S + part;
}

int read_due(const Google__Protobuf__Timestamp *time, struct place place, wall_ms *out)
{
    wall_ms due_ms;

    if (time->seconds < TIMESTAMP_S_MIN || time->seconds > TIMESTAMP_S_MAX || time->nanos < 0 ||
        time->nanos >= NS_PER_S) {
        return refuse_value(&place, "TIME_OUT_OF_RANGE",
                            "(%" PRId64 " s, %" PRId32 " ns) is not a valid timestamp: seconds are "
                            "those of the years 1 to 9999, nanos 0 to 999999999",
                            time->seconds, time->nanos);
    }
    due_ms = ms_of(time->seconds, time->nanos);
    if (due_ms > DUE_WALL_MS_MAX) {
        return refuse_value(&place, "TIME_OUT_OF_RANGE",
                            "is %" PRId64 " ms since 1970, the latest is %" PRId64
                            " (DUE_WALL_MS_MAX, end of the year 2200); choose an earlier one",
                            due_ms, DUE_WALL_MS_MAX);
    }
    *out = time_max(due_ms, 0);
    return 0;
}

int read_duration(const Google__Protobuf__Duration *duration, struct place place, span_ms *out)
{
    int64_t seconds = duration->seconds;
    int32_t nanos = duration->nanos;

    if (seconds < -DURATION_S_MAX || seconds > DURATION_S_MAX || nanos <= -NS_PER_S ||
        nanos >= NS_PER_S || (seconds > 0 && nanos < 0) || (seconds < 0 && nanos > 0)) {
        return refuse_value(&place, "TIME_OUT_OF_RANGE",
                            "(%" PRId64 " s, %" PRId32 " ns) is not a valid duration: seconds are "
                            "within +-315576000000, nanos within +-999999999 and of the same sign",
                            seconds, nanos);
    }
    *out = ms_of(seconds, nanos);
    return 0;
}

int read_delay(const Google__Protobuf__Duration *delay, struct place place, span_ms *out)
{
    span_ms delay_ms = 0;
    int err = read_duration(delay, place, &delay_ms);

    if (err != 0) {
        return err;
    }
    if (delay_ms > DELAY_MS_MAX) {
        return refuse_value(&place, "TIME_OUT_OF_RANGE",
                            "is %" PRId64 " ms, the longest is %" PRId64
                            " (DELAY_MS_MAX, a hundred years); choose a shorter one",
                            delay_ms, DELAY_MS_MAX);
    }
    *out = time_max(delay_ms, 0);
    return 0;
}

Google__Protobuf__Timestamp *write_time(wall_ms time, Google__Protobuf__Timestamp *out)
{
    int64_t ms = time % MS_PER_S;

    if (time == WALL_NEVER) {
        return NULL;
    }
    google__protobuf__timestamp__init(out);
    out->seconds = time / MS_PER_S - (ms < 0 ? 1 : 0);
    out->nanos = (int32_t)((ms < 0 ? ms + MS_PER_S : ms) * NS_PER_MS);
    return out;
}

Google__Protobuf__Duration *write_duration(span_ms span, Google__Protobuf__Duration *out)
{
    google__protobuf__duration__init(out);
    out->seconds = span / MS_PER_S;
    out->nanos = (int32_t)(span % MS_PER_S * NS_PER_MS);
    return out;
}

wall_ms read_reply_time(const Google__Protobuf__Timestamp *time)
{
    if (time == NULL || time->seconds < TIMESTAMP_S_MIN || time->seconds > TIMESTAMP_S_MAX ||
        time->nanos < 0 || time->nanos >= NS_PER_S) {
        return WALL_NEVER;
    }
    return ms_of(time->seconds, time->nanos);
}

char *wire_text(const char *text)
{
    return (char *)(uintptr_t)text;
}

ProtobufCBinaryData wire_bytes(struct slice bytes)
{
    return (ProtobufCBinaryData){.len = bytes.len, .data = (uint8_t *)(uintptr_t)bytes.data};
}
