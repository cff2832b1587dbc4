/* SPDX-License-Identifier: Apache-2.0
 *
 * The one door to the heap. Allocation is counted, and a hook can make the n-th one fail, so that
 * tests can walk every out-of-memory path.
 */
#ifndef FOLIOT_LIB_BASE_MEM_H
#define FOLIOT_LIB_BASE_MEM_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Asked before each allocation; false makes it fail. */
typedef bool (*mem_hook_fn)(size_t size, void *ctx);

/* Set or clear (NULL) the hook. For tests; one thread. */
void mem_set_hook(mem_hook_fn hook, void *ctx);

/* Allocate `count` zeroed elements of `size` bytes. NULL when out of memory. Freed by mem_free. */
MUST_USE void *mem_new(size_t count, size_t size);

/* Resize to `size` bytes, contents kept; NULL leaves the old block alone. New bytes are not zeroed.
 */
MUST_USE void *mem_resize(void *block, size_t size);

/* Copy `len` bytes and add a NUL behind them. NULL when out of memory. */
MUST_USE char *mem_copy(const void *bytes, size_t len);

/* Free; NULL is fine. */
void mem_free(void *block);

/* A huge page. */
#define MEM_HUGE_BYTES ((size_t)2 << 20)

/*
 * Allocate MEM_HUGE_BYTES zeroed bytes, aligned to as many: one huge page where the kernel has one
 * to give (transparent_hugepage `madvise` or `always`), small ones else. NULL when out of memory.
 * Freed by mem_free_huge. For memory that is read at random and soon full: it counts as a whole.
 */
MUST_USE void *mem_new_huge(void);

/* Free what mem_new_huge gave. */
void mem_free_huge(void *block);

/* Blocks now allocated and not freed, by all threads. */
int64_t mem_block_count(void);

/* Bytes now allocated, by the allocator's own usable sizes, by all threads. */
int64_t mem_byte_count(void);

#endif
