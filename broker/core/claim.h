/* SPDX-License-Identifier: Apache-2.0
 *
 * Claims and their ends: an attempt is noted durably before it starts, and its outcome is recorded
 * if and only if its claim is still the live one. Keeps count of the members of our claim rows, so
 * that a row is dropped only when every end is known to us. source: DESIGN 7; H-4, H-5
 */
#ifndef FOLIOT_BROKER_CORE_CLAIM_H
#define FOLIOT_BROKER_CORE_CLAIM_H

#include "broker/core/state.h"

/* How trying to claim went. */
enum claim_try {
    CLAIM_SENT = 1, /* the entry is CLAIMING; or DELETING, because its time was over,
                       or WAITING until that is certain */
    CLAIM_FETCHING, /* its payload is being read first */
    CLAIM_NO_ROOM   /* queue, flights or writer are full: ask again */
};

/*
 * Ask for the next attempt of a task: take its queue's room and note the claim for the next commit.
 *
 * shape: state WAITING or READY, in no list and not in the wheel.
 */
enum claim_try claim_ask(struct shard *shard, struct entry *entry);

/*
 * Prepare the flight of a near task that is inserted and claimed in one batch. NULL if there is no
 * room; the task is then inserted without a claim.
 *
 * shape: state VISITING; afterwards INSERTING, and the caller adds the claim's operation by
 *        claim_note() right behind the insert's.
 */
MUST_USE struct flight *claim_prepare(struct shard *shard, struct entry *entry);

/* Add the operation of a prepared claim to the writer. shape: the writer has room. */
void claim_note(struct shard *shard, struct flight *flight);

/* The claim's operation is known. result: as store_op.result, or the batch's. */
void claim_done(struct shard *shard, struct flight *flight, int result);

/* Let an entry and a flight find each other again. Frees the entry's own block. */
void claim_join(struct shard *shard, struct entry *entry, struct flight *flight);

/*
 * Part an entry from its flight because the shard is dropped: a started flight, or any if
 * `keep`, goes adrift; another is freed. The entry is left without a block.
 */
void claim_part(struct shard *shard, struct entry *entry, bool keep);

/*
 * Write the end of a claim: what is to be written follows from the flight's outcome, or, without
 * flight, from the claim having passed its deadline. Finds room later if there is none now, or if
 * others wait for it.
 *
 * shape: state CLAIMED, RUNNING or HELD (flight ended or none).
 */
void claim_settle(struct shard *shard, struct entry *entry);

/* Give back a claim that has not started, in the next commit. shape: state CLAIMED. */
void claim_withdraw(struct shard *shard, struct entry *entry);

/* The settling operation is known. entry is NULL if the shard was dropped in between. */
void claim_settled(struct shard *shard, struct entry *entry, struct flight *flight,
                   const struct store_op *op, int result);

/* The operation that ends a task whose time was over is known. result: not unknown, not fenced. */
void claim_expired(struct shard *shard, struct entry *entry, int result);

/* Keep what the target said: an error, cut at its limit, or a response if the queue keeps results
 * and it is within its limit. shape: the outcome is known. */
void flight_keep_text(struct broker *broker, struct flight *flight, struct slice text);

/* A flight for an attempt that another broker began, ended as its report says. NULL: no memory.
 * shape: HELD, not touched. The entry is RUNNING afterwards. */
MUST_USE struct flight *claim_adopt(struct shard *shard, struct entry *entry,
                                    const struct report *report);

/* Give the block back to the entry and end its flight. `known`: as in flight_end(). */
void claim_land(struct broker *broker, struct entry *entry, bool known);

/* The flight's outcome is known and nothing else is to be done with it: give its room back.
 * `known`: its claim has been ended under our own fence. */
void flight_end(struct broker *broker, struct flight *flight, bool known);

/* A flight without entry may be over: end it if nothing is owed to it or by it. */
void flight_check(struct broker *broker, struct flight *flight);

/* Everything in the window has been read: flights adrift that found no task are over. */
void claim_clear_adrift(struct shard *shard);

/* Retry what found no room, as far as there is some now. Once per tick. */
void claim_step(struct broker *broker);

#endif
