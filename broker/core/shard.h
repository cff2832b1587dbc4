/* SPDX-License-Identifier: Apache-2.0
 *
 * Life of a shard on this broker: acquire, bump, load, serve, drain, release, and every way to lose
 * it. One path serves take-over, failover, frozen backends and lost replies: raise the epoch, then
 * look. source: DESIGN 7; RELIABILITY H-1, H-3, P-3
 */
#ifndef FOLIOT_BROKER_CORE_SHARD_H
#define FOLIOT_BROKER_CORE_SHARD_H

#include "broker/core/state.h"

void shard_init(struct shard *shard, struct broker *broker, uint32_t id);

/* Free all that the shard holds. Callbacks that are owed are not called. */
void shard_fini(struct shard *shard);

/* Something has changed: look at the shard in the next tick. */
void shard_touch(struct shard *shard);

/* Do what the shard's state asks for next. */
void shard_step(struct shard *shard);

/* Somebody newer owns it, or may: drop everything at once. */
void shard_fenced(struct shard *shard);

/* A write has an unknown outcome: take the shard again under a new epoch. */
void shard_unknown(struct shard *shard);

/* The owner znode is gone, or the session is. */
void shard_lost(struct shard *shard);

/* A page of the window has been put away. */
void shard_on_page(struct shard *shard);

/* A request was refused or failed without effect: not again before a while. */
void shard_retry_later(struct shard *shard);

/* No request before this time; the broker looks at the shard then. */
void shard_retry_at(struct shard *shard, boot_us at);

/* No page of what is past before this time; the broker looks at the shard then. */
void shard_read_past_at(struct shard *shard, boot_us at);

/*
 * Send a read of a shard's own under its present epoch; if it cannot be sent, not again before a
 * while.
 *
 * shape:  what is asked for and the callback are filled in; the rest is set here, the shard as the
 *         owner. *serial becomes the one that the reply is fresh under.
 * result: whether it was sent.
 */
MUST_USE bool shard_read(struct shard *shard, struct store_read *read, uint32_t *serial);

/* Nothing of ours, and nothing wanted: no step would do anything until it is touched. */
bool shard_is_at_rest(const struct shard *shard);

/* Whether it is held or being taken or given away, as opposed to idle. */
bool shard_is_held(const struct shard *shard);

const char *shard_state_name(enum shard_state state);

/* Whether one state may follow another; pinned by the test of the whole matrix. */
bool shard_may_move(enum shard_state from, enum shard_state to);

#endif
