/* SPDX-License-Identifier: Apache-2.0
 *
 * Counting front of malloc. The only file that calls the malloc family.
 */
#include "lib/base/mem.h"

#include <malloc.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Blocks above this are calloc's, which knows which pages are zero already. Below it calloc takes
 * the slow way: up to glibc 2.40 it leaves the cache of the thread alone, malloc does not. */
#define CLEARED_BYTES_MAX 4096U

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

static void *zeroed(size_t elements, size_t size)
{
    size_t bytes;
    void *block;

    if (__builtin_mul_overflow(elements, size, &bytes) || bytes > CLEARED_BYTES_MAX) {
        return calloc(elements, size);
    }
    block = malloc(bytes);
    if (block != NULL) {
        memset(block, 0, bytes);
    }
    return block;
}

void *mem_new(size_t elements, size_t size)
{
    void *block;

    if (!allowed(size)) {
        return NULL;
    }
    block = zeroed(elements == 0 ? 1 : elements, size == 0 ? 1 : size);
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

static void count_huge(int64_t sign)
{
    atomic_fetch_add_explicit(&mem_blocks, sign, memory_order_relaxed);
    atomic_fetch_add_explicit(&mem_bytes, sign * (int64_t)MEM_HUGE_BYTES, memory_order_relaxed);
}

void *mem_new_huge(void)
{
    char *space;
    char *block;

    if (!allowed(MEM_HUGE_BYTES)) {
        return NULL;
    }
    space =
        mmap(NULL, 2 * MEM_HUGE_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (space == MAP_FAILED) {
        return NULL;
    }
    block = space + (-(uintptr_t)space & (MEM_HUGE_BYTES - 1)); // What is around it goes back.
    if (block > space) {
        (void)munmap(space, (size_t)(block - space));
    }
    (void)munmap(block + MEM_HUGE_BYTES, (size_t)(space + MEM_HUGE_BYTES - block));
    (void)madvise(block, MEM_HUGE_BYTES, MADV_HUGEPAGE); // A kernel without them: small pages.
    count_huge(1);
    return block;
}

void mem_free_huge(void *block)
{
    count_huge(-1);
    (void)munmap(block, MEM_HUGE_BYTES);
}

int64_t mem_block_count(void)
{
    return atomic_load_explicit(&mem_blocks, memory_order_relaxed);
}

int64_t mem_byte_count(void)
{
    return atomic_load_explicit(&mem_bytes, memory_order_relaxed);
}
