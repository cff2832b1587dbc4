/* SPDX-License-Identifier: Apache-2.0
 *
 * One request on its way: made on a client's loop, run by a worker's thread, answered on the loop.
 * A kind of request is a sqlite_job_type; a new one is one more of them and an entry in the table
 * of store_sqlite.c.
 */
#ifndef FOLIOT_STORAGE_SQLITE_JOB_H
#define FOLIOT_STORAGE_SQLITE_JOB_H

#include "storage/sqlite_db.h"
#include "storage/store.h"

#include "lib/base/list.h"
#include "lib/io/mailbox.h"

struct sqlite_client;
struct sqlite_job;

struct sqlite_job_type {
    /* On the worker's thread, alone with the database: do it. The result as store.h says. */
    int (*run)(struct sqlite_db *db, struct sqlite_job *job);
    /* On the loop: hand the result to the caller's struct and run its callback. */
    void (*answer)(struct sqlite_job *job);
    bool is_write; /* its result says whether the database takes writes */
};

/* The caller's struct, by type. */
union sqlite_subject {
    void *any;
    struct store_batch *batch;
    struct store_read *read;
    struct store_bump *bump;
    struct store_queue_put *put;
    struct store_queue_drop *drop;
    struct store_queue_list *list;
};

/* What an answer lends to the caller: an array of its items, and the bytes that they point to. */
struct sqlite_lent {
    void *items;
    size_t count;
    size_t capacity;
    size_t bytes; /* in the blocks */
    struct list blocks;
};

struct sqlite_job {
    struct mailbox_node node; /* first: in the worker's queue, then in the client's mailbox */
    const struct sqlite_job_type *type;
    struct sqlite_client *client;
    union sqlite_subject subject;
    uint32_t database;
    boot_us sent;
    int result;
    struct sqlite_lent lent;
    char why[SQLITE_WHY_LEN]; /* of a failure of the database */
};

extern const struct sqlite_job_type sqlite_write_type;
extern const struct sqlite_job_type sqlite_read_type;
extern const struct sqlite_job_type sqlite_bump_type;
extern const struct sqlite_job_type sqlite_queue_put_type;
extern const struct sqlite_job_type sqlite_queue_drop_type;
extern const struct sqlite_job_type sqlite_queue_list_type;
extern const struct sqlite_job_type sqlite_probe_type; /* can it be written? */

void sqlite_lent_init(struct sqlite_lent *lent);
void sqlite_lent_fini(struct sqlite_lent *lent);

/* Room for one item more, zeroed, or NULL when out of memory. Moves the others. */
MUST_USE void *sqlite_lent_add(struct sqlite_lent *lent, size_t size);

/* A copy of the bytes that lives as long as the answer. errors: ERR_UNAVAILABLE out of memory. */
MUST_USE int sqlite_lent_copy(struct sqlite_lent *lent, struct slice from, struct slice *out);

#endif
