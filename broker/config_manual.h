/* SPDX-License-Identifier: Apache-2.0
 *
 * What there is to read about the settings, written from their table: a page of the documents, and
 * the manual page of foliotd.
 */
#ifndef FOLIOT_BROKER_CONFIG_MANUAL_H
#define FOLIOT_BROKER_CONFIG_MANUAL_H

#include "lib/base/buf.h"

/* Append docs/CONFIGURATION.md. */
void config_reference(struct buf *out);

/* Append foliotd(8), in roff. */
void config_manual(struct buf *out, const char *version);

#endif
