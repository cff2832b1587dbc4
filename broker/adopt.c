/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings as foliotd reads them, then ZooKeeper and the databases one after the other.
 */
#define _GNU_SOURCE // environ

#include "broker/adopt.h"

#include "broker/zk_place.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/entropy.h"
#include "storage/pg_migrate.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A server that does not answer in time is given up. */
#define ANSWER_MS 10000

/* No database holds a shard. */
#define NOWHERE UINT8_MAX

struct adopting {
    struct config config;
    char names[DATABASE_COUNT_MAX][NAME_BYTES_MAX + 1];
    const char *name_list[DATABASE_COUNT_MAX];
    const char *conninfos[DATABASE_COUNT_MAX];
    uint32_t database_count;
    struct pg_cluster said; /* by the database at hand */
    struct coord_zk_found found;
    uint8_t database_of[SHARD_COUNT_MAX];
    struct adopt_result *out;
    char *errmsg; /* ADOPT_MESSAGE_LEN */
};

/* ---- settings ---- */

static void first_line(struct config_report *report, char *errmsg)
{
    const char *text = buf_text(&report->errors);

    (void)snprintf(errmsg, ADOPT_MESSAGE_LEN, "%.*s", (int)strcspn(text, "\n"), text);
}

static int load(struct adopting *a, int argc, char **argv)
{
    struct config_input input = {.argc = argc, .argv = argv, .environment = environ};
    enum config_action action = CONFIG_RUN;
    struct config_report report;
    int err;

    config_report_init(&report);
    err = config_load(&a->config, &input, &action, &report);
    if (err != 0) {
        first_line(&report, a->errmsg);
    }
    config_report_fini(&report);
    if (err != 0) {
        return err;
    }
    a->database_count = (uint32_t)config_database_count(&a->config);
    for (uint32_t i = 0; i < a->database_count; i++) {
        a->conninfos[i] = config_database(&a->config, i, a->names[i]);
        a->name_list[i] = a->names[i];
    }
    return 0;
}

/* ---- what both tell ---- */

static void fill_result(struct adopting *a)
{
    const struct cluster *cluster = &a->found.cluster;

    (void)snprintf(a->out->cluster, sizeof(a->out->cluster), "%s", a->config.cluster_name);
    (void)snprintf(a->out->id, sizeof(a->out->id), "%s", cluster->id);
    a->out->shard_count = cluster->shard_count;
    a->out->database_count = a->database_count;
    a->out->base = cluster->base;
}

static int say_zookeeper(struct adopting *a, int err)
{
    if (err != 0) {
        (void)snprintf(a->errmsg, ADOPT_MESSAGE_LEN, "%s", a->found.message);
    }
    return err;
}

/* Put the database's name before what it said. */
static int say_database(struct adopting *a, uint32_t index, int err)
{
    char why[512];

    if (err != 0) {
        (void)snprintf(why, sizeof(why), "%.500s", a->errmsg);
        (void)snprintf(a->errmsg, ADOPT_MESSAGE_LEN, "database %s: %s", a->names[index], why);
    }
    return err;
}

/* ---- init ---- */

static int migrate(struct adopting *a, uint32_t index)
{
    const struct pg_migrate_options options = {
        .conninfo = a->conninfos[index],
        .cluster_id = a->found.cluster.id,
        .shard_count = a->found.cluster.shard_count,
        .database_of = a->found.cluster.database_of,
        .database = index,
        .limit_ms = ANSWER_MS,
    };

    return say_database(a, index, pg_migrate(&options, a->errmsg, ADOPT_MESSAGE_LEN));
}

static int init(struct adopting *a)
{
    const struct coord_zk_place place = zk_place_of(&a->config);
    const struct coord_zk_databases databases = {a->name_list, a->database_count};
    char fresh_id[ENTROPY_NAME_LEN + 1];
    int err;

    entropy_name(fresh_id);
    err = say_zookeeper(a, coord_zk_init_cluster(&place, &databases,
                                                 (uint32_t)a->config.cluster_shards, fresh_id,
                                                 ANSWER_MS, &a->found));
    for (uint32_t i = 0; i < a->database_count && err == 0; i++) {
        err = migrate(a, i);
    }
    return err;
}

/* ---- adopt ---- */

static int survey(struct adopting *a, uint32_t index)
{
    const struct pg_migrate_options options = {.conninfo = a->conninfos[index],
                                               .limit_ms = ANSWER_MS};
    int err =
        say_database(a, index, pg_read_cluster(&options, &a->said, a->errmsg, ADOPT_MESSAGE_LEN));

    if (err != 0) {
        return err;
    }
    if (index > 0 &&
        (strcmp(a->said.id, a->out->id) != 0 || a->said.shard_count != a->out->shard_count)) {
        (void)snprintf(a->errmsg, ADOPT_MESSAGE_LEN,
                       "database %s belongs to cluster %s, %s to cluster %s: name the databases of "
                       "one cluster",
                       a->names[index], a->said.id, a->names[0], a->out->id);
        return ERR_CONFLICT;
    }
    (void)snprintf(a->out->id, sizeof(a->out->id), "%s", a->said.id);
    a->out->shard_count = a->said.shard_count;
    a->out->generation_max = time_max(a->out->generation_max, a->said.epoch_max / EPOCH_BUMP_COUNT);
    for (uint32_t i = 0; i < a->said.held_count; i++) {
        uint32_t shard = a->said.held[i];

        if (shard >= SHARD_COUNT_MAX || a->database_of[shard] != NOWHERE) {
            (void)snprintf(a->errmsg, ADOPT_MESSAGE_LEN,
                           "shard %" PRIu32 " lies in database %s and in another one: name the "
                           "databases of one cluster, each once",
                           shard, a->names[index]);
            return ERR_CONFLICT;
        }
        a->database_of[shard] = (uint8_t)index;
    }
    return 0;
}

/* A shard in no database means that one of them was not named. */
static int check_whole(struct adopting *a)
{
    for (uint32_t shard = 0; shard < a->out->shard_count; shard++) {
        if (a->database_of[shard] == NOWHERE) {
            (void)snprintf(a->errmsg, ADOPT_MESSAGE_LEN,
                           "shard %" PRIu32 " of %" PRIu32 " lies in none of the databases: name "
                           "all databases of the cluster",
                           shard, a->out->shard_count);
            return ERR_CONFLICT;
        }
    }
    return 0;
}

static int adopt(struct adopting *a)
{
    const struct coord_zk_place place = zk_place_of(&a->config);
    const struct coord_zk_databases databases = {a->name_list, a->database_count};
    struct coord_zk_adoption adoption = {.id = a->out->id, .database_of = a->database_of};
    int err = 0;

    memset(a->database_of, NOWHERE, sizeof(a->database_of));
    for (uint32_t i = 0; i < a->database_count && err == 0; i++) {
        err = survey(a, i);
    }
    if (err == 0) {
        err = check_whole(a);
    }
    if (err == 0) {
        adoption.shard_count = a->out->shard_count;
        adoption.generation_max = a->out->generation_max;
        err = say_zookeeper(a, coord_zk_adopt_cluster(&place, &databases, &adoption, ANSWER_MS,
                                                      &a->found, &a->out->base_before));
    }
    return err;
}

static int act(int argc, char **argv, struct adopt_result *out, char *errmsg,
               int (*action)(struct adopting *a))
{
    struct adopting *a = mem_new(1, sizeof(*a));
    int err;

    memset(out, 0, sizeof(*out));
    errmsg[0] = '\0';
    if (a == NULL) {
        return ERR_NO_MEMORY;
    }
    a->out = out;
    a->errmsg = errmsg;
    err = load(a, argc, argv);
    if (err == 0) {
        err = action(a);
        if (err == 0) {
            fill_result(a);
        }
        config_fini(&a->config);
    }
    mem_free(a);
    return err;
}

int adopt_init(int argc, char **argv, struct adopt_result *out, char *errmsg)
{
    return act(argc, argv, out, errmsg, init);
}

int adopt_cluster(int argc, char **argv, struct adopt_result *out, char *errmsg)
{
    return act(argc, argv, out, errmsg, adopt);
}
