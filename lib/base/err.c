/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of error codes, unfolded.
 */
#include "lib/base/err.h"

#include "lib/base/attr.h"

#include <stddef.h>

#define CASE_NAME(name, number, class, status, text) \
    case number:                                     \
        return #name;
#define CASE_TEXT(name, number, class, status, text) \
    case number:                                     \
        return text;
#define CASE_CLASS(name, number, class, status, text) \
    case number:                                      \
        return ERR_CLASS_##class;
#define CASE_STATUS(name, number, class, status, text) \
    case number:                                       \
        return RPC_##status;

const char *err_name(int code)
{
    switch (code) {
    case 0:
        return "ERR_OK";
        ERR_TABLE(CASE_NAME)
    default:
        return "ERR_?";
    }
}

const char *err_text(int code)
{
    switch (code) {
    case 0:
        return "ok";
        ERR_TABLE(CASE_TEXT)
    default:
        return "unknown error";
    }
}

enum err_class err_class(int code)
{
    switch (code) {
    case 0:
        return ERR_CLASS_NONE;
        ERR_TABLE(CASE_CLASS)
    default:
        return ERR_CLASS_FATAL;
    }
}

enum rpc_status err_status(int code)
{
    switch (code) {
    case 0:
        return RPC_OK;
        ERR_TABLE(CASE_STATUS)
    default:
        return RPC_INTERNAL;
    }
}

const char *err_status_name(enum rpc_status status)
{
    static const char *const names[] = {
        "OK",
        "CANCELLED",
        "UNKNOWN",
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

    return (size_t)status < ARRAY_COUNT(names) ? names[status] : "UNKNOWN";
}
