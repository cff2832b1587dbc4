/* SPDX-License-Identifier: Apache-2.0
 *
 * Real foliotd processes for plain test programs: started on free ports with a fixture's servers,
 * watched through their log and admin port, ended by signal. Each dies with the test that started
 * it.
 */
#ifndef FOLIOT_TESTS_LIB_DAEMON_H
#define FOLIOT_TESTS_LIB_DAEMON_H

#include "tests/lib/fixture.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define DAEMON_FLAGS_MAX 24

struct daemon {
    pid_t pid; /* 0: not running */
    char name[64];
    char log_path[FIXTURE_TEXT_MAX];
    char address[64]; /* host:port of its gRPC port, once it serves */
    char admin[64];   /* host:port of its admin port, once it serves */
};

/*
 * Start a broker.
 *
 * shape: flags are further ones, NULL-terminated, or NULL; they replace ours of the same name.
 */
void daemon_start(struct daemon *daemon, const struct fixture *fixture, const char *name,
                  const char *const *flags);

/* Run foliotd with exactly these flags to its end. return: exit status; its standard output and
 * error are put into `output`. */
int daemon_run(const char *const *flags, char *output, size_t output_size);

/* Wait until its log says that it serves; the addresses are known then. */
void daemon_wait_serving(struct daemon *daemon);

/* The address of its admin port, which is there before anything else. */
void daemon_find_admin(struct daemon *daemon);

/* Wait until /readyz says ok. */
void daemon_wait_ready(struct daemon *daemon);

/* GET of a path of the admin port. return: status code, 0 if nobody answers; the body is put into
 * `body`, cut at its size. */
int daemon_get(const struct daemon *daemon, const char *path, char *body, size_t body_size);

/* A sample of /metrics: its name with labels as in the text; -1 if it is not there. */
double daemon_metric(const struct daemon *daemon, const char *sample);

void daemon_signal(const struct daemon *daemon, int number);

/* Wait for its end. return: exit status, or 128 + signal. */
int daemon_wait_end(struct daemon *daemon, int limit_ms);

/* SIGTERM, and an orderly end within the limit; anything else ends the case, and so does, if
 * it has served, a figure of its auditor that is not there, or not zero by then. */
void daemon_stop(struct daemon *daemon);

/* Does the log have a line with this text? */
bool daemon_has_logged(const struct daemon *daemon, const char *text);

/* How often the text is in the log. */
size_t daemon_count_logged(const struct daemon *daemon, const char *text);

#endif
