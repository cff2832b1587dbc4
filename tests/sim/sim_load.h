/* SPDX-License-Identifier: Apache-2.0
 *
 * The users: they create, cancel, update and read tasks at any broker, which forwards to whom it
 * thinks the owner is; calls and answers get lost; what was refused or is unknown is asked again.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_LOAD_H
#define FOLIOT_TESTS_SIM_SIM_LOAD_H

#include "broker/core/call.h"
#include "tests/sim/check.h"
#include "tests/sim/sim.h"
#include "tests/sim/sim_policy.h"

/* Makes the queues in the home database. */
struct sim_load *sim_load_new(struct sim *sim);
void sim_load_free(struct sim_load *load);

void sim_load_start(struct sim_load *load);
void sim_load_stop(struct sim_load *load);

/* The faults are over: no queue has less room than usual any more. */
void sim_load_heal(struct sim_load *load);

/* Calls inside a process that is gone will never be answered. shape: its core is freed. */
void sim_load_crash(struct sim_load *load, struct sim_node *node);

bool sim_load_is_at_most_once(const struct sim_load *load, uint32_t queue);
span_ms sim_load_key_memory_ms(const struct sim_load *load, uint32_t queue);

/* How long results of its queue are kept. */
span_ms sim_load_result_memory_ms(const struct sim_load *load, uint32_t queue);

/* Write a queue anew: its policy has changed. */
void sim_load_put(struct sim_load *load, uint32_t queue);

/* Whether some of the tasks have an end of their time. */
bool sim_load_expires(const struct sim_load *load);

/* Its queue is paused until then; 0: it is not. */
wall_ms sim_load_paused_until(const struct sim_load *load, uint32_t queue);

/* --- for stories ------------------------------------------------------------------------------*/

/* What a story asks for, of one node's core, without forwarding. */
struct sim_ask {
    enum call_kind kind;
    struct check_known task; /* not for CREATE */
    uint32_t shard;          /* CREATE */
    uint32_t queue;          /* CREATE: 0 means the first */
    span_ms delay_ms;        /* CREATE, UPDATE */
    uint64_t key;            /* CREATE: 0 for none */
    enum key_policy policy;  /* CREATE with key */
    uint64_t order;          /* CREATE: order key, 0 for none */
};

/* A call of a story and, once it is there, its answer. Freed by sim_load_free. */
struct sim_answer {
    bool is_there;
    struct call call;
};
const struct sim_answer *sim_load_ask(struct sim_load *load, struct sim_node *node,
                                      const struct sim_ask *ask);

/* Whether a queue's failing tasks block their order keys for good, and after how many bad ends they
 * are passed over; 0: never. */
bool sim_load_order_blocks(const struct sim_load *load, uint32_t queue);
uint32_t sim_load_order_skip(const struct sim_load *load, uint32_t queue);

#endif
