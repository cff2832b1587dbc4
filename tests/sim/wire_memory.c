/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory by process. Each block has a head with a link; a kill frees what a process owns, whoever
 * points to it. nghttp2's memory is counted the same way.
 *
 * A release build keeps freed small blocks by size and gives them out again, the last one first: a
 * fifth of a long run was malloc. Other builds leave them to malloc, for the tools that watch it.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/wire.h"

#include <nghttp2/nghttp2.h>
#include <stdio.h>
#include <string.h>

/* Linked in place of the ones they are named after. */
void *wire_mem_new(size_t elements, size_t size) __asm__("__wrap_mem_new");
void *wire_mem_resize(void *block, size_t size) __asm__("__wrap_mem_resize");
char *wire_mem_copy(const void *bytes, size_t len) __asm__("__wrap_mem_copy");
void wire_mem_free(void *block) __asm__("__wrap_mem_free");
void *real_mem_new(size_t elements, size_t size) __asm__("__real_mem_new");
void *real_mem_resize(void *block, size_t size) __asm__("__real_mem_resize");
void real_mem_free(void *block) __asm__("__real_mem_free");
void wire_mem_set_hook(mem_hook_fn hook, void *ctx) __asm__("__wrap_mem_set_hook");
void real_mem_set_hook(mem_hook_fn hook, void *ctx) __asm__("__real_mem_set_hook");
int64_t wire_mem_block_count(void) __asm__("__wrap_mem_block_count");
int64_t real_mem_block_count(void) __asm__("__real_mem_block_count");
int wire_server_new(nghttp2_session **session, const nghttp2_session_callbacks *callbacks,
                    void *ctx,
                    const nghttp2_option *option) __asm__("__wrap_nghttp2_session_server_new2");
int wire_client_new(nghttp2_session **session, const nghttp2_session_callbacks *callbacks,
                    void *ctx,
                    const nghttp2_option *option) __asm__("__wrap_nghttp2_session_client_new2");
void wire_reset_limit(nghttp2_option *option, uint64_t burst,
                      uint64_t rate) __asm__("__wrap_nghttp2_option_set_stream_reset_rate_limit");

void real_reset_limit(nghttp2_option *option, uint64_t burst,
                      uint64_t rate) __asm__("__real_nghttp2_option_set_stream_reset_rate_limit");

/* Resets that no run comes near. */
#define RESET_BURST (UINT64_C(1) << 40)

/* Before each block. A multiple of 16 bytes. */
struct head {
    struct list link; /* in its process's blocks, or in none */
    size_t size;
    void *caller; /* who asked for it, for people with a debugger */
};

_Static_assert(sizeof(struct head) % 16 == 0, "blocks are aligned as malloc's");

static struct wire_proc *current;

/* ---- blocks that are kept ---- */

#ifdef SIM_KEEPS_BLOCKS
#define KEPT_BYTES_MAX 1024U
#else
#define KEPT_BYTES_MAX 0U
#endif

/* Small blocks are as large as their class: one for every so many bytes. */
#define CLASS_BYTES 16U

static struct {
    struct head *first[KEPT_BYTES_MAX / CLASS_BYTES + 1]; /* the others by link.next */
    int64_t count;
    mem_hook_fn hook; /* says whether there is memory, as it does behind mem_new() */
    void *ctx;
} kept;

static bool is_small(size_t bytes)
{
#ifdef SIM_KEEPS_BLOCKS
    return bytes > 0 && bytes <= KEPT_BYTES_MAX;
#else
    (void)bytes;
    return false;
#endif
}

static size_t class_of(size_t bytes)
{
    return (bytes + CLASS_BYTES - 1) / CLASS_BYTES;
}

/* What to ask of malloc, so that any block of the class fits in. */
static size_t room_of(size_t bytes)
{
    return sizeof(struct head) + (is_small(bytes) ? class_of(bytes) * CLASS_BYTES : bytes);
}

/* One of the class; NULL if there is to be no memory. shape: there is one. */
static struct head *take_kept(size_t bytes)
{
    struct head **first = &kept.first[class_of(bytes)];
    struct head *head = *first;

    if (kept.hook != NULL && !kept.hook(bytes, kept.ctx)) {
        return NULL;
    }
    *first = (struct head *)(void *)head->link.next;
    kept.count--;
    memset(head + 1, 0, bytes);
    return head;
}

static void keep(struct head *head)
{
    struct head **first = &kept.first[class_of(head->size)];

    head->link.next = (struct list *)(void *)*first;
    *first = head;
    kept.count++;
}

void wire_mem_set_hook(mem_hook_fn hook, void *ctx)
{
    kept.hook = hook;
    kept.ctx = ctx;
    real_mem_set_hook(hook, ctx);
}

int64_t wire_mem_block_count(void)
{
    return real_mem_block_count() - kept.count;
}

/* ---- owners ---- */

void wire_proc_init(struct wire_proc *proc, struct sim *sim, struct sim_node *node,
                    const char *host)
{
    memset(proc, 0, sizeof(*proc));
    proc->sim = sim;
    proc->node = node;
    list_init(&proc->blocks);
    (void)snprintf(proc->host, sizeof(proc->host), "%s", host);
    prng_init_named(&proc->prng, sim->options.seed, proc->host);
}

struct wire_visit wire_enter(struct wire_proc *proc)
{
    struct wire_visit former = {current, sim_owner};

    current = proc;
    sim_owner = &proc->blocks;
    return former;
}

void wire_leave(struct wire_visit former)
{
    current = former.proc;
    sim_owner = former.owner;
}

struct wire_proc *wire_current(void)
{
    REQUIRE(current != NULL);
    return current;
}

void wire_proc_forget(struct wire_proc *proc)
{
    struct list *link;

    while ((link = list_first(&proc->blocks)) != NULL) {
        wire_mem_free(LIST_ENTRY(link, struct head, link) + 1);
    }
}

size_t wire_proc_owned(const struct wire_proc *proc)
{
    size_t count = 0;

    list_foreach (link, &proc->blocks) {
        const struct head *head = LIST_ENTRY(link, struct head, link);

        if (count++ < 8) {
            TRACE(&proc->sim->trace, "owned", (int64_t)head->size);
        }
    }
    return count;
}

static void *give(struct head *head, size_t size, void *caller)
{
    list_init(&head->link);
    head->size = size;
    head->caller = caller;
    if (sim_owner != NULL) {
        list_add(sim_owner, &head->link);
    }
    return head + 1;
}

void *wire_mem_new(size_t elements, size_t size)
{
    size_t bytes;
    struct head *head;

    if (__builtin_mul_overflow(elements == 0 ? 1 : elements, size == 0 ? 1 : size, &bytes) ||
        bytes > SIZE_MAX / 2) {
        return NULL;
    }
    if (is_small(bytes) && kept.first[class_of(bytes)] != NULL) {
        head = take_kept(bytes);
    } else {
        head = real_mem_new(1, room_of(bytes));
    }
    return head == NULL ? NULL : give(head, bytes, __builtin_return_address(0));
}

void *wire_mem_resize(void *block, size_t size)
{
    struct head *head;
    struct list *before;
    bool is_owned;

    if (block == NULL) {
        head = real_mem_resize(NULL, room_of(size));
        return head == NULL ? NULL : give(head, size, __builtin_return_address(0));
    }
    head = (struct head *)block - 1;
    before = head->link.previous;
    is_owned = !list_is_empty(&head->link);
    list_del(&head->link);
    head = real_mem_resize(head, room_of(size));
    if (head == NULL) {
        head = (struct head *)block - 1;
        size = head->size;
        block = NULL;
    }
    list_init(&head->link);
    head->size = size;
    if (is_owned) {
        list_add_first(before, &head->link);
    }
    return block == NULL ? NULL : head + 1;
}

char *wire_mem_copy(const void *bytes, size_t len)
{
    char *copy = wire_mem_new(len + 1, 1);

    if (copy != NULL && len > 0) {
        memcpy(copy, bytes, len);
    }
    return copy;
}

void wire_mem_free(void *block)
{
    if (block != NULL) {
        struct head *head = (struct head *)block - 1;

        list_del(&head->link);
        if (is_small(head->size)) {
            keep(head);
        } else {
            real_mem_free(head);
        }
    }
}

/* ---- nghttp2 ---- */

static void *session_malloc(size_t size, void *ctx)
{
    (void)ctx;
    return wire_mem_new(1, size);
}

static void session_free(void *block, void *ctx)
{
    (void)ctx;
    wire_mem_free(block);
}

static void *session_calloc(size_t elements, size_t size, void *ctx)
{
    (void)ctx;
    return wire_mem_new(elements, size);
}

static void *session_realloc(void *block, size_t size, void *ctx)
{
    (void)ctx;
    return wire_mem_resize(block, size);
}

static nghttp2_mem session_memory = {.malloc = session_malloc,
                                     .free = session_free,
                                     .calloc = session_calloc,
                                     .realloc = session_realloc};

int wire_server_new(nghttp2_session **session, const nghttp2_session_callbacks *callbacks,
                    void *ctx, const nghttp2_option *option)
{
    return nghttp2_session_server_new3(session, callbacks, ctx, option, &session_memory);
}

int wire_client_new(nghttp2_session **session, const nghttp2_session_callbacks *callbacks,
                    void *ctx, const nghttp2_option *option)
{
    return nghttp2_session_client_new3(session, callbacks, ctx, option, &session_memory);
}

/* It counts by a clock of its own: out of reach, or two runs of a seed differ. */
void wire_reset_limit(nghttp2_option *option, uint64_t burst, uint64_t rate)
{
    (void)burst;
    real_reset_limit(option, RESET_BURST, rate);
}
