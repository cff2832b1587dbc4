/* SPDX-License-Identifier: Apache-2.0
 *
 * Random bytes from the kernel: seeds, instance ids, jitter.
 */
#ifndef FOLIOT_LIB_IO_ENTROPY_H
#define FOLIOT_LIB_IO_ENTROPY_H

#include <stddef.h>
#include <stdint.h>

/* Fill `len` bytes. Any thread. Cannot fail on a Linux that has booted; a kernel that refuses stops
 * the process. */
void entropy_fill(void *bytes, size_t len);

/* 64 random bits. */
uint64_t entropy_u64(void);

/* Digits of a name that nobody else has: 128 random bits in hex. */
#define ENTROPY_NAME_LEN 32

/* Write one, and a NUL. shape: ENTROPY_NAME_LEN + 1 bytes. */
void entropy_name(char *out);

#endif
