/* SPDX-License-Identifier: Apache-2.0
 *
 * Real servers for plain test programs: addresses from the environment, databases by libpq.
 */
#include "tests/lib/fixture.h"

#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS       FOLIOT_SOURCE_DIR "/tools/servers"
#define ARGUMENTS_MAX 64
#define SQL_MAX       512
#define TITLE_LEN_MAX 30

/* Ports of fixture_free_port(). */
#define PORT_MIN   11000
#define PORT_COUNT 9000

void fixture_need_servers(char **argv)
{
    static char self[FIXTURE_TEXT_MAX];
    char *command[ARGUMENTS_MAX] = {(char[]){SERVERS}, (char[]){"run"}, (char[]){"--"}, self};
    size_t used = 4;

    if (getenv("FOLIOT_TEST_PG") != NULL && getenv("FOLIOT_TEST_ZK") != NULL) {
        return;
    }
    MUST(readlink("/proc/self/exe", self, sizeof(self) - 1) > 0);
    for (size_t i = 1; argv[i] != NULL; i++) {
        MUST(used + 1 < ARGUMENTS_MAX);
        command[used++] = argv[i];
    }
    (void)execv(SERVERS, command);
    perror(SERVERS);
    _exit(1);
}

static const char *environment(const char *name)
{
    const char *value = getenv(name);

    if (value == NULL) {
        must_fail(MUST_HERE, "%s is not set: call fixture_need_servers() first", name);
    }
    return value;
}

static void put_text(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

/* A text that does not fit ends the case. */
static void put_text(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    MUST(len >= 0 && (size_t)len < size);
}

/* One statement outside any transaction, as CREATE DATABASE wants it. */
static void run_sql(const char *conninfo, const char *sql)
{
    PGconn *link = PQconnectdb(conninfo);
    PGresult *result;

    if (PQstatus(link) != CONNECTION_OK) {
        must_fail(MUST_HERE, "cannot connect to '%s': %s", conninfo, PQerrorMessage(link));
    }
    result = PQexec(link, sql);
    if (PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s: %s", sql, PQerrorMessage(link));
    }
    PQclear(result);
    PQfinish(link);
}

/* In a conninfo the later of two equal keys counts. */
static void make_database(const char *name, char *conninfo)
{
    char sql[SQL_MAX];

    put_text(sql, sizeof(sql), "CREATE DATABASE \"%s\"", name);
    run_sql(environment("FOLIOT_TEST_PG"), sql);
    put_text(conninfo, FIXTURE_TEXT_MAX, "%s dbname=%s", environment("FOLIOT_TEST_PG"), name);
}

void fixture_open(struct fixture *fixture, const char *title)
{
    static int opened_count;

    MUST_LE(strlen(title), TITLE_LEN_MAX);
    put_text(fixture->name, sizeof(fixture->name), "%s_%d_%d_%llx", title, (int)getpid(),
             opened_count++, (unsigned long long)must_now_ms());
    make_database(fixture->name, fixture->pg_conninfo);
    put_text(fixture->pg_admin, FIXTURE_TEXT_MAX, "%s dbname=%s",
             environment("FOLIOT_TEST_PG_ADMIN"), fixture->name);
    put_text(fixture->zk_hosts, FIXTURE_TEXT_MAX, "%s", environment("FOLIOT_TEST_ZK"));
    put_text(fixture->servers_dir, FIXTURE_TEXT_MAX, "%s", environment("FOLIOT_TEST_DIR"));
}

void fixture_add_database(const struct fixture *fixture, const char *suffix, char *conninfo)
{
    char name[FIXTURE_TEXT_MAX];

    put_text(name, sizeof(name), "%s_%s", fixture->name, suffix);
    make_database(name, conninfo);
}

void fixture_close(struct fixture *fixture)
{
    char sql[SQL_MAX];

    put_text(sql, sizeof(sql), "DROP DATABASE IF EXISTS \"%s\" WITH (FORCE)", fixture->name);
    run_sql(environment("FOLIOT_TEST_PG_ADMIN"), sql);
    *fixture = (struct fixture){.name = ""};
}

void fixture_servers(const struct fixture *fixture, const char *verb)
{
    pid_t child = fork();
    int status = 0;

    if (child == 0) {
        (void)execl(SERVERS, SERVERS, verb, fixture->servers_dir, (char *)NULL);
        _exit(1);
    }
    MUST(child > 0);
    MUST(waitpid(child, &status, 0) == child);
    MUST_EQ(status, 0);
}

static bool is_free(unsigned port)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                  .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool is_bound;

    MUST(fd >= 0);
    is_bound = bind(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
    (void)close(fd);
    return is_bound;
}

unsigned fixture_free_port(void)
{
    unsigned port;
    int64_t tries = must_now_ms(); // Elsewhere than a program beside us, which does the same.

    do {
        port = PORT_MIN + (unsigned)(tries++ % PORT_COUNT);
    } while (!is_free(port));
    return port;
}
