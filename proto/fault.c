/* SPDX-License-Identifier: Apache-2.0
 *
 * Faults and their encoding as google.rpc.Status.
 */
#include "proto/fault.h"

#include "lib/base/check.h"
#include "lib/base/utf8.h"
#include "proto/message.h"

#include <google/rpc/error_details.pb-c.h>
#include <google/rpc/status.pb-c.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TYPE_PREFIX      "type.googleapis.com/google.rpc."
#define TYPE_ERROR_INFO  TYPE_PREFIX "ErrorInfo"
#define TYPE_BAD_REQUEST TYPE_PREFIX "BadRequest"
#define TYPE_RETRY_INFO  TYPE_PREFIX "RetryInfo"

/* One detail: texts above, and what protobuf adds. */
#define DETAIL_BYTES_MAX 1024
#define STATUS_BYTES_MAX 16384

/* Copy text into a field of fixed size, cut at a character border. */
static void copy_cut(char *field, size_t size, struct slice text)
{
    size_t len = text.len < size ? text.len : utf8_cut(text.data, size - 1);

    if (len > 0) {
        memcpy(field, text.data, len);
    }
    field[len] = '\0';
    text_scrub(field);
}

void fault_set(struct fault *fault, enum rpc_status status, const char *reason, const char *field,
               const char *format, ...)
{
    char message[2 * FAULT_MESSAGE_BYTES];
    va_list args;

    fault->status = status;
    fault->retry_after_ms = 0;
    copy_cut(fault->reason, sizeof(fault->reason), slice_of(reason));
    copy_cut(fault->field, sizeof(fault->field), slice_of(field == NULL ? "" : field));
    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    text_scrub(message); // quotes of long texts are cut in the middle of a character
    copy_cut(fault->message, sizeof(fault->message), slice_of(message));
}

void fault_set_err(struct fault *fault, int err, const char *what)
{
    REQUIRE(err != 0);
    fault_set(fault, err_status(err), fault_reason(err), NULL, "%s: %s", what, err_text(err));
}

const char *fault_reason(int err)
{
    const char *name = err_name(err);

    return strncmp(name, "ERR_", 4) == 0 && name[4] != '?' ? name + 4 : "INTERNAL";
}

static void init_any(Google__Protobuf__Any *any, const char *type, struct buf *value)
{
    struct slice bytes = buf_slice(value);

    google__protobuf__any__init(any);
    any->type_url = (char *)(uintptr_t)type;
    any->value.len = bytes.len;
    any->value.data = (uint8_t *)(uintptr_t)bytes.data;
}

static int write_error_info(const struct fault *fault, struct buf *out)
{
    Google__Rpc__ErrorInfo info;

    google__rpc__error_info__init(&info);
    info.reason = (char *)(uintptr_t)fault->reason;
    info.domain = (char *)(uintptr_t)FAULT_DOMAIN;
    return message_write(&info.base, out);
}

static int write_bad_request(const struct fault *fault, struct buf *out)
{
    Google__Rpc__BadRequest__FieldViolation violation;
    Google__Rpc__BadRequest__FieldViolation *violations[] = {&violation};
    Google__Rpc__BadRequest request;

    google__rpc__bad_request__field_violation__init(&violation);
    violation.field = (char *)(uintptr_t)fault->field;
    violation.description = (char *)(uintptr_t)fault->message;
    google__rpc__bad_request__init(&request);
    request.n_field_violations = 1;
    request.field_violations = violations;
    return message_write(&request.base, out);
}

static int write_retry_info(const struct fault *fault, struct buf *out)
{
    Google__Protobuf__Duration delay;
    Google__Rpc__RetryInfo info;

    google__protobuf__duration__init(&delay);
    delay.seconds = fault->retry_after_ms / MS_PER_S;
    delay.nanos = (int32_t)(fault->retry_after_ms % MS_PER_S) * 1000000;
    google__rpc__retry_info__init(&info);
    info.retry_delay = &delay;
    return message_write(&info.base, out);
}

typedef int (*write_detail_fn)(const struct fault *fault, struct buf *out);

/* Which details a fault has. */
struct detail {
    const char *type;
    write_detail_fn write;
    bool is_wanted;
};

int fault_encode(const struct fault *fault, struct buf *out)
{
    const struct detail wanted[] = {
        {TYPE_ERROR_INFO, write_error_info, true},
        {TYPE_BAD_REQUEST, write_bad_request, fault->field[0] != '\0'},
        {TYPE_RETRY_INFO, write_retry_info, fault->retry_after_ms > 0},
    };
    Google__Protobuf__Any anys[ARRAY_COUNT(wanted)];
    Google__Protobuf__Any *details[ARRAY_COUNT(wanted)];
    struct buf values[ARRAY_COUNT(wanted)];
    Google__Rpc__Status status;
    int err = 0;

    google__rpc__status__init(&status);
    status.code = (int32_t)fault->status;
    status.message = (char *)(uintptr_t)fault->message;
    status.details = details;
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        buf_init(&values[i], DETAIL_BYTES_MAX);
        if (wanted[i].is_wanted && err == 0) {
            err = wanted[i].write(fault, &values[i]);
            init_any(&anys[i], wanted[i].type, &values[i]);
            details[status.n_details++] = &anys[i];
        }
    }
    if (err == 0) {
        err = message_write(&status.base, out);
    }
    for (size_t i = 0; i < ARRAY_COUNT(wanted); i++) {
        buf_fini(&values[i]);
    }
    return err;
}

static void read_error_info(struct fault *fault, struct slice value, struct arena *arena)
{
    ProtobufCMessage *message;
    struct fault ignored;

    if (message_read(&google__rpc__error_info__descriptor, value, arena, &message, &ignored) == 0) {
        const Google__Rpc__ErrorInfo *info = (const Google__Rpc__ErrorInfo *)(void *)message;

        copy_cut(fault->reason, sizeof(fault->reason), slice_of(info->reason));
    }
}

static void read_bad_request(struct fault *fault, struct slice value, struct arena *arena)
{
    ProtobufCMessage *message;
    struct fault ignored;

    if (message_read(&google__rpc__bad_request__descriptor, value, arena, &message, &ignored) ==
        0) {
        const Google__Rpc__BadRequest *request = (const Google__Rpc__BadRequest *)(void *)message;

        if (request->n_field_violations > 0) {
            copy_cut(fault->field, sizeof(fault->field),
                     slice_of(request->field_violations[0]->field));
        }
    }
}

static void read_retry_info(struct fault *fault, struct slice value, struct arena *arena)
{
    ProtobufCMessage *message;
    struct fault ignored;

    if (message_read(&google__rpc__retry_info__descriptor, value, arena, &message, &ignored) == 0) {
        const Google__Rpc__RetryInfo *info = (const Google__Rpc__RetryInfo *)(void *)message;

        if (info->retry_delay != NULL && info->retry_delay->seconds >= 0) {
            fault->retry_after_ms = time_add(time_mul(info->retry_delay->seconds, MS_PER_S),
                                             info->retry_delay->nanos / 1000000);
        }
    }
}

static void read_detail(struct fault *fault, const Google__Protobuf__Any *any, struct arena *arena)
{
    struct slice value = {any->value.data, any->value.len};

    if (strcmp(any->type_url, TYPE_ERROR_INFO) == 0) {
        read_error_info(fault, value, arena);
    } else if (strcmp(any->type_url, TYPE_BAD_REQUEST) == 0) {
        read_bad_request(fault, value, arena);
    } else if (strcmp(any->type_url, TYPE_RETRY_INFO) == 0) {
        read_retry_info(fault, value, arena);
    }
}

void fault_decode(struct fault *fault, enum rpc_status status, struct slice message,
                  struct slice details)
{
    struct arena arena;
    struct fault ignored;
    ProtobufCMessage *read;

    memset(fault, 0, sizeof(*fault));
    fault->status = status;
    copy_cut(fault->message, sizeof(fault->message), message);
    arena_init(&arena, 0);
    if (details.len > 0 && details.len <= STATUS_BYTES_MAX &&
        message_read(&google__rpc__status__descriptor, details, &arena, &read, &ignored) == 0) {
        const Google__Rpc__Status *decoded = (const Google__Rpc__Status *)(void *)read;

        for (size_t i = 0; i < decoded->n_details; i++) {
            read_detail(fault, decoded->details[i], &arena);
        }
    }
    arena_fini(&arena);
}
