/* SPDX-License-Identifier: Apache-2.0
 *
 * What the worker asks of the store. Private to storage.
 */
#ifndef FOLIOT_STORAGE_STORE_SQLITE_PARTS_H
#define FOLIOT_STORAGE_STORE_SQLITE_PARTS_H

#include "storage/sqlite_job.h"

/* On the worker's thread: run it, note its result and what went wrong. */
void sqlite_job_run(struct sqlite_db *db, struct sqlite_job *job);

/* On the worker's thread: send it to its client's mailbox. The job is the loop's after that. */
void sqlite_job_send_back(struct sqlite_job *job);

#endif
