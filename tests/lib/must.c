/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner of plain test programs. A case fails if its process ends in any way but exit(0), which
 * includes the exit codes that the sanitizers set for leaks and races. Besides main.c and check.c
 * the only file that calls exit(): a failed assertion leaves the case at once.
 */
#include "tests/lib/must.h"

#include "lib/base/err.h"

#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAP_NS      2000000
#define FAILED_EXIT 1

_Noreturn void must_fail(struct must_place place, const char *format, ...)
{
    va_list arguments;

    va_start(arguments, format);
    (void)fprintf(stderr, "%s:%d: ", place.file, place.line);
    (void)vfprintf(stderr, format, arguments);
    (void)fputc('\n', stderr);
    va_end(arguments);
    (void)fflush(NULL);
    _exit(
        FAILED_EXIT); // No exit handlers: they would wait for threads that the failure left behind.
}

void must_eq(intmax_t left, intmax_t right, const char *text, struct must_place place)
{
    if (left != right) {
        must_fail(place, "%s: %" PRIdMAX " and %" PRIdMAX, text, left, right);
    }
}

void must_eq_unsigned(uintmax_t left, uintmax_t right, const char *text, struct must_place place)
{
    if (left != right) {
        must_fail(place, "%s: %" PRIuMAX " and %" PRIuMAX, text, left, right);
    }
}

void must_le(intmax_t left, intmax_t right, const char *text, struct must_place place)
{
    if (left > right) {
        must_fail(place, "%s: %" PRIdMAX " and %" PRIdMAX, text, left, right);
    }
}

void must_eq_text(const char *left, const char *right, const char *text, struct must_place place)
{
    if (left == NULL || right == NULL || strcmp(left, right) != 0) {
        must_fail(place, "%s: \"%s\" and \"%s\"", text, left == NULL ? "(null)" : left,
                  right == NULL ? "(null)" : right);
    }
}

void must_eq_bytes(const void *left, const void *right, size_t len, struct must_place place)
{
    const unsigned char *a = left;
    const unsigned char *b = right;

    for (size_t i = 0; i < len; i++) {
        if (a[i] != b[i]) {
            must_fail(place, "byte %zu of %zu: 0x%02x and 0x%02x", i, len, a[i], b[i]);
        }
    }
}

void must_ok(int code, const char *text, struct must_place place)
{
    must_err(code, ERR_OK, text, place);
}

void must_err(int code, int wanted, const char *text, struct must_place place)
{
    if (code != wanted) {
        must_fail(place, "%s: gave %s (%d), wanted %s (%d)", text, err_name(code), code,
                  err_name(wanted), wanted);
    }
}

int64_t must_now_ms(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void must_nap(void)
{
    struct timespec nap = {.tv_nsec = NAP_NS};

    (void)nanosleep(&nap, NULL);
}

static bool is_chosen(const char *name, int argc, char **argv)
{
    bool any = false;

    for (int i = 1; i < argc; i++) {
        if (argv[i][0] == '-') {
            continue;
        }
        any = true;
        if (strstr(name, argv[i]) != NULL) {
            return true;
        }
    }
    return !any;
}

static bool has_option(const char *option, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], option) == 0) {
            return true;
        }
    }
    return false;
}

static unsigned limit_of(const struct must_case *one)
{
    return one->limit_s == 0 ? MUST_CASE_LIMIT_S : one->limit_s;
}

/* A process group of its own, so that what the case started and left can be ended with it. */
static _Noreturn void run_child(const struct must_case *one, pid_t parent)
{
    (void)setpgid(0, 0);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {
        _exit(FAILED_EXIT);
    }
    (void)alarm(limit_of(one));
    one->run();
    (void)fflush(NULL);
    exit(0); // Not _exit(): the leak check runs among the exit handlers.
}

static void tell_failure(const struct must_case *one, int status)
{
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        (void)printf("FAILED %s: no end within %u s\n", one->name, limit_of(one));
    } else if (WIFSIGNALED(status)) {
        (void)printf("FAILED %s: ended by signal %d\n", one->name, WTERMSIG(status));
    } else {
        (void)printf("FAILED %s: exit status %d\n", one->name, WEXITSTATUS(status));
    }
}

static bool run_forked(const struct must_case *one)
{
    pid_t parent = getpid();
    int status = 0;
    pid_t child;

    (void)fflush(NULL);
    child = fork();
    if (child == 0) {
        run_child(one, parent);
    }
    if (child < 0 || waitpid(child, &status, 0) != child) {
        perror("must_main: cannot run a case");
        return false;
    }
    (void)kill(-child, SIGKILL);
    if (status != 0) {
        tell_failure(one, status);
    }
    return status == 0;
}

int must_main(int argc, char **argv, const struct must_case *cases, size_t count)
{
    bool lists = has_option("-l", argc, argv);
    bool in_process = has_option("-1", argc, argv);
    int passed = 0;
    int failed = 0;

    for (size_t i = 0; i < count; i++) {
        bool good = true;

        if (!is_chosen(cases[i].name, argc, argv)) {
            continue;
        }
        if (lists) {
            (void)printf("%s\n", cases[i].name);
        } else if (in_process) {
            cases[i].run();
        } else {
            good = run_forked(&cases[i]);
        }
        passed += good;
        failed += !good;
    }
    if (!lists) {
        (void)printf("%d passed, %d failed\n", passed, failed);
    }
    return failed == 0 && passed > 0 ? 0 : 1;
}
