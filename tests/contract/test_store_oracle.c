/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle against PostgreSQL.
 */
#include "storage/pg_migrate.h"
#include "storage/store_pg.h"
#include "tests/contract/oracle_views.h"
#include "tests/contract/store_oracle.h"
#include "tests/lib/fixture.h"
#include "tests/lib/must.h"

static struct fixture fixture;
static PGconn *admin; /* who looks at the views */
static size_t seen;   /* rows of them that were compared */

static struct store *open_store(struct loop *loop)
{
    struct pg_migrate_options migrate = {.shard_count = ORACLE_SHARD_COUNT};
    struct store_pg_database database = {.name = "db0"};
    struct store_pg_options options;
    struct store *store;
    char errmsg[512];

    fixture_open(&fixture, "oracle");
    database.conninfo = fixture.pg_conninfo;
    migrate.conninfo = fixture.pg_conninfo;
    migrate.cluster_id = fixture.name;
    if (pg_migrate(&migrate, errmsg, sizeof(errmsg)) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    store_pg_options_init(&options);
    options.loop = loop;
    options.databases = &database;
    options.database_count = 1;
    options.shard_count = ORACLE_SHARD_COUNT;
    options.cluster_id = fixture.name;
    options.instance = "oracle";
    options.command_ms = 30000;
    MUST_OK(store_pg_open(&options, &store, errmsg, sizeof(errmsg)));
    admin = PQconnectdb(fixture.pg_conninfo);
    MUST(PQstatus(admin) == CONNECTION_OK);
    return store;
}

static void look(const struct store_mem *mem)
{
    seen += oracle_views_compare(admin, mem, ORACLE_SHARD_COUNT);
}

static void close_store(void)
{
    MUST(seen > 1000);
    PQfinish(admin);
    fixture_close(&fixture);
}

int main(int argc, char **argv)
{
    static const struct oracle_host host = {
        .name = "PostgreSQL", .open = open_store, .look = look, .close = close_store};

    fixture_need_servers(argv);
    return oracle_main(argc, argv, &host);
}
