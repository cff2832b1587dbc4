/* SPDX-License-Identifier: Apache-2.0
 *
 * Assertions and a runner for tests that are plain programs: threaded tests, because Criterion dies
 * under TSan, and tests with real servers. Each case runs in a child process of its own, so a
 * crash, a leak or a hang fails that case and no other; the program ends with "N passed, N failed".
 *
 *     static void answers_after_commit(void)
 *     {
 *         MUST_OK(store_open(…));
 *         MUST_EQ(count, 3);
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         static const struct must_case cases[] = {MUST_CASE(answers_after_commit)};
 *
 *         return must_main(argc, argv, cases, ARRAY_COUNT(cases));
 *     }
 */
#ifndef FOLIOT_TESTS_LIB_MUST_H
#define FOLIOT_TESTS_LIB_MUST_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct must_case {
    const char *name; /* the promise */
    void (*run)(void);
    unsigned limit_s; /* the case fails after this many seconds; 0 means MUST_CASE_LIMIT_S */
};

/* Long enough for a loaded machine under a sanitizer, short enough to find a hang in CI. */
#define MUST_CASE_LIMIT_S 60

#define MUST_CASE(function)                 \
    {                                       \
        .name = #function, .run = function, \
    }
#define MUST_CASE_WITHIN(function, seconds)                      \
    {                                                            \
        .name = #function, .run = function, .limit_s = (seconds) \
    }

/*
 * Run the cases, each in a child process, and print one line per failed case and the closing line.
 *
 * shape:  argv may name cases to run (part of a name is enough); none means all. "-l" lists them.
 *         "-1" runs them in this process, for a debugger: the first failure then ends the program.
 * return: the exit status for main(): 0 if and only if at least one case ran and none failed.
 */
int must_main(int argc, char **argv, const struct must_case *cases, size_t count);

/* Where an assertion stands. */
struct must_place {
    const char *file;
    int line;
};

/* The functions behind the macros: each prints both sides and ends the case if they differ. */
_Noreturn void must_fail(struct must_place place, const char *format, ...) PRINTF_LIKE(2, 3);
void must_eq(intmax_t left, intmax_t right, const char *text, struct must_place place);
void must_eq_unsigned(uintmax_t left, uintmax_t right, const char *text, struct must_place place);
void must_le(intmax_t left, intmax_t right, const char *text, struct must_place place);
void must_eq_text(const char *left, const char *right, const char *text, struct must_place place);
void must_eq_bytes(const void *left, const void *right, size_t len, struct must_place place);
void must_ok(int code, const char *text, struct must_place place);
void must_err(int code, int wanted, const char *text, struct must_place place);

/* Monotonic milliseconds, for MUST_SOON and for measuring. */
int64_t must_now_ms(void);

/* Give other processes a few milliseconds; only inside MUST_SOON. */
void must_nap(void);

#define MUST_HERE ((struct must_place){__FILE__, __LINE__})
#define MUST(condition) \
    ((condition) ? (void)0 : must_fail(MUST_HERE, "does not hold: %s", #condition))
#define MUST_EQ(left, right) \
    must_eq((intmax_t)(left), (intmax_t)(right), #left " == " #right, MUST_HERE)
#define MUST_EQ_UNSIGNED(left, right) \
    must_eq_unsigned((uintmax_t)(left), (uintmax_t)(right), #left " == " #right, MUST_HERE)
#define MUST_LE(left, right) \
    must_le((intmax_t)(left), (intmax_t)(right), #left " <= " #right, MUST_HERE)

/* How often MUST_LE_ONCE measures, at most. */
#define MUST_SPAN_COUNT 3

/*
 * `left` <= `right` in one span of a few, where `left` measures a span of its own each time that it
 * is evaluated. For a bound that a stall of the machine breaks now and then, and a fault of ours in
 * every span.
 */
#define MUST_LE_ONCE(left, right)                                                       \
    do {                                                                                \
        intmax_t must_left = (intmax_t)(left);                                          \
        for (int i_span = 1; must_left > (intmax_t)(right) && i_span < MUST_SPAN_COUNT; \
             i_span++) {                                                                \
            must_left = (intmax_t)(left);                                               \
        }                                                                               \
        must_le(must_left, (intmax_t)(right), #left " <= " #right, MUST_HERE);          \
    } while (0)

#define MUST_EQ_TEXT(left, right) must_eq_text((left), (right), #left " == " #right, MUST_HERE)

#define MUST_EQ_BYTES(left, right, len) must_eq_bytes((left), (right), (len), MUST_HERE)

/* `code` is 0; otherwise the error's name is printed. */
#define MUST_OK(code) must_ok((code), #code, MUST_HERE)

/* `code` is the error `wanted`; both names are printed otherwise. */
#define MUST_ERR(code, wanted) must_err((code), (wanted), #code, MUST_HERE)

/*
 * `condition` comes true within `limit_ms`. For what only another process can tell; inside one
 * process wait for the event itself.
 */
#define MUST_SOON(condition, limit_ms)                                                             \
    do {                                                                                           \
        int64_t must_end_ms = must_now_ms() + (limit_ms);                                          \
        while (!(condition)) {                                                                     \
            if (must_now_ms() > must_end_ms) {                                                     \
                must_fail(MUST_HERE, "not within %lld ms: %s", (long long)(limit_ms), #condition); \
            }                                                                                      \
            must_nap();                                                                            \
        }                                                                                          \
    } while (0)

#endif
