/* SPDX-License-Identifier: Apache-2.0
 *
 * The broker's memory: what the core's own files share and nobody else includes. Who owns what is
 * said here; how it changes is in the file named beside it.
 */
#ifndef FOLIOT_BROKER_CORE_STATE_H
#define FOLIOT_BROKER_CORE_STATE_H

#include "broker/core/answer_state.h"
#include "broker/core/broker.h"
#include "broker/core/entry_form.h"
#include "broker/core/entry_index.h"
#include "broker/core/inspect.h"
#include "broker/core/lane.h"
#include "broker/core/queue_state.h"
#include "broker/core/wheel.h"
#include "coordinator/assign.h"
#include "lib/base/map.h"
#include "lib/base/pool.h"
#include "lib/base/prng.h"
#include "lib/base/slabs.h"

/* Operations that may wait for the next commits of half a database, by who asks. Claims: one batch,
 * so that what waits beyond it waits in its queue's line and the queues take turns. */
#define CALL_OPS_MAX   8192U
#define CLAIM_OPS_MAX  2048U
#define SETTLE_OPS_MAX 8192U

/* Calls inside the core at once; each is a caller's memory, so this bounds the edge as well. */
#define CALLS_MAX 65536U

/* Keys' tasks whose due time one read tells: it brings their payloads along, 4 MiB at most. */
#define KEEP_IDS_MAX 64U

/* Attempts claimed or running at once. Claim rows of ours with a live member, and those being
 * written, are never more: without one to be had no outcome could be written either. */
#define FLIGHTS_MAX 131072U
#define GROUPS_MAX  (FLIGHTS_MAX + WRITER_HALVES * DATABASE_COUNT_MAX)

/* Claim rows that one batch drops. */
#define DROPS_MAX 256U

/* A new member list is acted on after this much quiet. source: DESIGN 5 */
#define MEMBERS_QUIET_US (200 * US_PER_MS)

/* A shard that is somebody else's is asked for again after this, in case the event got lost. */
#define SCAN_US US_PER_S

/* Claim rows without a live member are swept this often, by everybody. */
#define SWEEP_US (30 * US_PER_S)

/* After a refusal by store or coordinator, before the next try. */
#define RETRY_US (100 * US_PER_MS)

/* A withdrawn attempt is offered again after this long; without room at its target, sooner. */
#define WITHDRAWN_MS 50
#define NO_ROOM_MS   10

/* A claim row of ours. 1. live counts its members whose claim may be live. */
struct group {
    struct claim_row row;
    uint32_t live;
    bool is_tainted; /* a member's end is not known to us: left for the sweep */
};

/*
 * One attempt from claim to settlement.
 * 1. entry is NULL once the shard was dropped (the flight is then in shard->adrift, or alone if a
 *    later attempt has taken its place) or the task was cancelled; it is freed when its outcome is
 *    known and no operation names it.
 */
struct flight {
    struct attempt attempt; /* the outbound's view */
    struct list link;       /* in broker.all_flights */
    struct entry *entry;
    struct block *block;
    struct group *group; /* NULL until the claim's batch is sent */
    wall_ms until_ms;    /* deadline of the claim in the database, if it came home to one; else 0 */
    char *text;          /* of the target: its error, or its response if that is kept; ours */
    uint32_t text_len;   /* bytes of it */
    bool is_started;     /* handed to the outbound */
    bool is_ended;       /* its outcome is in `attempt` */
    bool is_sent;        /* an operation that names it waits or is in flight */
    bool is_adrift;      /* it is in shard->adrift */
    bool is_outdated;    /* the payload was updated meanwhile: the next attempt reads it anew */
    uint32_t visit_serial; /* of the shard, when the row was asked for; 0: it was not */
};

/* Life of a shard; the table is in shard.c. */
enum shard_state {
    SHARD_IDLE = 1,
    SHARD_ACQUIRING,
    SHARD_BUMPING,
    SHARD_LOADING,
    SHARD_ACTIVE,
    SHARD_DRAINING,
    SHARD_RELEASING
};

struct shard {
    struct broker *broker;
    uint32_t id;
    uint8_t part; /* of its database's outcomes, in which they wait: shards of one differ in it */
    uint32_t database;
    enum shard_state state; /* written by shard_move() only */
    bool is_desired;        /* placement gives it to us */
    bool has_znode;         /* as far as we know */
    bool is_busy;           /* `coord`, `bump` or `read` is in flight */
    bool is_paging;         /* `page` is in flight */
    bool is_looking;        /* `look` is in flight */
    bool is_keeping;        /* `keep` is in flight */
    bool has_claims;        /* the claims of the take-over have been read */
    bool is_loaded;         /* everything between `split` and `target` is in memory */
    bool is_touched;        /* it is in broker.touched */
    bool is_told;           /* the owner znode has been given the present state */
    bool is_telling;        /* `note` is in flight */
    bool is_rewound;        /* the page's cursor was set back while it was being read */
    bool is_seeing;         /* `see` is in flight */
    bool is_order_short;    /* rows behind order keys that nobody remembers were let go of */
    bool was_parked;        /* the last page was for a park: it is the shard's own turn */
    bool is_page_past;      /* the page, or the last one, is of what is past */
    bool is_past_waiting;   /* until another shard's page of its past has ended */
    uint32_t serial;        /* counts the drops: tells stale replies */
    uint32_t busy_serial;
    uint32_t page_serial;
    uint32_t page_count[2];   /* pages of its own asked for so far: near ones, those of the past */
    boot_us failing_since[2]; /* they have been refused since then; 0: the last was not */
    uint32_t look_serial;
    uint32_t keep_serial;
    uint32_t claims_serial;
    int64_t generation;
    int64_t epoch; /* 0: none */
    uint32_t bump_count;
    int64_t counter; /* of ids in this epoch */
    boot_us since;   /* when the generation was got */
    boot_us retry_at;
    boot_us drain_until;
    uint32_t ops;           /* operations waiting or in flight */
    struct place split;     /* up to here rows are past: they are read behind those after it */
    struct place cursor;    /* rows between split and here are in memory, but for those of parked
                               queues */
    struct place past;      /* so are rows at or before it; it ends at split */
    boot_us past_at;        /* what is past is not read before; 0: it may be */
    int64_t target;         /* bucket up to which memory is being filled */
    struct place rewind;    /* where the page's cursor was set back to, if is_rewound */
    struct park *page_park; /* whose page is in flight; NULL: the shard's own */
    struct queue_state *page_queue; /* the same queue, also when the park has gone meanwhile */
    uint32_t *page_numbers;         /* of queues, for `page`; freed with its reply */
    struct map parks;               /* queue number → struct park */
    struct entry_index entries;     /* by seq */
    struct map gone;                /* seqs that left memory while a page was being read */
    struct map adrift;              /* seq → flight of a dropped entry */
    struct map inherited;           /* seq → struct claim, as read at take-over */
    struct map recent;              /* seq → struct recent in broker.recents */
    struct map reading;             /* seq → first of the reads of its row: reading.h */
    struct map orders;              /* hash → struct order_line */
    struct claim *claims;           /* the claims that `inherited` points to */
    size_t claim_count;
    size_t claims_seen;  /* of them, those whose rows have been looked at for order keys */
    size_t claims_next;  /* the same, when `see` has been answered */
    struct list touched; /* in broker.touched: something has changed, look at the next tick */
    struct list waiting; /* calls: for the shard, or for an entry's write */
    struct list unknown; /* calls whose write has an unknown outcome */
    struct list keeping; /* creates that wait for the due time of the task they keep */
    struct coord_request coord;
    struct coord_request note; /* the state, for people: never in the way of the others */
    struct store_bump bump;
    struct store_read read;
    struct store_read page;
    struct store_read look;
    struct store_read keep;
    struct store_read see;    /* rows of inherited claims */
    struct task_id *look_ids; /* of `look`; freed with its reply */
    struct task_id keep_ids[KEEP_IDS_MAX];
    struct task_id claim_ids[KEEP_IDS_MAX]; /* of `see` */
};

/* What an operation was for. */
enum note_kind {
    NOTE_INSERT = 1, /* call; entry if near */
    NOTE_CLAIM,      /* flight */
    NOTE_SETTLE,     /* entry, flight or none */
    NOTE_CANCEL,     /* call, entry */
    NOTE_UPDATE,     /* call, entry */
    NOTE_DISPLACE,   /* entry whose key a create takes over; the create is the next operation */
    NOTE_EXPIRE,     /* entry whose time is over */
    NOTE_REDRIVE,    /* call, as in a purge */
    NOTE_PURGE
};

struct note {
    enum note_kind kind;
    bool is_paired;  /* must be in one batch with the operation behind it */
    uint32_t serial; /* of the shard, when it was noted */
    struct entry *entry;
    struct flight *flight;
    struct call *call;
};

/* Outcomes wait in so many parts, by their shards. */
#define SETTLE_PARTS     4
#define SETTLE_ALL_PARTS ((1U << SETTLE_PARTS) - 1)

/* What is much to write is two batches, each of a half of the shards: of every other part. */
#define WRITER_HALVES 2
#define BOTH_HALVES   ((1U << WRITER_HALVES) - 1)

/* Operations that one piece of work adds at most: displace, insert, claim. */
#define OPS_PER_WORK 3U

/* Who asks the writer, in the order in which a batch is filled: due work before intake. Each has a
 * lane for each half, outcomes one for each part. */
enum writer_class {
    WRITER_CLAIM,
    WRITER_SETTLE = WRITER_CLAIM + WRITER_HALVES,
    WRITER_CALL = WRITER_SETTLE + SETTLE_PARTS,
    WRITER_LANE_COUNT = WRITER_CALL + WRITER_HALVES
};

/*
 * A transaction of some half of a database's shards, or of both.
 * 1. ops[0 … count − 1] are in flight, or were refused by the store and are sent again as they are.
 * 2. Of two that have operations at the same time neither has one of the other's halves.
 */
struct writer_batch {
    struct writer *writer;
    struct store_op *ops; /* BATCH_OP_COUNT_MAX of them, as notes */
    struct note *notes;
    uint32_t count;
    uint32_t halves; /* bits */
    size_t bytes;    /* while it is being filled */
    bool is_flying;
    bool is_much;     /* there was enough for two batches when it was filled */
    bool is_doubtful; /* it was made before the database lost commits */
    boot_us sent_at;
    struct group *group; /* of its claims */
    struct store_batch store;
};

/*
 * Group commit of one database.
 * 1. What waits for a batch is in the lanes. An operation whose note is paired has the next one
 *    behind it in the same lane.
 * 2. Rows to drop and sweeps go with the first batch: of them one is in flight at a time. */
struct writer {
    struct broker *broker;
    uint32_t database;
    struct lane lanes[WRITER_LANE_COUNT];
    struct lane *chained; /* that of the last operation added, if is_chained */
    bool is_chained;      /* its note is paired: the next one goes with it */
    struct writer_batch batches[WRITER_HALVES]; /* the first has either half or both */
    uint64_t taken[CALL_OPS_MAX / 64]; /* bits: what was taken of the lane that is looked at */
    boot_us retry_at;
    boot_us split_at;                /* until then there is one batch: the second's stream failed */
    boot_us claim_at[WRITER_HALVES]; /* when claims leave at the latest, while there are any */
    boot_us settle_at;    /* when the next part of the outcomes leaves, while there are any */
    uint32_t settle_turn; /* which part that is */
    uint32_t first_half;  /* 0 or 1: whose lane comes first in a batch of both */
    uint32_t hurried;     /* bits: parts that leave with the next batch of their half */
    int64_t row_seq;
    struct claim_row drops[DROPS_MAX];
    uint32_t drop_count;
    uint32_t drops_flying;
    boot_us sweep_at;
    struct map keys;       /* keyed inserts of the batch being filled */
    struct map letters;    /* tasks of its redrives and purges */
    int64_t commit_us;     /* smoothed */
    int64_t slow_us;       /* the slowest commit of late: rises at once, falls slowly */
    boot_us slow_at;       /* when it last fell */
    boot_us failing_since; /* 0: the last write of the first batch was fine */
};

struct database {
    struct wheel wheel;   /* CLAIMED and HELD entries; runs by the clock */
    struct wheel waiting; /* WAITING entries, by due time; runs lead_ms ahead of the clock */
    bool is_wheel_set;    /* the clock has been known once */
    struct writer writer;
    struct list unsettled; /* SETTLING entries that found no room in the writer */
    span_ms lead_ms;       /* claims go out this long before due */
    span_ms start_ms; /* and may start until this long after it, or after they were asked for */
    struct store_read epochs;
    struct epoch_check *checks;
    bool is_checking;
    boot_us check_at;
    uint32_t orders_reading; /* order keys that are being read for */
    bool is_reading_past;    /* a page of some shard's past is in flight: one at a time */
    uint32_t past_pages;     /* that have ended */
};

struct broker {
    struct broker_env env;
    struct broker_options options;
    struct now now;
    struct prng prng;
    struct broker_stats stats;
    struct shard *shards;
    struct database *databases;
    struct slabs entries;
    struct pool flights;
    struct pool groups;
    struct pool reads;
    struct pool parks;
    struct pool orders;
    struct queue_state **queues; /* by index; never moves or shrinks; a number may change */
    uint32_t queue_count;
    uint64_t queue_list;    /* counts the lists of queues that have come */
    uint32_t line_count;    /* queues whose line is not empty */
    struct map queue_index; /* queue number → struct queue_state */
    struct list all_flights;
    struct list touched;       /* shards to look at in this tick */
    struct list answered;      /* calls whose callback is owed */
    struct list orders_asking; /* order keys to be read for, first come first served */
    struct list orders_idle;   /* the others, the one at rest for longest first */
    uint32_t orders_asking_count;
    boot_us orders_wake;    /* the first of them that is held is over then; BOOT_NEVER: none */
    uint32_t orders_unseen; /* of them, those that order_step() has still to look at */
    uint32_t call_count;
    struct audit *audit;                   /* NULL: there is none */
    struct refusal refusals[REFUSALS_MAX]; /* a ring */
    uint32_t refusal_next;
    struct recent *recents; /* RECENTS_MAX, a ring */
    uint32_t recent_next;
    span_ms window_ms; /* now, after memory has had its say */
    /* membership.c */
    struct member *members; /* room for MEMBER_COUNT_MAX: a list is never lost for want of memory */
    size_t member_count;
    uint32_t *owners;        /* placement: of each shard, its place among the members that count */
    bool is_placed;          /* owners is of the present members */
    struct member self;      /* what we would publish now */
    struct member published; /* what is being, or has been, published */
    struct coord_request publish;
    bool is_publishing;
    bool is_publish_due;
    bool is_session; /* we have one, or believe so */
    bool is_away;    /* the coordinator cannot be reached now */
    bool is_draining;
    boot_us placement_at; /* BOOT_NEVER: nothing to do */
    boot_us publish_at;
    boot_us scan_at;
    boot_us retry_at;   /* earliest of the shards', and of their past_at */
    boot_us held_until; /* the first pause ends then, by the slowest clock; BOOT_NEVER: none does */
    uint32_t leaving_count; /* shards that are DRAINING or RELEASING */
    uint32_t cannot;        /* databases that we could not write to for a session timeout */
    uint32_t run_shard;     /* broker_pick_slot() */
    uint32_t run_left;
    uint32_t first_queue;          /* whose turn it is to be served first */
    struct entry *collected[1024]; /* entry_collect()'s */
    uint32_t shed_shard;           /* shed.c lets go of what is in this one; past all: of nothing */
    uint32_t shed_chain;           /* entry_walk.chain of that */
    bool is_present_crowded; /* letting go of what is ahead of the present bucket was not enough */
    uint32_t crowd_len;      /* queues with more tasks in memory crowd it if room is short */
    bool is_trimming;        /* there are lines that are still too long */
    bool is_behind;          /* a step has left work for the next tick, which is now */
};

/* Bounds of a database's clock, in whole milliseconds, as now says: what is due by it, what the
 * deadline of a claim is compared with, and the latest that it can be. */
static inline wall_ms lower_ms(const struct broker *broker, uint32_t database)
{
    return ms_floor(broker->now.database[database].lower_us);
}

static inline wall_ms proven_ms(const struct broker *broker, uint32_t database)
{
    return ms_floor(broker->now.database[database].proven_us);
}

static inline wall_ms upper_ms(const struct broker *broker, uint32_t database)
{
    int64_t upper_us = broker->now.database[database].upper_us;

    return upper_us == INT64_MAX ? WALL_NEVER : ms_ceil(upper_us);
}

/* When a database's clock, if it goes on as it does, will show a time. */
static inline boot_us boot_when(const struct broker *broker, uint32_t database, wall_ms at_ms)
{
    int64_t lower_us = broker->now.database[database].lower_us;
    int64_t span_us = time_sub(time_mul(at_ms, US_PER_MS), lower_us);

    if (at_ms == WALL_NEVER || lower_us == INT64_MIN) {
        return BOOT_NEVER;
    }
    return time_add(broker->now.boot, time_max(span_us, 0));
}

/* Tell whoever listens. */
static inline void tell(const struct broker *broker, const char *what, const struct shard *shard,
                        int64_t seq, int64_t a, int64_t b)
{
    struct core_event event = {what, shard->id, shard->epoch, seq, a, b};

    if (broker->env.on_event != NULL) {
        broker->env.on_event(broker->env.on_event_ctx, &event);
    }
}

#endif
