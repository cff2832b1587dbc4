/* SPDX-License-Identifier: Apache-2.0
 *
 * What must hold of settings beyond the type and range of each one, and the values that follow
 * from others. Private to the config files.
 */
#ifndef FOLIOT_BROKER_CONFIG_CHECK_H
#define FOLIOT_BROKER_CONFIG_CHECK_H

#include "broker/config.h"

/* Append one line per setting that is wrong. */
void config_check(const struct config *config, struct buf *errors);

/* Fill in name and advertised address where they were left empty. errors: ERR_NO_MEMORY. */
MUST_USE int config_derive(struct config *config);

#endif
