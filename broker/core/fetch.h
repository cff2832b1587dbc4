/* SPDX-License-Identifier: Apache-2.0
 *
 * Large payloads: they are not kept in the window but read when their task is about to be claimed.
 */
#ifndef FOLIOT_BROKER_CORE_FETCH_H
#define FOLIOT_BROKER_CORE_FETCH_H

#include "broker/core/state.h"

/*
 * Read the payload of an entry into its block; then the entry joins its queue's line again.
 *
 * shape:  state WAITING or READY; it is, or will be put, in no list while it is FETCHED.
 * errors: ERR_FULL or the store's refusal: nothing is read.
 */
MUST_USE int fetch_payload(struct shard *shard, struct entry *entry);

#endif
