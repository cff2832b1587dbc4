/* SPDX-License-Identifier: Apache-2.0
 *
 * A client of a Foliot cluster: one handle for a whole program, usable from any thread. It finds
 * out which broker owns what, sends each call there, and repeats what is safe to repeat.
 *
 * What holds for all calls:
 *
 * 1. Every call has two forms. foliot_x() waits and returns the result. foliot_x_async() returns at
 *    once; if it returns FOLIOT_OK, its callback runs exactly once, later, on the client's own
 *    thread, else never. A callback must not block for long, because all callbacks of a client
 * share that thread; it may start further asynchronous calls, but a waiting call made from it is
 * refused with FOLIOT_FAILED_PRECONDITION.
 * 2. Arguments are borrowed for the call: texts, payloads and structs may go when it returns, in
 * both forms. `options` may be NULL, and so may `error`. Texts are UTF-8, ended by a NUL; a text
 * that may be left out may be NULL or empty.
 * 3. Structs that go in begin with struct_size. Set them up by their ..._init function, which
 * zeroes them, then fill in what you need: so a program that was compiled with this header runs
 * with later libraries of the same SONAME.
 * 4. A result is written on FOLIOT_OK only. Small ones go into the caller's struct. Large ones come
 * as a pointer to const that is freed by the ..._free function of its type; everything that hangs
 * on it goes with it. A callback borrows its result until it returns.
 * 5. Every call has a deadline: timeout_ms of its options, else of the client. The waiting form
 *    returns by then, give or take the scheduling of threads.
 * 6. Errors say whether anything may have happened: see struct foliot_error. Until the deadline the
 *    library repeats by itself what is safe: what a broker refused while nothing had happened
 *    (UNAVAILABLE, and RESOURCE_EXHAUSTED with a delay, which is waited for), and what has an
 *    unknown outcome but may be done twice, which is said at each call.
 * 7. The library writes to no stream, handles no signal, changes no state of the process and never
 *    ends it, but for a broken invariant of its own (a bug, or memory that was overwritten). After
 *    fork(), the child must not touch the client.
 *
 * Times are milliseconds: points in time since 1970-01-01 UTC, lengths of time as such.
 */
#ifndef FOLIOT_CLIENT_H
#define FOLIOT_CLIENT_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define FOLIOT_VERSION_MAJOR 0
#define FOLIOT_VERSION_MINOR 1
#define FOLIOT_VERSION_PATCH 0

#if defined(__GNUC__)
#define FOLIOT_API __attribute__((visibility("default")))
#else
#define FOLIOT_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A time that is not known, or does not apply. */
#define FOLIOT_TIME_UNKNOWN INT64_MAX

/* Room for a task's id and its NUL: an id has 20 characters. */
#define FOLIOT_ID_SIZE 24

/* Room for a page token and its NUL. */
#define FOLIOT_TOKEN_SIZE 96

/* When something is to happen. */
enum foliot_when {
    FOLIOT_WHEN_UNSAID = 0, /* what the call says of it */
    FOLIOT_WHEN_AT = 1,     /* a point in time */
    FOLIOT_WHEN_AFTER = 2   /* a delay, from now by the database's clock */
};

/* How a call ended. The numbers are those of gRPC and never change. */
enum foliot_code {
    FOLIOT_OK = 0,
    FOLIOT_CANCELLED = 1,           /* the client was stopped or closed */
    FOLIOT_OUTCOME_UNKNOWN = 2,     /* it may have happened, or not */
    FOLIOT_INVALID_ARGUMENT = 3,    /* the request is wrong: field and message say how */
    FOLIOT_DEADLINE_EXCEEDED = 4,   /* no answer in time */
    FOLIOT_NOT_FOUND = 5,           /* no such task or queue */
    FOLIOT_ALREADY_EXISTS = 6,      /* the key or the name is taken */
    FOLIOT_PERMISSION_DENIED = 7,   /* the operator does not allow it */
    FOLIOT_RESOURCE_EXHAUSTED = 8,  /* a named limit was met */
    FOLIOT_FAILED_PRECONDITION = 9, /* not in a state that allows this */
    FOLIOT_ABORTED = 10,
    FOLIOT_OUT_OF_RANGE = 11,
    FOLIOT_UNIMPLEMENTED = 12, /* the broker does not know the call: it is older than the library */
    FOLIOT_INTERNAL = 13,      /* a fault of broker or library */
    FOLIOT_UNAVAILABLE = 14,   /* no broker can do it now */
    FOLIOT_DATA_LOSS = 15,
    FOLIOT_UNAUTHENTICATED = 16
};

/* Name of a code: "UNAVAILABLE"; "?" for a number that is none. Static text. */
FOLIOT_API const char *foliot_code_name(int code);

/*
 * How a call ended, in full. Given to a call it is always filled in, also on FOLIOT_OK.
 *
 * may_have_happened is 0 if it is certain that the call changed nothing: then anything may be tried
 * again. It is 1 after FOLIOT_OUTCOME_UNKNOWN and, of calls that change something, after whatever a
 * broken line or a foreign peer leaves open: look, or repeat with the same key.
 */
struct foliot_error {
    enum foliot_code code;
    int may_have_happened;
    int64_t retry_after_ms; /* above 0: what the broker asks to wait before the next try */
    uint32_t tries;         /* how often the call was sent; above 1: the library has repeated it */
    char broker[64];        /* "host:port" that was asked last, cut; empty if none was */
    char reason[48];   /* stable word for programs: "QUEUE_NOT_FOUND"; docs/ERRORS.md has all */
    char field[96];    /* the field to blame, "payload"; empty if none is */
    char message[400]; /* for people: what was wrong, the limit, and what to do */
    int64_t reserved[8];
};

struct foliot_client;

/* Set up by foliot_options_init(), then change what matters; 0 or NULL means the default. */
struct foliot_options {
    size_t struct_size;
    const char *servers;    /* brokers to begin with: "host:port", several divided by commas; the
                               others are learned from them. Default "127.0.0.1:7400" */
    int64_t timeout_ms;     /* deadline of a call that names none: default 10 000 */
    int64_t try_timeout_ms; /* a call that may be repeated is tried elsewhere when a broker has not
                               answered for this long: default 3 000 */
    uint32_t calls_max;     /* calls that wait for their answer; one more is refused with
                               FOLIOT_RESOURCE_EXHAUSTED, reason CALLS_MAX: default 10 000 */
    int servers_only;       /* not 0: talk to `servers` only, as behind a load balancer or where the
                               brokers' own addresses cannot be reached */
    int tls;                /* not 0, or one of the next four said: talk TLS */
    const char *tls_ca;     /* PEM file of whom to trust. Default: the system's list */
    const char
        *tls_cert; /* PEM file of our certificate, for brokers that ask for one; with tls_key */
    const char *tls_key;  /* PEM file of its key, not encrypted */
    const char *tls_name; /* name that every broker's certificate has. Default: each that of its own
                             address */
    int impatient;        /* not 0: a call ends rather than wait before its next try; only other
                             brokers are asked, at once: for programs with a person who waits */
};

static inline void foliot_options_init(struct foliot_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
}

/*
 * Make a client: its thread starts here, its connections with the first call.
 *
 * shape:     options may be NULL.
 * ownership: *out is freed by foliot_client_close().
 * errors:    FOLIOT_INVALID_ARGUMENT (servers, a negative number), FOLIOT_RESOURCE_EXHAUSTED
 * (memory, descriptors, threads). That no broker answers is no error here.
 */
FOLIOT_API int foliot_client_open(const struct foliot_options *options, struct foliot_client **out,
                                  struct foliot_error *error);

/*
 * End every call that waits, in any thread, with FOLIOT_CANCELLED (or OUTCOME_UNKNOWN), and refuse
 * new ones. Returns at once; may be called from a callback, and more than once.
 *
 * note: to end a program with several threads: stop, join the threads, close.
 */
FOLIOT_API void foliot_client_stop(struct foliot_client *client);

/*
 * Stop, wait until the last callback has returned, and free everything.
 *
 * shape: NULL is fine. No other thread may be in a call of this client, or begin one, any more.
 * Must not be called from a callback: returns FOLIOT_FAILED_PRECONDITION and does nothing.
 */
FOLIOT_API int foliot_client_close(struct foliot_client *client);

/* Options of one call. */
struct foliot_call_options {
    size_t struct_size;
    int64_t timeout_ms; /* until the deadline; 0: that of the client */
};

static inline void foliot_call_options_init(struct foliot_call_options *options)
{
    memset(options, 0, sizeof(*options));
    options->struct_size = sizeof(*options);
}

/* What the client has done so far. */
struct foliot_client_stats {
    uint64_t calls;         /* calls begun */
    uint64_t tries;         /* times a call was sent */
    uint64_t direct;        /* tries that went straight to the owner */
    uint64_t refreshes;     /* answers that told brokers and shards anew */
    uint32_t brokers;       /* brokers known; 0 before the first of these answers */
    uint32_t calls_waiting; /* calls that wait for their answer; not those whose callback runs */
    uint64_t reserved[4];
};

FOLIOT_API void foliot_client_get_stats(struct foliot_client *client,
                                        struct foliot_client_stats *out);

/* Version of the library that is running: "0.1.0". */
FOLIOT_API const char *foliot_version(void);

#ifdef __cplusplus
}
#endif

#endif
