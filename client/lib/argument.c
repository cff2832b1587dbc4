/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes from the caller's program, and the errors that go back to it. Nothing here trusts a
 * pointer's contents beyond what the public header asks for.
 */
#include "client/lib/client.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A struct that says that it is larger was never set up. */
#define STRUCT_BYTES_MAX 4096

static const char *const CODE_NAMES[] = {
    "OK",
    "CANCELLED",
    "OUTCOME_UNKNOWN",
    "INVALID_ARGUMENT",
    "DEADLINE_EXCEEDED",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "PERMISSION_DENIED",
    "RESOURCE_EXHAUSTED",
    "FAILED_PRECONDITION",
    "ABORTED",
    "OUT_OF_RANGE",
    "UNIMPLEMENTED",
    "INTERNAL",
    "UNAVAILABLE",
    "DATA_LOSS",
    "UNAUTHENTICATED",
};

_Static_assert(ARRAY_COUNT(CODE_NAMES) == FOLIOT_UNAUTHENTICATED + 1, "every code has a name");
_Static_assert((int)FOLIOT_UNAUTHENTICATED == (int)RPC_UNAUTHENTICATED &&
                   (int)FOLIOT_UNAVAILABLE == (int)RPC_UNAVAILABLE &&
                   (int)FOLIOT_OUTCOME_UNKNOWN == (int)RPC_UNKNOWN,
               "codes have gRPC's numbers");
_Static_assert(sizeof(((struct foliot_error *)NULL)->reason) == FAULT_REASON_BYTES &&
                   sizeof(((struct foliot_error *)NULL)->field) == FAULT_FIELD_BYTES &&
                   sizeof(((struct foliot_error *)NULL)->message) == FAULT_MESSAGE_BYTES,
               "a fault fits an error");

const char *foliot_code_name(int code)
{
    return code >= 0 && (size_t)code < ARRAY_COUNT(CODE_NAMES) ? CODE_NAMES[code] : "?";
}

int error_fill(struct foliot_error *error, const struct fault *fault)
{
    if (error != NULL) {
        memset(error, 0, sizeof(*error));
        error->code = (enum foliot_code)fault->status;
        if (fault->status != RPC_OK) {
            error->retry_after_ms = fault->retry_after_ms;
            memcpy(error->reason, fault->reason, sizeof(error->reason));
            memcpy(error->field, fault->field, sizeof(error->field));
            memcpy(error->message, fault->message, sizeof(error->message));
        }
    }
    return (int)fault->status;
}

int error_refuse(struct foliot_error *error, const char *reason, const char *field,
                 const char *format, ...)
{
    char message[FAULT_MESSAGE_BYTES];
    struct fault fault;
    va_list args;

    va_start(args, format);
    (void)vsnprintf(message, sizeof(message), format, args);
    va_end(args);
    fault_set(&fault, RPC_INVALID_ARGUMENT, reason, field, "%s", message);
    return error_fill(error, &fault);
}

int argument_take(const void *given, void *out, size_t size, const char *what, struct fault *fault)
{
    const unsigned char *bytes = given;
    size_t given_size = 0;

    if (given == NULL) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "ARGUMENT_MISSING", what, "%s: is NULL", what);
        return ERR_INVALID;
    }
    memcpy(&given_size, given, sizeof(given_size));
    if (given_size <= sizeof(given_size) || given_size > STRUCT_BYTES_MAX) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "STRUCT_NOT_SET_UP", what,
                  "%s: struct_size is %zu; set the struct up by its init function", what,
                  given_size);
        return ERR_INVALID;
    }
    for (size_t i = size; i < given_size; i++) {
        if (bytes[i] != 0) {
            fault_set(fault, RPC_UNIMPLEMENTED, "STRUCT_TOO_NEW", what,
                      "%s: says what libfoliot %s does not know; use a newer one", what,
                      foliot_version());
            return ERR_INVALID;
        }
    }
    memset(out, 0, size);
    memcpy(out, given, given_size < size ? given_size : size);
    return 0;
}

const char *argument_text(const char *text, const char *otherwise)
{
    return text == NULL || text[0] == '\0' ? otherwise : text;
}

int argument_check_text(const char *text, size_t bytes_max, const char *field, const char *limit,
                        struct fault *fault)
{
    if (strnlen(text, bytes_max + 1) <= bytes_max) {
        return 0;
    }
    fault_set(fault, RPC_INVALID_ARGUMENT,
              strcmp(field, "key") == 0         ? "KEY_TOO_LONG"
              : strcmp(field, "order_key") == 0 ? "ORDER_KEY_TOO_LONG"
                                                : "NAME_INVALID",
              field, "%s: \"%.40s…\" has more than %zu bytes (%s)", field, text, bytes_max, limit);
    return ERR_INVALID;
}
