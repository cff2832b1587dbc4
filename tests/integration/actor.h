/* SPDX-License-Identifier: Apache-2.0
 *
 * A played broker that serves every call of the public API: it reads the request with our codec,
 * keeps it, and answers with values of its own that differ in every field.
 */
#ifndef FOLIOT_TESTS_INTEGRATION_ACTOR_H
#define FOLIOT_TESTS_INTEGRATION_ACTOR_H

#include "proto/codec_dead.h"
#include "proto/codec_list.h"
#include "proto/codec_queue_life.h"
#include "tests/lib/played.h"

#include <foliot.h>

#include <semaphore.h>
#include <stdatomic.h>

/* The id in its answers. */
#define ACTOR_ID "0a7-0000012300000001"

/* The last request of each kind; valid until the next call of any kind. */
extern struct create_request seen_create;
extern struct task_name seen_name;
extern struct update_request seen_update;
extern struct list_request seen_list;
extern struct dead_request seen_dead;
extern struct queue seen_queue;
extern struct queue_name seen_queue_name;
extern struct pause_request seen_pause;
extern struct queue_delete_request seen_delete;
extern atomic_int seen_count; /* calls so far */

/* The queue and the task of its answers. */
struct queue made_queue(void);
struct task_view made_task(void);

void actor_start(struct played *played);
void actor_stop(struct played *played);

/* The broker, and a client of it. */
struct scene {
    struct played played;
    struct foliot_client *client;
    struct foliot_error error;
    sem_t called; /* a callback has run */
    int64_t blocks;
};

void open_scene(struct scene *scene);

/* Everything must have been freed. */
void close_scene(struct scene *scene);

/* A call came to FOLIOT_OK; else the case ends with its message. */
void good(const struct scene *scene, int code);

/* So did a call that was started, and its callback has posted `called`. */
void called_back(struct scene *scene, int code);

#endif
