/* SPDX-License-Identifier: Apache-2.0
 *
 * What one run of the simulator is: drawn from its seed (swarm: some faults off, others severe), or
 * written by a story. Everything that a run does follows from this struct.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_OPTIONS_H
#define FOLIOT_TESTS_SIM_SIM_OPTIONS_H

#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sim_edge;

#define SIM_NODE_COUNT_MAX 8U

/* A part of the simulated world that is broken on purpose, to see its checker bite. */
enum sim_mutant {
    SIM_MUTANT_NONE = 0,
    SIM_MUTANT_FENCE,      /* the store reads the epoch without a lock */
    SIM_MUTANT_CLOCK,      /* a broker's estimate runs ahead of the database */
    SIM_MUTANT_START_BY,   /* the outbound does not look at start_by */
    SIM_MUTANT_GENERATION, /* the coordinator gives the same generation again */
    SIM_MUTANT_UNKNOWN,    /* the store says that an unknown write did not happen */
    SIM_MUTANT_LOST_WRITE, /* the store says that a refused write is committed */
    SIM_MUTANT_SEND_TWICE, /* the outbound sends an attempt twice */
    SIM_MUTANT_OUTCOME,    /* the outbound says done when nobody answered */
    SIM_MUTANT_CLAIMS,     /* a read of claims finds none */
    SIM_MUTANT_SLICE,      /* a read of a slice leaves rows out */
    SIM_MUTANT_MEMBERS,    /* nobody hears that a broker is gone */
    SIM_MUTANT_KEY_SHARE,  /* the store locks the epoch FOR KEY SHARE, which stops no bump */
    SIM_MUTANT_EPOCH,      /* the database counts its epochs by itself, and loses its tail */
    /* of wire mode */
    SIM_MUTANT_WIRE_LOSE,    /* a link loses a byte */
    SIM_MUTANT_WIRE_TWICE,   /* a link delivers a piece twice */
    SIM_MUTANT_WIRE_EARLY,   /* a broker says of an unknown outcome that it did not happen */
    SIM_MUTANT_WIRE_PROOF,   /* a client takes a broken connection for proof of that */
    SIM_MUTANT_WIRE_DELIVER, /* a server hands some calls to their handler twice */
    SIM_MUTANT_COUNT
};

/* Shares are in thousandths; mean spans of 0 mean never. */
struct sim_options {
    uint64_t seed;
    enum sim_mutant mutant;
    const struct sim_edge *edge; /* NULL: message mode */
    /* the cluster */
    uint32_t node_count;
    uint32_t late_count; /* of them, the last ones: they come later, each at a moment of its own */
    uint32_t shard_count;
    uint32_t database_count;
    uint32_t queue_count;
    span_ms session_timeout_ms;
    span_ms window_ms;
    uint32_t entry_count_max;
    span_ms audit_ms;        /* from one turn of the auditors to the next; 0: there are none */
    uint32_t batch_op_max;   /* of a commit; these three as in struct broker_options */
    uint32_t waiting_op_max; /* for commits, of each class */
    int64_t retry_us;        /* after a refusal by store or coordinator */
    uint32_t split_op_min;   /* two batches from so many operations on */
    int64_t settle_wait_us;  /* of an outcome for others; of a claim */
    int64_t claim_wait_us;
    int64_t faults_us; /* length of the first phase */
    /* the load */
    int64_t call_every_us; /* mean, all users together */
    uint32_t keyed_permille;
    uint32_t cancel_permille;
    uint32_t update_permille;
    uint32_t get_permille;
    uint32_t near_permille;    /* creates due within a second */
    uint32_t far_permille;     /* creates due beyond the window */
    uint32_t burst_permille;   /* calls that come as a burst of many */
    uint32_t large_permille;   /* payloads that memory does not keep */
    uint32_t room;             /* attempts at once of every fourth queue */
    int64_t room_every_us;     /* it is as much as the others' for a while */
    uint32_t expire_permille;  /* creates with an end of their time; above 0, one queue gives one to
                                  all of its tasks, too, and one is paused for a while */
    uint32_t redrive_permille; /* calls that redrive a dead letter */
    int64_t read_every_us;     /* mean, all readers together */
    int64_t policy_every_us;   /* some queue's policy changes */
    uint32_t order_permille;   /* creates with an order key, and then without a key */
    uint32_t order_count;      /* order keys of a queue */
    /* delays */
    int64_t store_us;       /* mean of one stage of a request */
    int64_t network_us;     /* mean of one way */
    int64_t coord_us;       /* mean of one way */
    int64_t members_us;     /* most that a member list is late */
    int64_t turn_us;        /* most that a loop turn is late */
    uint32_t slow_permille; /* stages that take up to slow_us */
    int64_t slow_us;
    int32_t drift_ppm;          /* most that a boot clock runs off */
    int32_t database_drift_ppm; /* most that a database's clock does */
    int64_t wall_us;            /* most that the wall clock of a broker is off, anew each time */
    /* faults of the store */
    uint32_t give_up_permille; /* per stage */
    uint32_t refuse_permille;  /* per request */
    uint32_t short_permille;   /* slices that end before their limit, and say so */
    int64_t orphan_us;         /* most that an orphan rests between stages */
    int64_t database_down_every_us;
    int64_t database_down_us;    /* mean */
    int64_t clock_step_every_us; /* a database's clock jumps */
    int64_t clock_step_us;       /* at most so far; back and for good only a little */
    int64_t timeline_every_us;   /* a broker hears of a failover */
    int64_t promote_every_us;    /* a standby takes over that lacks the last commits */
    int64_t standby_lag_us;      /* most that is lost then */
    bool has_standby;            /* for stories: there is one, without promote_every_us */
    uint32_t no_room_permille;   /* requests that are refused when they are made */
    uint32_t no_memory_permille; /* allocations of the core that fail */
    /* faults of the coordinator */
    uint32_t coord_lost_permille; /* calls of ZooKeeper at which the connection breaks, half of
                                     them after they took effect; watch events that get lost */
    int64_t coord_lag_us;         /* most that a server is behind the leader; some are */
    uint32_t hear_permille;       /* events that a core hears twice, late or not at all */
    int64_t hide_every_us;        /* a broker is not told of another any more, for long */
    int64_t rebuild_every_us;     /* ZooKeeper is lost, made anew, and adopted later */
    int64_t expire_every_us;
    int64_t znode_lost_every_us;
    int64_t cut_every_us; /* a broker loses its link to the coordinator */
    int64_t cut_us;
    int64_t coord_stop_every_us; /* the coordinator is down for as long as a cut */
    /* faults of processes */
    int64_t kill_every_us;
    int64_t down_us; /* mean */
    int64_t pause_every_us;
    int64_t pause_us;        /* mean */
    uint32_t stall_permille; /* pauses with which the boot clock stands still, too */
    int64_t drain_every_us;
    bool is_one_gone; /* the first broker is dead for good when the faults end */
    /* faults of the network between users and brokers */
    uint32_t call_lost_permille;
    uint32_t link_twice_permille; /* messages that arrive once more, later */
    uint32_t link_late_permille;  /* messages that others overtake */
    int64_t link_cut_every_us;    /* one direction of a link, or both */
    int64_t swizzle_every_us;     /* links of some brokers stop one by one */
    /* the target */
    int64_t target_us; /* mean of an execution */
    uint32_t target_retry_permille;
    uint32_t target_dead_permille;
    uint32_t target_never_permille;
    uint32_t target_late_permille;
    uint32_t target_slow_send_permille;
    uint32_t target_full_permille;
    uint32_t rumour_permille; /* attempts of which something is told besides, to whichever broker */
    /* wire mode */
    uint32_t wire_chop_permille;   /* reads and writes that are cut in small pieces */
    uint32_t wire_buffer;          /* bytes that one way of a connection holds */
    uint32_t wire_streams;         /* streams at a time that a broker takes */
    uint32_t wire_target_streams;  /* and that the receivers take */
    int64_t wire_age_ms;           /* connections of brokers are drained after; 0: never */
    int64_t wire_cut_every_us;     /* a connection is cut */
    int64_t wire_half_every_us;    /* one way of a connection is ended by somebody between */
    int64_t wire_still_every_us;   /* one way of a connection stands still */
    int64_t wire_still_us;         /* mean */
    int64_t wire_restart_every_us; /* the receivers' server starts again */
};

/* Draw everything from the seed. minutes: virtual length of the first phase; 0: drawn too. */
void sim_options_draw(struct sim_options *options, uint64_t seed, uint32_t minutes);

/* Run with a mutant: what it needs to show itself is on. */
void sim_options_mutate(struct sim_options *options, enum sim_mutant mutant);

/* Draw the links of wire mode, too. The rest stays as it was drawn. */
void sim_options_draw_wire(struct sim_options *options);

/* A quiet cluster without any fault, for stories: two brokers, four shards, one database. */
void sim_options_quiet(struct sim_options *options, uint64_t seed);

/* One line of words for people. */
void sim_options_print(const struct sim_options *options, struct buf *out);

/* Change one option by the name that is printed. False: there is none of that name. */
bool sim_options_set(struct sim_options *options, const char *name, size_t name_len, int64_t value);

/* All options by number. sim_options_find() must find one. */
size_t sim_options_count(void);
const char *sim_options_name(size_t option);
int64_t sim_options_get(const struct sim_options *options, size_t option);
size_t sim_options_find(const char *name);

/* Name of a mutant, and the checkers, by the promises they hold, one of which has to catch it. */
const char *sim_mutant_name(enum sim_mutant mutant);
const char *sim_mutant_checkers(enum sim_mutant mutant);

#endif
