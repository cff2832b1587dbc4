/* SPDX-License-Identifier: Apache-2.0
 *
 * Model of ownership, fencing, claims and calls: one shard, one task, two or three brokers. State
 * and the parts of it; own.c says what is shown.
 */
#ifndef FOLIOT_TESTS_MODEL_OWN_H
#define FOLIOT_TESTS_MODEL_OWN_H

#include "tests/model/explore.h"

enum {
    BROKERS = 3,  /* at most; option brokers */
    ATTEMPTS = 3, /* at most; option attempts */
    ORPHANS = 2,  /* transactions whose client gave up or died */
    GENERATIONS = 7,
    BUMPS = 4, /* epoch = generation * 4 + r; r ≤ option bumps */
    DEADLINE = 2,
    START_BY = 1,
    CALLS = 4,
    CALLER_DIED = 7
};

/* Users' calls, as bits of option calls. */
enum {
    CALL_CREATE = 1,
    CALL_CANCEL = 2,
    CALL_UPDATE = 4,
    CALL_REDRIVE = 8
};
enum {
    I_CREATE,
    I_CANCEL,
    I_UPDATE,
    I_REDRIVE
};

/* Promises, as bits of option props. */
enum {
    P_K3 = 1,
    P_K5 = 2,
    P_K6 = 4,
    P_START = 8,
    P_RISE = 16,
    P_CANCEL = 32,
    P_UPDATE = 64,
    P_K8 = 128,
    P_AGREE = 256,
    P_EPOCH = 512,
    P_AFTER = 1024,
    P_LOST = 2048,
    P_REFUSE = 4096,
    P_EARLY = 8192,
    P_TERM = 16384,
    P_KNOWN = 32768,
    P_ONCE = 65536,
    P_EXPIRE = 131072
};

enum {
    K_NONE,
    K_BUMP,
    K_INSERT,
    K_CLAIM,
    K_UNCLAIM,
    K_SETTLE,
    K_CANCEL,
    K_UPDATE,
    K_REDRIVE,
    K_EXPIRE,
    K_PING
};

/* Of a transaction. EXECUTED: its locks are held, it has not committed. MISSED: the fence let it
 * pass and its row did not match. */
enum {
    T_NONE,
    T_SENT,
    T_EXECUTED,
    T_DONE,
    T_FENCED,
    T_MISSED,
    T_LOST
};

/* Of a broker's ownership. */
enum {
    PH_IDLE,
    PH_CREATED,
    PH_READ_VERSION,
    PH_GENERATION,
    PH_BUMPING,
    PH_ACTIVE,
    PH_RELEASING,
    PH_DROPPED,
    PH_LOOK
};

enum {
    OUT_DONE = 1,
    OUT_RETRY,
    OUT_DEAD
};

/* To a caller. MAYBE: STOPPED, or "updated, attempt n may be running". */
enum {
    A_NOT_YET,
    A_PENDING,
    A_OK,
    A_MAYBE,
    A_UNAVAILABLE,
    A_UNKNOWN,
    A_GONE
};

struct own_tx {
    u8 kind, state, epoch, writer, attempt, expected, outcome, is_unknown, due, left, start_by;
};

struct own_db {
    u8 has, due, attempt, updated, expire; /* the task's row */
    u8 dead, dead_attempt;                 /* its dead letter */
    u8 claims[BROKERS][ATTEMPTS + 1];      /* 0, or 1 + ticks left: by who wrote it and attempt */
    u8 epoch, writer;
};

struct own_broker {
    u8 up, instance, connection, session;
    u8 phase, generation, bumps, epoch;
    /* memory of the task */
    u8 has, due, attempt, updated, expire;
    u8 claim, left, start_by; /* of its live claim */
    u8 is_armed, is_begun, is_inherited, is_lost, is_held, claim_updated;
    u8 mine; /* attempt claimed by us and not started, when an epoch of ours ended */
    /* a waiting caller: call + 1, what to answer if its write commits, attempt to name */
    u8 waiting, answer, answer_attempt;
    struct own_tx tx;
};

struct own_state {
    u8 owner, version; /* ZooKeeper: owner znode (0 or 1 + broker), version of the shard's znode */
    struct own_db db;
    struct own_broker brokers[BROKERS];
    struct own_tx orphans[ORPHANS];
    /* the world: who runs an attempt (1 + broker), ticks left, outcome under way (+ 4 * broker) */
    u8 run[ATTEMPTS + 1], run_left[ATTEMPTS + 1], outcome[ATTEMPTS + 1];
    u8 letter; /* attempt of a dead letter that a user has read */
    /* history, for the promises only */
    u8 highest, recorded, cancelled, updated_due, open_attempt, expire;
    u8 answers[CALLS], answer_attempts[CALLS], done; /* done: bit per call that committed */
    u8 expiries, crashes, unknowns, releases, ambiguous, failovers, losses, redrives, stepped;
    uint32_t used; /* epochs that have committed */
    struct own_db standby;
};

/* Rules are 1 as in the product; the rest are bounds. own_rules.c says what each is. */
struct own_options {
    int lock, guard, bump_first, rebump, new_bump, fenced_look, fenced_refusal;
    int settle_first, end_attempt, keep_claim, greatest, busy, wait_deadline, mine;
    int start_by, inherit_stops, release_keeps, release_inherited, drop_known;
    int by_blocker, row_first, version_reply, check_znode, epoch_zk, timeline;
    int once_inherited, once_held, redrive_attempt, redrive_expected, expire_unclaimed,
        expire_stops;
    int once, expire, brokers, attempts, calls, near, retry, step, gap, bumps;
    int expiries, crashes, unknowns, releases, ambiguous, failovers, losses, redrives;
    int props;
};

extern struct own_options own;
extern const struct model_option own_rules[];
extern const struct model_step own_steps_table[];

/* Steps; own_rules.c names them. */
enum own_step {
    S_TICK,
    S_EXPIRE,
    S_CRASH,
    S_RESTART,
    S_NOTICE,
    S_CREATE,
    S_CREATE_LOST,
    S_READ_BACK,
    S_RAISE,
    S_RAISE_LOST,
    S_READ_VERSION,
    S_CHECK,
    S_LOOK,
    S_CLAIM,
    S_USED_UP,
    S_UNCLAIM,
    S_CHECK_CALL,
    S_CALL,
    S_DONE,
    S_RETRY,
    S_DEAD,
    S_LOSE,
    S_DELIVER,
    S_REFUSE,
    S_OVERDUE,
    S_EXPIRED,
    S_RELEASE,
    S_DELETE,
    S_USER_CREATE,
    S_USER_CREATE_NEAR,
    S_USER_CANCEL,
    S_USER_UPDATE,
    S_USER_READS,
    S_USER_REDRIVE,
    S_EXECUTE,
    S_COMMIT,
    S_REPLY,
    S_GIVE_UP,
    S_IDLE_LOSS,
    S_LOST,
    S_TERMINATE,
    S_SUPERSEDED,
    S_ORPHAN_EXECUTES,
    S_ORPHAN_COMMITS,
    S_ORPHAN_ABORTS,
    S_DROP_ROW,
    S_REPLICATE,
    S_FAILOVER,
    S_CLOCK_STEP
};

/* A promise is broken, if the row looks at it. */
__attribute__((format(printf, 3, 4))) void own_fail(struct explore *explore, int promise,
                                                    const char *format, ...);

/* The database (own_db.c). */

u8 own_live(const struct own_db *db);
u8 own_claim_left(const struct own_db *db, unsigned attempt);
bool own_may_execute(const struct own_state *state, const struct own_tx *tx);
void own_execute(struct own_state *state, struct own_tx *tx);
void own_commit(struct explore *explore, struct own_state *state, struct own_tx *tx);
unsigned own_writer_broker(u8 writer);
bool own_may_orphan(const struct own_state *state, const struct own_tx *tx);
void own_orphan(struct own_state *state, struct own_tx *tx);
void own_db_tick(struct own_db *db);

/* A broker's memory (own_memory.c). */

void own_answer(struct explore *explore, struct own_state *state, unsigned call, u8 answer,
                u8 attempt);
void own_answer_waiting(struct explore *explore, struct own_state *state, struct own_broker *broker,
                        u8 answer);
void own_drop(struct explore *explore, struct own_state *state, unsigned number);
void own_send(struct own_state *state, unsigned number, u8 kind, u8 attempt);
void own_send_bump(struct own_state *state, unsigned number);
void own_load(struct own_state *state, unsigned number);
void own_look(struct explore *explore, struct own_state *state, struct own_broker *broker);
void own_unknown(struct explore *explore, struct own_state *state, unsigned number);
void own_reply(struct explore *explore, struct own_state *state, unsigned number);
void own_start(struct explore *explore, struct own_state *state, unsigned number);
void own_reconnect(struct own_broker *broker);

/* What a broker may do (own_steps.c for its task, own_owner.c for its shard). */

void own_add_broker(struct explore *explore, const struct own_state *state, unsigned number);
void own_add_task(struct explore *explore, const struct own_state *state, unsigned number);

/* Complete a step: throw away what nobody can see, look at what memory says, remember. */
void own_end(struct explore *explore, struct own_state *state);

void own_print(const void *of);

#endif
