/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle against SQLite.
 */
#include "storage/store_sqlite.h"
#include "tests/contract/store_oracle.h"
#include "tests/lib/must.h"

static struct store_sqlite *shared;

static struct store *open_store(struct loop *loop)
{
    static const char *const in_memory = NULL;
    const struct store_sqlite_options options = {
        .paths = &in_memory,
        .database_count = 1,
        .cluster_id = "oracle",
        .shard_count = ORACLE_SHARD_COUNT,
    };
    const struct store_sqlite_client_options client = {.loop = loop};
    struct store *store;
    char errmsg[STORE_SQLITE_MESSAGE_LEN];

    if (store_sqlite_open(&options, &shared, errmsg) != 0) {
        must_fail(MUST_HERE, "%s", errmsg);
    }
    MUST_OK(store_sqlite_client(shared, &client, &store));
    return store;
}

static void close_store(void)
{
    store_sqlite_close(shared);
}

int main(int argc, char **argv)
{
    static const struct oracle_host host = {
        .name = "SQLite", .open = open_store, .close = close_store};

    return oracle_main(argc, argv, &host);
}
