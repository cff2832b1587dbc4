/* SPDX-License-Identifier: Apache-2.0
 *
 * The models, one a file or a few; README.md says what each is for.
 */
#ifndef FOLIOT_TESTS_MODEL_MODELS_H
#define FOLIOT_TESTS_MODEL_MODELS_H

#include "tests/model/explore.h"

/* Ownership, fencing, claims and calls of one shard and one task. */
extern const struct model model_own;

/* Two shards and two tasks in one batch. */
extern const struct model model_batch;

/* Pages of the loader beside writes, parks and short memory. */
extern const struct model model_load;

/* Tasks of one order key, across retries, cancels, updates and hand-over. */
extern const struct model model_order;

#endif
