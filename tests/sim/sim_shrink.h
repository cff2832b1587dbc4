/* SPDX-License-Identifier: Apache-2.0
 *
 * Makes a failing run smaller: options go back, one after the other, to those of a quiet cluster,
 * as long as the same promise is broken.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_SHRINK_H
#define FOLIOT_TESTS_SIM_SIM_SHRINK_H

#include "tests/sim/sim_seed.h"

/*
 * Shrink.
 *
 * shape:  request has failed with `failed`; it is left with what is still needed set. Ends after
 *         limit_s seconds of real time at most, with the best so far.
 * return: runs that it took.
 */
uint32_t sim_shrink(struct sim_request *request, const struct sim_result *failed, uint32_t limit_s);

#endif
