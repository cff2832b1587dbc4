/* SPDX-License-Identifier: Apache-2.0
 *
 * The one thread of a database: it takes jobs in the order in which they were given and sends each
 * back to its client's mailbox. It touches the job and the database, nothing else.
 */
#ifndef FOLIOT_STORAGE_SQLITE_WORKER_H
#define FOLIOT_STORAGE_SQLITE_WORKER_H

#include "storage/sqlite_job.h"

struct sqlite_worker;

/*
 * Start the thread on an open database, which is its own from here until sqlite_worker_close.
 *
 * errors: ERR_NO_MEMORY, ERR_IO no thread.
 */
MUST_USE int sqlite_worker_open(struct sqlite_db *db, struct sqlite_worker **out);

/* End the thread, when it has done what it was given. NULL is fine. */
void sqlite_worker_close(struct sqlite_worker *worker);

/* Give it a job for `mailbox`, which has room for it. Any thread. */
void sqlite_worker_give(struct sqlite_worker *worker, struct sqlite_job *job);

/*
 * Wait until the thread is not inside a send to a mailbox. After it, a client all of whose jobs
 * are back may close its mailbox.
 */
void sqlite_worker_settle(struct sqlite_worker *worker);

#endif
