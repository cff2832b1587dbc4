/* SPDX-License-Identifier: Apache-2.0
 *
 * A store's reply reaches its core, or what a mutant makes of it. The callback is the core's own.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_STORE_REPLY_H
#define FOLIOT_TESTS_SIM_SIM_STORE_REPLY_H

#include "lib/base/prng.h"
#include "storage/store.h"

struct sim_node;

void sim_reply_batch(struct sim_node *node, struct store_batch *batch);

/* prng: whether a page ends before its limit, and says so. */
void sim_reply_read(struct sim_node *node, struct prng *prng, struct store_read *read);
void sim_reply_bump(struct sim_node *node, struct store_bump *bump);
void sim_reply_list(struct sim_node *node, struct store_queue_list *list);

#endif
