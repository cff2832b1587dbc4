/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages of the command, written from its table: foliot(1), and one for each noun.
 */
#ifndef FOLIOT_CLIENT_CLI_MANUAL_H
#define FOLIOT_CLIENT_CLI_MANUAL_H

#include "lib/base/buf.h"

#include <stddef.h>

/* How many pages there are. */
size_t manual_count(void);

/* Append a page in roff; name is what its file is called, "foliot-task.1". */
void manual_write(size_t index, struct buf *out, char *name, size_t name_size);

#endif
