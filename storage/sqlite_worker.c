/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread, a queue under a mutex, and a condition that says that the queue is not empty.
 */
#include "storage/sqlite_worker.h"

#include "storage/store_sqlite_parts.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <pthread.h>
#include <signal.h>

struct sqlite_worker {
    struct sqlite_db *db;
    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows, and every send to a mailbox */
    pthread_cond_t wake;
    struct list waiting;
    bool is_ending;
};

/* The next job, or NULL at the end. shape: the lock is held. */
static struct sqlite_job *take(struct sqlite_worker *worker)
{
    struct list *first;

    while (list_is_empty(&worker->waiting) && !worker->is_ending) {
        REQUIRE(pthread_cond_wait(&worker->wake, &worker->lock) == 0);
    }
    first = list_take_first(&worker->waiting);
    return first == NULL ? NULL : LIST_ENTRY(first, struct sqlite_job, node.node);
}

static void *work(void *ctx)
{
    struct sqlite_worker *worker = ctx;
    struct sqlite_job *job;

    REQUIRE(pthread_mutex_lock(&worker->lock) == 0);
    while ((job = take(worker)) != NULL) {
        REQUIRE(pthread_mutex_unlock(&worker->lock) == 0);
        sqlite_job_run(worker->db, job);
        REQUIRE(pthread_mutex_lock(&worker->lock) == 0);
        sqlite_job_send_back(job);
    }
    REQUIRE(pthread_mutex_unlock(&worker->lock) == 0);
    return NULL;
}

int sqlite_worker_open(struct sqlite_db *db, struct sqlite_worker **out)
{
    struct sqlite_worker *worker = mem_new(1, sizeof(*worker));
    sigset_t all;
    sigset_t kept;
    int code;

    if (worker == NULL) {
        return ERR_NO_MEMORY;
    }
    worker->db = db;
    list_init(&worker->waiting);
    REQUIRE(pthread_mutex_init(&worker->lock, NULL) == 0);
    REQUIRE(pthread_cond_init(&worker->wake, NULL) == 0);
    // Signals are for the loop's thread: the new thread inherits a full mask.
    (void)sigfillset(&all);
    (void)sigdelset(&all, SIGABRT);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &all, &kept) == 0);
    code = pthread_create(&worker->thread, NULL, work, worker);
    REQUIRE(pthread_sigmask(SIG_SETMASK, &kept, NULL) == 0);
    if (code != 0) {
        REQUIRE(pthread_mutex_destroy(&worker->lock) == 0);
        REQUIRE(pthread_cond_destroy(&worker->wake) == 0);
        mem_free(worker);
        return ERR_IO;
    }
    *out = worker;
    return 0;
}

void sqlite_worker_close(struct sqlite_worker *worker)
{
    if (worker == NULL) {
        return;
    }
    REQUIRE(pthread_mutex_lock(&worker->lock) == 0);
    worker->is_ending = true;
    REQUIRE(pthread_cond_signal(&worker->wake) == 0);
    REQUIRE(pthread_mutex_unlock(&worker->lock) == 0);
    REQUIRE(pthread_join(worker->thread, NULL) == 0);
    REQUIRE(pthread_mutex_destroy(&worker->lock) == 0);
    REQUIRE(pthread_cond_destroy(&worker->wake) == 0);
    mem_free(worker);
}

void sqlite_worker_give(struct sqlite_worker *worker, struct sqlite_job *job)
{
    REQUIRE(pthread_mutex_lock(&worker->lock) == 0);
    list_add(&worker->waiting, &job->node.node);
    REQUIRE(pthread_cond_signal(&worker->wake) == 0);
    REQUIRE(pthread_mutex_unlock(&worker->lock) == 0);
}

void sqlite_worker_settle(struct sqlite_worker *worker)
{
    REQUIRE(pthread_mutex_lock(&worker->lock) == 0);
    REQUIRE(pthread_mutex_unlock(&worker->lock) == 0);
}
