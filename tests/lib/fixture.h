/* SPDX-License-Identifier: Apache-2.0
 *
 * Real servers for plain test programs. The test runner starts PostgreSQL and ZooKeeper once
 * and hands their addresses down in the environment; a program that is started by hand, without
 * them, starts itself again under `tools/servers run`. Either way each case gets a database and a
 * name of its own, so cases never meet. Knows addresses, not what Foliot stores behind them.
 */
#ifndef FOLIOT_TESTS_LIB_FIXTURE_H
#define FOLIOT_TESTS_LIB_FIXTURE_H

#define FIXTURE_TEXT_MAX 256

struct fixture {
    char name[64];                      /* unique in this run: use it as the cluster's name */
    char pg_conninfo[FIXTURE_TEXT_MAX]; /* the fresh database, as an ordinary role that owns it */
    char pg_admin[FIXTURE_TEXT_MAX];    /* the same database as superuser, for observing */
    char zk_hosts[FIXTURE_TEXT_MAX];    /* host:port, without chroot */
    char servers_dir[FIXTURE_TEXT_MAX]; /* for fixture_servers() */
};

/*
 * Make sure that the servers run: returns at once if the environment names them, else replaces this
 * process by itself under `tools/servers run`. First statement of main().
 *
 * shape: argv of main(), NULL-terminated.
 * errors: prints and ends the program if the servers cannot be started.
 */
void fixture_need_servers(char **argv);

/*
 * Give a case its own database and name; ends the case on failure.
 *
 * shape: `title` is a short word of [a-z0-9_], part of the name; at most 30 bytes.
 */
void fixture_open(struct fixture *fixture, const char *title);

/*
 * Drop the database, connections of others included. A case that fails need not come here: the
 * servers are scratch.
 */
void fixture_close(struct fixture *fixture);

/*
 * Another fresh database on the same server; for clusters with several.
 *
 * shape: `conninfo` takes FIXTURE_TEXT_MAX bytes; `suffix` as `title` above.
 */
void fixture_add_database(const struct fixture *fixture, const char *suffix, char *conninfo);

/*
 * Hurt a server: run `tools/servers VERB` (kill-pg, start-pg, stop-zk, cont-zk, …) on the shared
 * servers; ends the case on failure. Only for programs that ctest runs alone (ALONE), for others
 * share these servers.
 */
void fixture_servers(const struct fixture *fixture, const char *verb);

/*
 * A port of loopback that is free, for a server that opens it later: below those that outgoing
 * calls and other servers are given, so that nobody else takes it meanwhile.
 */
unsigned fixture_free_port(void);

#endif
