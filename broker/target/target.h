/* SPDX-License-Identifier: Apache-2.0
 *
 * One address that attempts go to: its channel, its room, and the batches that gather for it.
 * Shared by the kinds of targets; opened and closed by the pool. Private to broker/target.
 */
#ifndef FOLIOT_BROKER_TARGET_TARGET_H
#define FOLIOT_BROKER_TARGET_TARGET_H

#include "broker/target/target_call.h"
#include "lib/io/loop.h"
#include "lib/rpc/rpc_client.h"

struct target_pool;

/*
 * 1. live is the number of attempts started here and not ended, gathering ones included, and never
 *    above live_max.
 * 2. What is in gathering has not been handed to the channel.
 */
struct target {
    struct target_pool *pool;
    char *authority; /* host:port; what the pool is sorted by */
    bool uses_tls;
    struct loop *loop;
    struct rpc_channel *channel;
    uint32_t live;
    uint32_t live_max;
    uint32_t batch_max;     /* attempts in one Deliver */
    struct list gathering;  /* struct delivery_call, oldest first */
    struct loop_task flush; /* hands over what has gathered, at the end of the turn */
    uint64_t used;          /* running number of the last start: the least was used longest ago */
};

#endif
