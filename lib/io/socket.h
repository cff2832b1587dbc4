/* SPDX-License-Identifier: Apache-2.0
 *
 * What every TCP socket of ours is set to.
 */
#ifndef FOLIOT_LIB_IO_SOCKET_H
#define FOLIOT_LIB_IO_SOCKET_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"

/* Sent bytes that are not acknowledged, or a peer that does not open its window, for this long end
 * the connection: a peer that vanished costs half a minute, not the kernel's quarter of an hour. */
#define SOCKET_USER_TIMEOUT_MS ((span_ms)30000)

/* Send small writes at once; bound how long a peer may leave ours unanswered. */
void socket_tune(int fd);

/* Our code for an errno of socket calls: ERR_EXISTS, ERR_DENIED, ERR_UNAVAILABLE, ERR_TIMEOUT,
 * ERR_INVALID, ERR_FULL (descriptors), ERR_IO. */
MUST_USE int socket_error(int number);

#endif
