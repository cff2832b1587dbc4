/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting front of malloc. The only file that calls the malloc family.
 */
#include "lib/base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static mem_hook_fn mem_hook;
static void *mem_hook_ctx;
static atomic_int_fast64_t mem_blocks;
static atomic_int_fast64_t mem_bytes;

void mem_set_hook(mem_hook_fn hook, void *ctx)
{
    mem_hook = hook;
    mem_hook_ctx = ctx;
}

static void count(void *block, int64_t sign)
{
    atomic_fetch_add_explicit(&mem_blocks, sign, memory_order_relaxed);
    atomic_fetch_add_explicit(&mem_bytes, sign * (int64_t)malloc_usable_size(block),
                              memory_order_relaxed);
}

static bool allowed(size_t size)
{
    return mem_hook == NULL || mem_hook(size, mem_hook_ctx);
}

void *mem_new(size_t elements, size_t size)
{
    void *block;

    if (!allowed(size)) {
        return NULL;
    }
    block = calloc(elements == 0 ? 1 : elements, size == 0 ? 1 : size);
    if (block != NULL) {
        count(block, 1);
    }
    return block;
}

void *mem_resize(void *block, size_t size)
{
    int64_t before = block == NULL ? 0 : (int64_t)malloc_usable_size(block);
    void *moved;

    if (!allowed(size)) {
        return NULL;
    }
    moved = realloc(block, size == 0 ? 1 : size);
    if (moved == NULL) {
        return NULL;
    }
    if (block == NULL) {
        atomic_fetch_add_explicit(&mem_blocks, 1, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&mem_bytes, (int64_t)malloc_usable_size(moved) - before,
                              memory_order_relaxed);
    return moved;
}

char *mem_copy(const void *bytes, size_t len)
{
    char *copy = mem_new(len + 1, 1);

    if (copy != NULL && len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

void mem_free(void *block)
{
    if (block != NULL) {
        count(block, -1);
        free(block);
    }
}

int64_t mem_block_count(void)
{
    return atomic_load_explicit(&mem_blocks, memory_order_relaxed);
}

int64_t mem_byte_count(void)
{
    return atomic_load_explicit(&mem_bytes, memory_order_relaxed);
}
