/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans are made once per connection, perhaps when a table is empty. Whatever it has grown to
 * since, no statement may look at more than it names. source: docs/internals/storage.md,
 * docs/adr/0010
 */
#include "storage/pg_stmt.h"
#include "tests/integration/pg_world.h"

/* Rows of a table that has grown: so many that reading them all could not be missed. */
#define GROWN         "100000"
#define SOME          "20000"
#define GROWN_DUE_MAX INT64_C(6000000)

/* What a round of statements may look at in one table: some rows each, a page of a slice. */
#define LOOKED_MAX 3000

/* Pages of an index that the rounds may touch; once through a grown one are about 400. */
#define PAGES_MAX 1000

/* Tasks of one round. */
#define ROUND_IDS 100

static struct task_id make_id(int round, int64_t number)
{
    return (struct task_id){.seq = task_seq(1, round * ROUND_IDS + number)};
}

static struct store_op make_op(enum store_op_kind kind, int round, int64_t number)
{
    return (struct store_op){
        .kind = kind,
        .epoch = 1,
        .task = {.id = make_id(round, number), .queue = 1, .due_ms = 1},
        .attempt = 1,
        .now_ms = 1,
        .error_text = slice_of("because"),
    };
}

static void write_all(struct world *world, struct store *store, struct store_op *ops, size_t count)
{
    struct store_batch batch = {
        .ops = ops, .op_count = count, .claim_row = {.writer = 1, .seq = 1}, .sweep = count == 1};

    MUST_OK(world_write(world, store, &batch));
    for (size_t i = 0; i < count; i++) {
        MUST_OK(ops[i].result);
    }
}

/* Every statement that changes rows. */
static void write_round(struct world *world, struct store *store, int round)
{
    struct store_op ops[8];

    for (int64_t i = 0; i < 8; i++) {
        ops[i] = make_op(STORE_INSERT, round, i + 1);
        ops[i].task.key = slice_of(i == 1 ? "two" : i == 2 ? "three" : i == 3 ? "four" : "");
    }
    write_all(world, store, ops, 8);
    ops[0] = make_op(STORE_INSERT, round, 9);
    ops[0].task.tags = slice_of("a=b\n");
    write_all(world, store, ops, 1);
    ops[0] = make_op(STORE_INSERT, round, 10);
    ops[1] = make_op(STORE_INSERT, round, 11);
    ops[1].task.key = slice_of("five");
    ops[0].task.order_key = ops[1].task.order_key = slice_of("line");
    write_all(world, store, ops, 2);
    ops[0] = make_op(STORE_CHANGE, round, 10);
    ops[0].set_order = true;
    ops[0].task.order_ms = 7;
    write_all(world, store, ops, 1);
    ops[0] = make_op(STORE_CHANGE, round, 1);
    ops[1] = make_op(STORE_CHANGE, round, 5);
    ops[1].set_payload = true;
    ops[2] = make_op(STORE_DELETE, round, 2);
    ops[3] = make_op(STORE_DELETE, round, 3);
    ops[3].keep_until_ms = INT64_MAX;
    ops[3].end = TASK_END_DONE;
    ops[4] = make_op(STORE_DEAD, round, 4);
    ops[5] = make_op(STORE_DEAD, round, 6);
    ops[6] = make_op(STORE_CLAIM, round, 7);
    ops[7] = make_op(STORE_DELETE, round, 8);
    ops[7].is_keyless = true;
    write_all(world, store, ops, 8);
    ops[0] = make_op(STORE_REDRIVE, round, 4);
    ops[0].task.key = slice_of("four");
    ops[0].expected_attempt = 1;
    ops[1] = make_op(STORE_PURGE, round, 6);
    write_all(world, store, ops, 2);
    // The keys are free for the next round.
    ops[0] = make_op(STORE_DELETE, round, 4);
    ops[1] = make_op(STORE_DELETE, round, 11);
    write_all(world, store, ops, 2);
}

static void on_read(struct store_read *read)
{
    *(bool *)read->owner = true;
}

static void read_one(struct world *world, struct store *store, struct store_read read)
{
    bool done = false;

    read.epoch = 1;
    read.cb = on_read;
    read.owner = &done;
    MUST_OK(store->read(store, &read));
    world_until(world, &done);
    MUST_OK(read.result);
}

/* Every statement that reads what is named. A count of all queues looks at all there is. */
static void read_round(struct world *world, struct store *store, int round)
{
    static const uint32_t skip[] = {2};
    struct task_id ids[3] = {make_id(round, 1), make_id(round, 3), make_id(round, 6)};
    struct store_read reads[] = {
        {.kind = STORE_READ_CLAIMS},
        {.kind = STORE_READ_SLICE, .to_bucket = INT64_MAX, .limit = 10},
        {.kind = STORE_READ_SLICE, .to_bucket = INT64_MAX, .limit = 10, .queue = 3},
        {.kind = STORE_READ_SLICE, .to_bucket = 9, .limit = 10, .skip = skip, .skip_count = 1},
        {.kind = STORE_READ_TASKS, .ids = ids, .id_count = 3},
        {.kind = STORE_READ_KEY, .queue = 1, .key = slice_of("four")},
        {.kind = STORE_READ_ORDER, .queue = 1, .key = slice_of("line"), .limit = 2},
        {.kind = STORE_READ_DEAD, .queue = 1, .limit = 10},
        {.kind = STORE_READ_DEAD, .ids = ids, .id_count = 3},
        {.kind = STORE_READ_ENDED, .ids = ids, .id_count = 3},
        {.kind = STORE_READ_COUNTS, .queue = 11, .limit = COUNTED_ROW_COUNT_MAX},
        {.kind = STORE_READ_COUNTS, .queue = 3, .limit = 10},
        {.kind = STORE_READ_OVERDUE, .now_ms = 1, .limit = 10},
    };

    for (size_t i = 0; i < ARRAY_COUNT(reads); i++) {
        read_one(world, store, reads[i]);
    }
}

/* Every table as it may be after years, of ten queues; all tasks of one have the same order key. */
static void grow(struct world *world)
{
    world_ask(world, "INSERT INTO foliot_data.task_0000"
                     " SELECT i, i * 60, 0, 1 + i % 10, 0, 0, 0, 0, repeat('p', 100)::bytea,"
                     " NULL, NULL, NULL,"
                     " CASE WHEN i % 10 = 0 THEN 'line'::bytea END,"
                     " CASE WHEN i % 10 = 0 THEN i * 60 END"
                     " FROM generate_series(1, " GROWN ") i");
    world_ask(world, "INSERT INTO foliot_data.key"
                     " SELECT i, 0, CASE WHEN i % 2 = 0 THEN 9999999999999 END, 0, 0, 1 + i % 10,"
                     " 0, ('k' || i)::bytea FROM generate_series(1, " GROWN ") i");
    world_ask(world, "INSERT INTO foliot_data.dead"
                     " SELECT i, 0, 0, 0, i % 4, 1 + i % 10, 1, 1, 0, 0, 'p', NULL, 'e', NULL,"
                     " NULL FROM generate_series(1, " GROWN ") i");
    world_ask(world, "INSERT INTO foliot_data.ended"
                     " SELECT i, 0, 0, 0, 9999999999999, NULL, i % 4, 1 + i % 10, 1, 1, 0, 0, 1,"
                     " NULL, NULL, NULL FROM generate_series(1, " GROWN ") i");
    world_ask(world, "ANALYZE");
    world_ask(world, "SELECT pg_stat_reset() IS NULL");
}

/* Counters reach the view when the backends have ended. */
static void until_counted(struct world *world)
{
    while (world_ask(world, "SELECT count(*) FROM pg_stat_activity"
                            " WHERE application_name LIKE 'foliot/%'"
                            " AND datname = current_database()") > 0) {
        world_turn_ms(world, 10);
    }
}

/* Rows and index entries of each table, since the counters were set to zero. `least`: so many at
 * the least, or nothing was counted. */
static void must_have_looked_at_little(struct world *world, long least)
{
    static const char *const tables[] = {"task_0000", "key", "dead", "ended", "claim"};

    until_counted(world);
    for (size_t i = 0; i < ARRAY_COUNT(tables); i++) {
        char sql[256];
        long looked;

        (void)snprintf(sql, sizeof(sql),
                       "SELECT seq_tup_read + idx_tup_fetch + (SELECT sum(idx_tup_read)"
                       " FROM pg_stat_user_indexes x WHERE x.relid = t.relid)"
                       " FROM pg_stat_user_tables t WHERE relname = '%s'",
                       tables[i]);
        looked = world_ask(world, sql);
        if (looked < least || looked > LOOKED_MAX) {
            must_fail(MUST_HERE, "%ld rows of %s were looked at", looked, tables[i]);
        }
    }
}

/* An entry that does not have the wanted id is passed in the index: it is seen in its pages only.
 * Without a page nothing was counted. */
static void must_have_read_a_part(struct world *world, const char *name)
{
    char sql[256];
    long pages;

    (void)snprintf(sql, sizeof(sql),
                   "SELECT idx_blks_read + idx_blks_hit FROM pg_statio_user_indexes"
                   " WHERE indexrelname = '%s'",
                   name);
    pages = world_ask(world, sql);
    if (pages < 1 || pages > PAGES_MAX) {
        must_fail(MUST_HERE, "%ld pages of %s were read", pages, name);
    }
}

static void statement_looks_at_what_it_names_and_no_more(void)
{
    struct world world;
    struct store *store;

    world_open(&world, "plans");
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    write_round(&world, store, 0);
    read_round(&world, store, 0);
    grow(&world);
    write_round(&world, store, 1);
    read_round(&world, store, 1);
    world_end(&world, store);
    must_have_looked_at_little(&world, 1);
    world_close(&world);
}

/* All of these end while somebody holds a snapshot, so that none can be cleaned away. */
static PGconn *end_under_snapshot(struct world *world)
{
    PGconn *holder = PQconnectdb(world->fixture.pg_conninfo);

    PQclear(PQexec(holder, "BEGIN ISOLATION LEVEL REPEATABLE READ"));
    PQclear(PQexec(holder, "SELECT count(*) FROM foliot_data.task_0000"));
    world_ask(world, "WITH gone AS (DELETE FROM foliot_data.task_0000 RETURNING 1) SELECT 1");
    world_ask(world,
              "WITH gone AS (DELETE FROM foliot_data.key WHERE until_ms = 1 RETURNING 1) SELECT 1");
    world_ask(
        world,
        "WITH gone AS (DELETE FROM foliot_data.ended WHERE until_ms = 1 RETURNING 1) SELECT 1");
    world_ask(world, "WITH gone AS (DELETE FROM foliot_data.claim WHERE writer = 1 AND seq > 1"
                     " RETURNING 1) SELECT 1");
    // Few rows are left, all of one queue and in the order of ids, and autovacuum says so.
    world_ask(world,
              "INSERT INTO foliot_data.task_0000 SELECT " GROWN " + i, " GROWN " * 60, 0, 3, 0,"
              " 0, 0, 0, 'p' FROM generate_series(1, 5) i");
    world_ask(world, "ANALYZE foliot_data.task_0000, foliot_data.claim");
    return holder;
}

/* Look for the task that a round has made, in both ways, and end it. */
static void end_one(struct world *world, struct store *store, int round)
{
    struct task_id id = make_id(round, 1);
    struct store_op op = make_op(STORE_DELETE, round, 1);

    read_one(world, store,
             (struct store_read){.kind = STORE_READ_TASKS, .ids = &id, .id_count = 1});
    write_all(world, store, &op, 1);
}

/* Claims of many writes of one writer, all of them below its floor, and one that is live behind. */
static void grow_claims(struct world *world)
{
    world_ask(world, "INSERT INTO foliot_data.claim SELECT w, s, '{1}', '{9999999999999}', '{1}',"
                     " '{0}', '{0}' FROM (SELECT 1, s FROM generate_series(2, " GROWN ") s"
                     " UNION ALL SELECT 2, 1) c (w, s)");
    world_ask(world, "INSERT INTO foliot_data.claim_floor (writer, seq) VALUES (1, " GROWN " + 1)"
                     " ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq");
    world_ask(world, "INSERT INTO foliot_data.claim_floor (writer, seq) VALUES (2, 1)");
}

static void dead_rows_that_a_snapshot_keeps_are_not_walked_past(void)
{
    static const uint32_t known[] = {11, 2, 1, 9, 10, 3, 8, 4, 7, 5, 6};
    struct store_read slice = {.kind = STORE_READ_SLICE,
                               .after_bucket = due_bucket(2 * GROWN_DUE_MAX),
                               .to_bucket = INT64_MAX,
                               .limit = 10,
                               .known = known,
                               .known_count = ARRAY_COUNT(known)};
    struct store_op first = make_op(STORE_INSERT, 0, 1);
    struct world world;
    struct store *store;
    PGconn *holder;

    world_open(&world, "held");
    store = world_store(&world, false);
    MUST_OK(world_bump(&world, store, 0, 1));
    world_ask(&world, "SELECT set_config('track_counts', 'off', false) IS NULL");
    write_all(&world, store, &first,
              1); // It sweeps, and the first sweep looks for all that is past.
    grow(&world);
    world_ask(&world, "WITH past AS (UPDATE foliot_data.key SET until_ms = 1 WHERE seq <= " SOME
                      " RETURNING 1) SELECT 1");
    world_ask(&world, "WITH past AS (UPDATE foliot_data.ended SET until_ms = 1 WHERE seq <= " SOME
                      " RETURNING 1) SELECT 1");
    grow_claims(&world);
    holder = end_under_snapshot(&world);
    for (int round = 1; round < 8; round++) {
        struct store_op op = make_op(STORE_INSERT, round, 1);

        op.task.due_ms = 4 * GROWN_DUE_MAX;
        op.task.queue = round == 1 ? 12 : 3; // The first nobody knows.
        write_all(&world, store, &op, 1);
        read_one(&world, store, slice);
        end_one(&world, store, round);
    }
    world_end(&world, store);
    must_have_looked_at_little(&world, 0);
    must_have_read_a_part(&world, "task_0000_due");
    PQfinish(holder);
    world_close(&world);
}

/* The plan of a statement of shard 0, as its prepared form has it. free: PQclear. */
static PGresult *plan_of(PGconn *link, enum pg_stmt stmt)
{
    const struct pg_stmt_info *info = pg_stmt_info(stmt);
    char ask[256] = "EXPLAIN (COSTS OFF) EXECUTE ";
    struct buf text;
    size_t len = strlen(ask);

    buf_init(&text, 8192);
    MUST_OK(pg_stmt_text(stmt, 0, &text));
    MUST_OK(buf_append(&text, "", 1));
    PQclear(PQprepare(link, info->name, (const char *)text.data, info->param_count, info->types));
    buf_fini(&text);
    len += (size_t)snprintf(ask + len, sizeof(ask) - len, "\"%s\"", info->name);
    for (int i = 0; i < info->param_count; i++) {
        len += (size_t)snprintf(ask + len, sizeof(ask) - len, "%sNULL", i == 0 ? "(" : ", ");
    }
    (void)snprintf(ask + len, sizeof(ask) - len, ")");
    return PQexec(link, ask);
}

/* How many lines of a plan have a word in them. */
static int lines_with(const PGresult *plan, const char *word)
{
    int count = 0;

    for (int i = 0; i < PQntuples(plan); i++) {
        count += strstr(PQgetvalue(plan, i, 0), word) != NULL;
    }
    return count;
}

/* The lock is taken once, before the first row is looked at, and not as a condition of each. */
static void fence_of_a_statement_is_a_gate_before_its_rows(void)
{
    struct world world;
    struct store *store;
    PGconn *link;

    world_open(&world, "gates");
    store = world_store(&world, false);
    link = PQconnectdb(world.fixture.pg_conninfo);
    PQclear(PQexec(link, "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off"));
    for (enum pg_stmt stmt = 0; stmt < PG_STMT_READ_SLICE; stmt++) {
        PGresult *plan = plan_of(link, stmt);

        if (PQresultStatus(plan) != PGRES_TUPLES_OK) {
            must_fail(MUST_HERE, "%s: %s", pg_stmt_info(stmt)->name, PQresultErrorMessage(plan));
        }
        if (lines_with(plan, "LockRows") != 1 || lines_with(plan, "One-Time Filter: $") != 1) {
            must_fail(MUST_HERE, "%s is not fenced once", pg_stmt_info(stmt)->name);
        }
        PQclear(plan);
    }
    PQfinish(link);
    world_end(&world, store);
    world_close(&world);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(statement_looks_at_what_it_names_and_no_more),
        MUST_CASE(dead_rows_that_a_snapshot_keeps_are_not_walked_past),
        MUST_CASE(fence_of_a_statement_is_a_gate_before_its_rows),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
