/* SPDX-License-Identifier: Apache-2.0
 *
 * Error codes of the whole product. Functions that can fail return 0 or one of the negative codes
 * below; the one table gives each its name, its text, its gRPC status and its class. Policy
 * switches on the class, never on text.
 */
#ifndef FOLIOT_LIB_BASE_ERR_H
#define FOLIOT_LIB_BASE_ERR_H

/* What a caller may do about an error. */
enum err_class {
    ERR_CLASS_NONE,    /* no error */
    ERR_CLASS_CALLER,  /* the request is wrong: repeating it will not help */
    ERR_CLASS_RETRY,   /* nothing happened: try again later */
    ERR_CLASS_FENCED,  /* we are not the owner: nothing happened, find the owner */
    ERR_CLASS_UNKNOWN, /* it may or may not have happened: raise the epoch, then look */
    ERR_CLASS_LIMIT,   /* a named limit was met: nothing happened */
    ERR_CLASS_FATAL    /* this object is finished: close it */
};

/* gRPC status codes, by their numbers on the wire. source: gRPC statuscodes.md */
enum rpc_status {
    RPC_OK = 0,
    RPC_CANCELLED = 1,
    RPC_UNKNOWN = 2,
    RPC_INVALID_ARGUMENT = 3,
    RPC_DEADLINE_EXCEEDED = 4,
    RPC_NOT_FOUND = 5,
    RPC_ALREADY_EXISTS = 6,
    RPC_PERMISSION_DENIED = 7,
    RPC_RESOURCE_EXHAUSTED = 8,
    RPC_FAILED_PRECONDITION = 9,
    RPC_ABORTED = 10,
    RPC_OUT_OF_RANGE = 11,
    RPC_UNIMPLEMENTED = 12,
    RPC_INTERNAL = 13,
    RPC_UNAVAILABLE = 14,
    RPC_DATA_LOSS = 15,
    RPC_UNAUTHENTICATED = 16
};

/* X(name, number, class, gRPC status, text) */
#define ERR_TABLE(X)                                                                    \
    X(ERR_INVALID, -1, CALLER, INVALID_ARGUMENT, "invalid argument")                    \
    X(ERR_NOT_FOUND, -2, CALLER, NOT_FOUND, "not found")                                \
    X(ERR_EXISTS, -3, CALLER, ALREADY_EXISTS, "already exists")                         \
    X(ERR_CONFLICT, -4, CALLER, FAILED_PRECONDITION, "not in a state that allows this") \
    X(ERR_GONE, -5, CALLER, NOT_FOUND, "no longer pending")                             \
    X(ERR_DENIED, -6, CALLER, PERMISSION_DENIED, "not allowed")                         \
    X(ERR_UNAVAILABLE, -7, RETRY, UNAVAILABLE, "unavailable, nothing happened")         \
    X(ERR_CANCELLED, -8, RETRY, CANCELLED, "cancelled by the caller")                   \
    X(ERR_TIMEOUT, -9, RETRY, DEADLINE_EXCEEDED, "deadline exceeded, nothing happened") \
    X(ERR_IO, -10, RETRY, UNAVAILABLE, "input/output error")                            \
    X(ERR_FENCED, -11, FENCED, UNAVAILABLE, "not the owner of this shard")              \
    X(ERR_OUTCOME_UNKNOWN, -12, UNKNOWN, UNKNOWN, "the outcome is unknown")             \
    X(ERR_FULL, -13, LIMIT, RESOURCE_EXHAUSTED, "a queue is full, nothing happened")    \
    X(ERR_TOO_LARGE, -14, LIMIT, RESOURCE_EXHAUSTED, "above a size limit")              \
    X(ERR_NO_MEMORY, -15, LIMIT, RESOURCE_EXHAUSTED, "out of memory")                   \
    X(ERR_PROTOCOL, -16, FATAL, INTERNAL, "protocol violation")                         \
    X(ERR_CLOSED, -17, FATAL, UNAVAILABLE, "closed")                                    \
    X(ERR_UNSUPPORTED, -18, CALLER, UNIMPLEMENTED, "not supported")                     \
    X(ERR_INTERNAL, -19, FATAL, INTERNAL, "internal error")

#define ERR_ENUM(name, number, class, status, text) name = number,
enum err {
    ERR_OK = 0,
    ERR_TABLE(ERR_ENUM)
};
#undef ERR_ENUM

/*
 * Name of a code, for logs and tests: "ERR_FENCED".
 *
 * shape: any int; an unknown code gives "ERR_?". The string is static.
 */
const char *err_name(int code);

/*
 * Text of a code for people: lower case, no full stop. Static string.
 */
const char *err_text(int code);

/*
 * Class of a code; ERR_CLASS_NONE for 0, ERR_CLASS_FATAL for an unknown code.
 */
enum err_class err_class(int code);

/* Name of a gRPC status: "NOT_FOUND"; "UNKNOWN" for a number that is none. Static string. */
const char *err_status_name(enum rpc_status status);

/*
 * gRPC status that a code is answered with; RPC_INTERNAL for an unknown code.
 */
enum rpc_status err_status(int code);

#endif
