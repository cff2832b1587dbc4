/* SPDX-License-Identifier: Apache-2.0
 *
 * Which slot a queue and a key lie in. The same in every language and for ever: proto/README.md
 * has the rule and test vectors.
 */
#ifndef FOLIOT_PROTO_ROUTE_H
#define FOLIOT_PROTO_ROUTE_H

#include "lib/base/buf.h"

#include <stdint.h>

/* Seed of XXH64: the bytes of "foliot", read as a big-endian number. */
#define ROUTE_SEED UINT64_C(0x666f6c696f74)

/*
 * First slot of a queue: XXH64(namespace · NUL · name) mod SLOT_COUNT.
 *
 * shape: checked names, NUL-terminated. source: DESIGN 9
 */
uint16_t route_queue_slot(const char *tenant, const char *queue);

/*
 * Slot of a key in its queue: (first slot of the queue + XXH64(key) mod width) mod SLOT_COUNT. The
 * width of every queue is SLOT_COUNT for now.
 *
 * shape: key 1 … KEY_BYTES_MAX bytes.
 */
uint16_t route_key_slot(const char *tenant, const char *queue, struct slice key);

#endif
