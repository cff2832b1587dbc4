/* SPDX-License-Identifier: Apache-2.0
 *
 * The queues of a run: which policy each of them has, by its number.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_QUEUES_H
#define FOLIOT_TESTS_SIM_SIM_QUEUES_H

#include "tests/sim/sim_load.h"

/* Attempts at once of a queue. Every fourth has as many as the options say, perhaps none, and now
 * and then, and for good when the faults are over, as many as the others. */
#define ROOM_USUAL                 2000
#define QUEUE_HAS_OWN_ROOM(number) ((number) % 4 == 3)

/* Make or change a queue at once, past all faults: as its number and changes of its policy say.
 * `load` may be one that `sim` does not have yet. */
void sim_queue_put(struct sim *sim, const struct sim_load *load, struct store *store,
                   uint32_t number, uint32_t room);

#endif
