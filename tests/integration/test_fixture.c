/* SPDX-License-Identifier: Apache-2.0
 *
 * The servers that all integration tests lean on: databases are separate, and kill, stop and
 * restart do to the servers what the fixture says they do.
 */
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <libpq-fe.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* First value of the answer as a number; -1 if the server does not answer or refuses. */
static long ask(const char *conninfo, const char *sql)
{
    PGconn *link = PQconnectdb(conninfo);
    PGresult *result = PQexec(link, sql);
    long value = -1;

    if (PQresultStatus(result) == PGRES_TUPLES_OK) {
        value = strtol(PQgetvalue(result, 0, 0), NULL, 10);
    } else if (PQresultStatus(result) == PGRES_COMMAND_OK) {
        value = 0;
    }
    PQclear(result);
    PQfinish(link);
    return value;
}

/* True if the ZooKeeper server answers a four-letter word within `limit_ms`. */
static bool zk_answers(const char *hosts, int limit_ms)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd wait = {.fd = fd, .events = POLLIN};
    bool answers = false;

    MUST(fd >= 0);
    address.sin_port = htons((uint16_t)strtoul(strchr(hosts, ':') + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0) {
        answers = write(fd, "ruok", 4) == 4 && poll(&wait, 1, limit_ms) == 1;
    }
    (void)close(fd);
    return answers;
}

static void two_fixtures_never_share_a_database(void)
{
    struct fixture a;
    struct fixture b;

    fixture_open(&a, "same");
    fixture_open(&b, "same");
    MUST(strcmp(a.name, b.name) != 0);
    MUST_EQ(ask(a.pg_conninfo, "CREATE TABLE t (x int)"), 0);
    MUST_EQ(ask(b.pg_conninfo, "SELECT count(*) FROM pg_class WHERE relname = 't'"), 0);
    MUST_EQ(ask(a.pg_admin, "SELECT count(*) FROM pg_class WHERE relname = 't'"), 1);
    fixture_close(&a);
    fixture_close(&b);
}

static void the_role_of_tests_is_no_superuser(void)
{
    struct fixture fixture;

    fixture_open(&fixture, "role");
    MUST_EQ(ask(fixture.pg_conninfo,
                "SELECT count(*) FROM pg_roles WHERE rolname = current_user AND rolsuper"),
            0);
    fixture_close(&fixture);
}

static void commits_survive_a_killed_postgres(void)
{
    struct fixture fixture;

    fixture_open(&fixture, "killed");
    MUST_EQ(ask(fixture.pg_conninfo, "CREATE TABLE t AS SELECT 42 AS x"), 0);
    fixture_servers(&fixture, "kill-pg");
    MUST_EQ(ask(fixture.pg_conninfo, "SELECT x FROM t"), -1);
    fixture_servers(&fixture, "start-pg");
    MUST_EQ(ask(fixture.pg_conninfo, "SELECT x FROM t"), 42);
    fixture_close(&fixture);
}

static void a_stopped_zookeeper_is_silent_until_woken(void)
{
    struct fixture fixture;

    fixture_open(&fixture, "silent");
    MUST(zk_answers(fixture.zk_hosts, 5000));
    fixture_servers(&fixture, "stop-zk");
    MUST(!zk_answers(fixture.zk_hosts, 300));
    fixture_servers(&fixture, "cont-zk");
    MUST(zk_answers(fixture.zk_hosts, 5000));
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(two_fixtures_never_share_a_database),
        MUST_CASE(the_role_of_tests_is_no_superuser),
        MUST_CASE(commits_survive_a_killed_postgres),
        MUST_CASE(a_stopped_zookeeper_is_silent_until_woken),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
