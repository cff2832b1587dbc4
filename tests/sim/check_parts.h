/* SPDX-License-Identifier: Apache-2.0
 *
 * The history that the oracles share: tasks, their attempts, calls.
 */
#ifndef FOLIOT_TESTS_SIM_CHECK_PARTS_H
#define FOLIOT_TESTS_SIM_CHECK_PARTS_H

#include "lib/base/map.h"
#include "tests/sim/check.h"

enum check_end_kind {
    CHECK_PENDING = 0,
    CHECK_DONE,
    CHECK_DEAD,
    CHECK_CANCELLED,
    CHECK_EXPIRED,
    CHECK_LOST /* a promotion has taken it back: it was never there */
};

/* A call that left a broker. */
struct check_attempt {
    uint32_t attempt;
    uint32_t node;
    wall_ms deadline_ms;
    span_ms timeout_ms;
    int64_t started;       /* true time */
    enum outcome receiver; /* what its receiver said */
    enum outcome reported; /* what the core was told; 0: nothing */
    bool is_lost;          /* its claim was taken back by a promotion */
    bool is_told;          /* another one has told how it ended: whatever its receiver says */
};

/* A claim that was committed and then taken back by a promotion. */
struct check_lost_claim {
    uint32_t attempt;
    wall_ms deadline_ms;
};

/* The same of an epoch. */
struct check_lost_epoch {
    uint32_t shard;
    int64_t epoch;
    uint32_t client; /* whose it was */
};

/* A task by its committed history. */
struct check_task {
    struct list link;  /* in check.tasks, by insertion */
    struct list place; /* in check.rows or check.ended of its shard */
    uint32_t shard;
    struct task_id id;
    uint32_t queue;
    uint64_t key;
    uint64_t token; /* number of the call that its payload is of */
    size_t payload_len;
    wall_ms key_until_ms; /* its key is held until then, once it has ended */
    uint64_t creator;     /* number of the call that made it */
    int64_t inserted;     /* true time */
    enum check_end_kind end;
    int64_t ended;
    wall_ms due_ms;
    wall_ms expire_ms;         /* no attempt starts after it; 0: never */
    bool is_picked;            /* dead, and a user has wanted to redrive it */
    uint64_t redrive;          /* number of the call that redrives it, under way or lost; 0: none */
    int64_t revived_at;        /* true time of its last redrive */
    uint32_t revived;          /* attempts up to this one were before its last redrive */
    uint32_t attempt;          /* the row's */
    uint32_t failures;         /* the row's */
    uint32_t unknowns;         /* the row's */
    uint32_t claimed;          /* highest attempt that was ever claimed */
    wall_ms claim_deadline_ms; /* of that */
    uint64_t due_call;         /* the update that due_ms is of; 0: none */
    bool is_due_nameless;      /* due_ms is of an update that is not known by its number */
    uint32_t started_after_end; /* an attempt that started after its row was deleted by cancel */
    uint32_t cancel_answers;    /* CANCELLED or STOPPED so far */
    uint32_t last_allowed;      /* after those: the attempt that may still start; 0: none */
    uint32_t candidates;        /* calls that may have deleted it */
    int64_t changed;            /* true time of the last commit that names it */
    bool is_purged;             /* it was a dead letter */
    bool was_purged;            /* once */
    uint32_t purges;            /* under way or lost */
    wall_ms keep_until_ms;      /* its result is kept; 0: it is not */
    enum task_end ended_as;     /* as it is kept there */
    uint32_t last_attempt;      /* the same */
    struct check_attempt *attempts;
    size_t attempt_count;
    int64_t lost_at; /* true time of the last promotion that has changed it; 0: none */
    struct check_lost_claim *lost_claims;
    size_t lost_claim_count;
    uint32_t reopened;     /* one whose end a promotion has taken back: its claim is live again */
    uint32_t told_attempt; /* one without record here that was told to have ended; 0: none */
    enum outcome told;
    uint64_t *updates; /* calls under way that update it */
    size_t update_count;
    uint64_t *cancels; /* calls under way, or lost, that cancel it by id */
    size_t cancel_count;
    struct list order_link; /* among those of its order key */
    uint64_t order;         /* number of its order key; 0: none */
    wall_ms order_ms;       /* its place there */
    wall_ms order_known_ms; /* the one before, as far as its owner knew it */
    int64_t order_epoch;    /* of the owner who wrote order_ms */
    bool is_order_known;    /* that was answered */
    int64_t claim_epoch;    /* of its last claim */
    int64_t claimed_at;     /* true time of that */
    int64_t claim_since;    /* true time at which its owner's epoch was raised */
    uint32_t handed;        /* attempt that a broker has begun last */
    int64_t picked_at;      /* true time at which a user has wanted to redrive it */
    int64_t purged_at;      /* true time; was_purged */
    int64_t end_epoch;      /* when it ended */
};

enum check_call_state {
    CALL_STATE_NEW = 0,
    CALL_STATE_OPEN,
    CALL_STATE_ANSWERED,
    CALL_STATE_LOST
};

struct check_call {
    enum call_kind kind;
    enum check_call_state state;
    bool is_in_effect;
    bool is_lost;   /* it was in effect, until a promotion took that back */
    bool came_late; /* CANCEL: it began when its task was cancelled already, at that moment even */
    int64_t begun;  /* last time */
    struct check_task *task;
    wall_ms due_ms; /* UPDATE, absolute: asked for */
    bool has_due;
    bool is_relative; /* UPDATE: to a time that the broker makes, and of nothing else */
    bool is_doubtful; /* in effect by its due time, to which a relative one may have come as well */
    uint32_t named;   /* UPDATE: the attempt that the answer named */
    uint32_t started_old; /* UPDATE: an attempt that started by what it has replaced: the answer
                             has to name it */
    uint32_t queue;
    uint64_t key; /* by key, or CREATE with key */
    int result;
};

/* Calls on a key under way, and its tasks. */
struct check_key {
    uint32_t open; /* cancels by key and replacing creates, under way or lost */
    struct check_task *holder;
};

/* Queues whose policy is looked at. */
#define CHECK_QUEUES_MAX 16U

/* A queue as a broker has last heard of it. */
struct check_queue_view {
    uint32_t running; /* attempts of it that have left this broker and are not over */
    uint32_t limit;
    uint32_t most;      /* the limit, or what was claimed already when it fell */
    int64_t held_since; /* true time; 0: it is not paused */
    wall_ms held_until_ms;
};

struct check {
    struct sim *sim;
    struct map tasks_by_seq[SHARD_COUNT_MAX];
    struct list rows[SHARD_COUNT_MAX];  /* tasks that are pending or dead letters */
    struct list ended[SHARD_COUNT_MAX]; /* the others, last changed first */
    struct map keys;
    struct map orders; /* of lists */
    struct list tasks;
    uint64_t task_count;
    uint64_t pending_count;
    struct check_task **known; /* answered to users */
    size_t known_count;
    struct check_task **dead; /* they have become dead letters, some more than once */
    size_t dead_count;
    struct check_call *calls; /* by number − 1 */
    uint64_t call_count;
    uint64_t call_capacity;
    int64_t epoch[SHARD_COUNT_MAX];
    int64_t epoch_at[SHARD_COUNT_MAX];       /* true time at which it was raised */
    int64_t promoted_at[DATABASE_COUNT_MAX]; /* true time of the last promotion; INT64_MIN: none */
    int64_t draining_at[SIM_NODE_COUNT_MAX][SHARD_COUNT_MAX]; /* a move has begun; 0: no */
    uint32_t epoch_client[SHARD_COUNT_MAX];                   /* who has raised it */
    /* what a promotion may take back */
    uint32_t commit_database; /* of the commit that is looked at now */
    uint64_t commit_number;   /* 0: none that could be lost */
    struct list undo[DATABASE_COUNT_MAX];
    struct map lost_by_seq[SHARD_COUNT_MAX];
    struct check_lost_epoch *lost_epochs;
    size_t lost_epoch_count;
    int64_t late_us[SHARD_COUNT_MAX]; /* since the last reset */
    struct check_figures figures;
    struct check_queue_view queue_views[SIM_NODE_COUNT_MAX][CHECK_QUEUES_MAX];
    char audit_note[128]; /* the first thing that an auditor found; empty: none has */
    struct sim_event look;
    uint64_t look_count;
    int64_t line_over[SIM_NODE_COUNT_MAX]; /* a node has had a line that is too long since; 0: no */
    uint32_t line_life[SIM_NODE_COUNT_MAX]; /* which life of the node that was */
};

struct check_task *check_task_find(const struct check *check, uint32_t shard, struct task_id id);

/* A dead letter, which is still there. */
static inline bool check_is_letter(const struct check_task *task)
{
    return task->end == CHECK_DEAD && !task->is_purged;
}

/* A commit has changed the row of task: note when, and whether there is one now. */
void check_changed(struct check *check, struct check_task *task);
struct check_call *check_call_find(struct check *check, uint64_t number);
struct check_key *check_key_find(struct check *check, uint32_t queue, uint64_t number);

/* Number of the call in a payload; number of the key in a key's bytes, 0 for none. */
uint64_t check_token(struct slice bytes);

/* The database's true clock of a shard, microseconds. */
int64_t check_clock(const struct check *check, uint32_t shard);

/* The highest time by that clock that any broker may rightly take for passed: the clock itself,
 * unless it has just stepped back. */
int64_t check_latest(const struct check *check, uint32_t shard);

/* Whether an attempt can still be running somewhere. */
bool check_may_run(const struct check *check, const struct check_task *task,
                   const struct check_attempt *attempt);

/* An attempt by its number; not one whose claim was lost. */
struct check_attempt *check_attempt_find(const struct check_task *task, uint32_t attempt);

/* check_moves.c: whether a promotion has come since the owner of a shard has read it: what it knows
 * may be of the history that was lost. */
bool check_is_shaken(const struct check *check, uint32_t shard);

/* One more (1) or fewer (−1) that has ended like this. */
void check_count_end(struct check *check, enum check_end_kind end, int by);

/* --- check_undo.c: note what a commit is about to change, to be able to take it back -----------
 */

void check_undo_task(struct check *check, struct check_task *task);
void check_undo_insert(struct check *check, struct check_task *task);
void check_undo_key(struct check *check, struct check_key *key);
void check_undo_call(struct check *check, uint64_t number);
void check_undo_epoch(struct check *check, uint32_t shard);
void check_undo_free(struct check *check);

/* A task that was taken back, or NULL. */
struct check_task *check_lost_find(const struct check *check, uint32_t shard, struct task_id id);

/* Whether an attempt rests on a claim that was taken back. */
bool check_is_lost_claim(const struct check_task *task, const struct attempt *attempt);

/* Whether a claim with this number was taken back: another attempt may have the number, too. */
bool check_is_doubled(const struct check_task *task, uint32_t number);

/* Whether a promotion has changed the task while a call was under way that began at `begun`: its
 * answer is excused, and counted. */
bool check_may_be_lost(struct check *check, const struct check_task *task, int64_t begun);

/* An epoch is committed: it must not be a lost one of somebody else. */
void check_lost_epoch(struct check *check, uint32_t shard, int64_t epoch, uint32_t client);

/* --- check_audit.c: what the auditors say ------------------------------------------ */

void check_audit_look(struct check *check, const struct sim_node *node);
void check_audit_end(struct check *check);

/* The name of a task in a message. */
struct check_text {
    char text[48];
};
struct check_text check_name(const struct check_task *task);

/* A task goes on after a failure, or is given up; its counts are the new ones. is_refused: its
 * receiver said never. */
void check_queues_retried(struct check *check, const struct check_task *task);
void check_queues_given_up(struct check *check, const struct check_task *task, bool is_refused);

/* check_order.c: what each commit, answer and start means to an order key. */
void check_order_insert(struct check *check, struct check_task *task, const struct store_op *op);
void check_order_change(struct check *check, struct check_task *task, const struct store_op *op);
void check_order_dead(struct check *check, const struct check_task *task, bool is_refused);
void check_order_known(struct check_task *task);
void check_order_restore(struct check *check, struct check_task *task,
                         const struct check_task *row);
void check_order_claim(struct check *check, const struct check_task *task,
                       const struct store_op *op);
void check_order_start(struct check *check, struct check_task *task, const struct attempt *attempt);

/* Pending tasks of the order key that has most of them. */
int64_t check_order_longest(const struct check *check);

/* Lists of call numbers. */
void check_numbers_add(uint64_t **numbers, size_t *count, uint64_t number);
bool check_numbers_del(uint64_t *numbers, size_t *count, uint64_t number);

#endif
