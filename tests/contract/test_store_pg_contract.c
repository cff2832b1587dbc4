/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of every store, on PostgreSQL.
 */
#include "tests/contract/store_contract.h"

#include "lib/io/loop.h"
#include "storage/pg_migrate.h"
#include "storage/store_pg.h"
#include "tests/lib/fixture.h"

#include <libpq-fe.h>
#include <stdlib.h>
#include <string.h>

static const uint8_t database_of[CONTRACT_SHARD_COUNT] = {0, 1, 0, 1, 0, 1, 0, 1};

static struct fixture fixture;
static char second[FIXTURE_TEXT_MAX];
static struct loop *loop;

static const char *conninfo(uint32_t database)
{
    return database == 0 ? fixture.pg_conninfo : second;
}

/* First value of the answer as a number. */
static long ask(PGconn *link, const char *sql)
{
    PGresult *result = PQexec(link, sql);
    long value;

    if (PQresultStatus(result) != PGRES_TUPLES_OK && PQresultStatus(result) != PGRES_COMMAND_OK) {
        must_fail(MUST_HERE, "%s: %s", sql, PQresultErrorMessage(result));
    }
    value = PQntuples(result) > 0 ? strtol(PQgetvalue(result, 0, 0), NULL, 10) : 0;
    PQclear(result);
    return value;
}

/* Two databases for all cases: making them takes longer than everything else. */
static void make_databases(void)
{
    char errmsg[512];

    fixture_open(&fixture, "contract");
    fixture_add_database(&fixture, "second", second);
    for (uint32_t i = 0; i < CONTRACT_DATABASE_COUNT; i++) {
        struct pg_migrate_options options = {
            .conninfo = conninfo(i),
            .cluster_id = fixture.name,
            .shard_count = CONTRACT_SHARD_COUNT,
            .database_of = database_of,
            .database = i,
        };

        if (pg_migrate(&options, errmsg, sizeof(errmsg)) != 0) {
            must_fail(MUST_HERE, "%s", errmsg);
        }
    }
}

/* Make the databases as good as new. */
static void prepare(void)
{
    for (uint32_t i = 0; i < CONTRACT_DATABASE_COUNT; i++) {
        PGconn *link = PQconnectdb(conninfo(i));

        // A case that failed may have left its connections behind.
        ask(link, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                  " WHERE datname = current_database() AND usename = current_user"
                  " AND pid <> pg_backend_pid()");
        ask(link, "DO $$ DECLARE name text; BEGIN"
                  " FOR name IN SELECT tablename FROM pg_tables WHERE schemaname = 'foliot_data'"
                  "  AND tablename NOT IN ('cluster', 'migration', 'shard', 'namespace') LOOP"
                  " EXECUTE format('DELETE FROM foliot_data.%I', name); END LOOP; END $$;"
                  " UPDATE foliot_data.shard SET epoch = 0;"
                  " UPDATE foliot_data.cluster SET queue_last = NULL");
        PQfinish(link);
    }
    MUST_OK(loop_open(&loop));
}

static struct store *client(void)
{
    const struct store_pg_database databases[CONTRACT_DATABASE_COUNT] = {{"first", conninfo(0)},
                                                                         {"second", conninfo(1)}};
    struct store_pg_options options;
    struct store *store;
    char errmsg[512];

    store_pg_options_init(&options);
    options.loop = loop;
    options.databases = databases;
    options.database_count = CONTRACT_DATABASE_COUNT;
    options.shard_count = CONTRACT_SHARD_COUNT;
    options.database_of = database_of;
    options.cluster_id = fixture.name;
    options.instance = "contract";
    if (store_pg_open(&options, &store, errmsg, sizeof(errmsg)) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    return store;
}

static void turn(void)
{
    loop_turn(loop, true);
}

/* Hold its shards' rows, so that it cannot commit, and end its backend while it waits for them. */
static void lose(struct store *store, const bool *done)
{
    PGconn *link = PQconnectdb(fixture.pg_admin);

    (void)store;
    ask(link, "BEGIN");
    ask(link, "SELECT count(*) FROM (SELECT FROM foliot_data.shard FOR UPDATE) s");
    while (ask(link, "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
                     " WHERE datname = current_database() AND wait_event_type = 'Lock'") == 0) {
        loop_turn(loop, true);
        // Within a transaction the view is read once.
        ask(link, "SELECT pg_stat_clear_snapshot() IS NULL");
    }
    while (!*done) {
        loop_turn(loop, true);
    }
    ask(link, "COMMIT");
    PQfinish(link);
}

static void finish(void)
{
    loop_close(loop);
}

int main(int argc, char **argv)
{
    static const struct contract_host host = {
        .prepare = prepare,
        .client = client,
        .turn = turn,
        .lose = lose,
        .finish = finish,
    };

    int status;

    fixture_need_servers(argv);
    make_databases();
    status = contract_main(argc, argv, &host);
    fixture_close(&fixture);
    return status;
}
