/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracles: what must hold of any history, whatever happened (DESIGN 1). They hear of every
 * commit of the databases, every start of an attempt by the database's true clock, every answer,
 * and believe no broker's own account.
 */
#ifndef FOLIOT_TESTS_SIM_CHECK_H
#define FOLIOT_TESTS_SIM_CHECK_H

#include "broker/core/call.h"
#include "broker/core/env.h"
#include "storage/store_mem.h"
#include "tests/sim/sim.h"

struct check *check_new(struct sim *sim);
void check_free(struct check *check);

/* A transaction has committed. ctx is the struct check. */
void check_on_commit(void *ctx, const struct store_mem_commit *commit);

/* Commits of a database up to this number cannot be lost any more. */
void check_on_replicated(struct check *check, uint32_t database, uint64_t number);

/* The commits of a database after this number are lost: what they did is taken back, and with it
 * what depends on them may differ from what was answered, and nothing else. */
void check_on_promote(struct check *check, uint32_t database, uint64_t number);

/* --- calls of users ---------------------------------------------------------------------------*/

/* A number for a new call; goes along in the payload of creates and updates. */
uint64_t check_call_new(struct check *check);

/* The call is given to a broker's core, for the first time or again after a refusal. */
void check_call_begin(struct check *check, uint64_t number, const struct call *call);

/* The core has answered. */
void check_call_answer(struct check *check, uint64_t number, const struct call *call);

/* Nobody will ever answer. */
void check_call_lost(struct check *check, uint64_t number);

/* --- attempts ---------------------------------------------------------------------------------*/

/* A broker's core tells what it does. */
struct core_event;
void check_on_event(struct check *check, const struct sim_node *node,
                    const struct core_event *event);

/* A broker's core begins an attempt: the call will leave soon. */
void check_handed(struct check *check, const struct attempt *attempt);

/* A broker has refused what it was told of how an attempt ended: whoever told it gives up. */
void check_refused(struct check *check, const struct sim_node *node, const struct report *report);

/* The call leaves the broker now. */
void check_start(struct check *check, const struct sim_node *node, const struct attempt *attempt);

/* Wire mode: the outbound will say RETRY of a call that could not leave. */
void check_unreached(struct check *check, const struct sim_node *node,
                     const struct attempt *attempt);

/* What its receiver will say; UNKNOWN: nothing that is heard in time. */
void check_receiver(struct check *check, const struct attempt *attempt, enum outcome outcome);

/* The outbound tells the core how it ended. */
void check_reported(struct check *check, const struct sim_node *node, const struct attempt *attempt,
                    enum outcome outcome);

/* A core has taken an outcome that was told it: of the live claim, or it should not have. */
void check_told(struct check *check, const struct sim_node *node, const struct report *report);

/* --- policies ---------------------------------------------------------------------------------*/

/* A process starts; its core is given these queues; an attempt of one leaves it, and is over. */
void check_queues_boot(struct check *check, const struct sim_node *node);
void check_queues_heard(struct check *check, const struct sim_node *node,
                        const struct queue *queues, size_t count);
void check_queues_started(struct check *check, const struct sim_node *node,
                          const struct attempt *attempt);
void check_queues_ended(struct check *check, const struct sim_node *node,
                        const struct attempt *attempt);

/* --- all along --------------------------------------------------------------------------------*/

/* Look at sums and memory from now on. */
void check_start_looking(struct check *check);

/* Hold every row of the databases against the history. */
void check_all_rows(struct check *check);

/* --- the second phase -------------------------------------------------------------------------*/

/* How long a cluster may take after the last fault until every shard has one owner. */
int64_t check_converge_us(const struct check *check);

/* Every shard has exactly one active owner now. */
void check_owners(struct check *check);

/* True time by which every task that is known now must have ended; no more calls since `stopped`.
 */
int64_t check_last_end(const struct check *check, int64_t stopped);

/* Every task has ended, and every call was answered: none will make one. */
bool check_is_settled(const struct check *check);

/* The last look at everything. */
void check_end(struct check *check);

/* --- for users --------------------------------------------------------------------------------*/

/* A task that a user knows of. */
struct check_known {
    struct task_id id;
    uint32_t queue;
    wall_ms due_ms;
    uint64_t key; /* number of its key; 0: none */
};

/* A dead letter as a user reads it. */
struct check_letter {
    struct task_id id;
    uint32_t shard;
    uint32_t queue;
    uint32_t attempt;   /* the last */
    uint64_t key;       /* number; 0: none */
    uint64_t order;     /* number of its order key; 0: none */
    uint64_t token;     /* at the start of its payload */
    size_t payload_len; /* of that */
};

/* One of the tasks that were answered, mostly a young one. False: there is none. */
bool check_pick(struct check *check, struct prng *prng, struct check_known *out);

/* Tasks of an order key that are pending. */
size_t check_order_pending(struct check *check, uint32_t queue, uint64_t order);

/* A dead letter that nobody is redriving. False: none was found. */
bool check_pick_dead(struct check *check, struct prng *prng, struct check_letter *out);

/* Figures of the run, for people. */
struct check_figures {
    uint64_t created;
    uint64_t done;
    uint64_t cancelled;
    uint64_t dead;
    uint64_t expired;
    uint64_t redriven;
    uint64_t purged;
    uint64_t starts;
    uint64_t updates;
    uint64_t unknown_answers;
    uint64_t refusals;
    uint64_t held_starts;    /* attempts that started by a clock that has stepped back since */
    uint64_t late_starts;    /* attempts after start_by by a clock whose step was news */
    uint64_t clock_overlaps; /* attempts beside one whose deadline was stepped over */
    uint64_t promotions;
    uint64_t lost_commits;     /* by them */
    uint64_t lost_tasks;       /* by them: never created */
    uint64_t lost_starts;      /* attempts whose claim was lost before they started */
    uint64_t lost_overlaps;    /* attempts beside one whose claim was lost */
    uint64_t excused_answers;  /* answers that a promotion has made untrue */
    uint64_t excused_bytes;    /* payloads of updates that a promotion has taken back */
    uint64_t excused_tellings; /* outcomes of claims that a promotion has taken back */
    uint64_t releases;         /* of shards that were given away in good order */
    uint64_t hasty_releases;   /* of them, before all was written */
    int64_t late_us_max;       /* latest first start, after the later of due and insert */
};
void check_get_figures(const struct check *check, struct check_figures *out);

/* Latest first start of a shard's tasks since check_reset_late(). */
int64_t check_late_us(const struct check *check, uint32_t shard);
void check_reset_late(struct check *check);

/* Starts of a task so far, and whether it has ended. */
uint32_t check_start_count(const struct check *check, uint32_t shard, struct task_id id);
bool check_has_ended(const struct check *check, uint32_t shard, struct task_id id);

#endif
