/* SPDX-License-Identifier: Apache-2.0
 *
 * Process-wide signal dispositions; signals as events are in lib/io/loop.h.
 */
#ifndef FOLIOT_LIB_IO_SIGNALS_H
#define FOLIOT_LIB_IO_SIGNALS_H

/*
 * Make a write to a closed socket an error instead of the end of the process.
 *
 * note: call first thing in main: our own sockets ask for it by flag, those of libraries do not.
 */
void signals_ignore_pipe(void);

#endif
