/* SPDX-License-Identifier: Apache-2.0
 *
 * The growing byte buffer.
 */
#include "lib/base/buf.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BUF_FIRST_BYTES 256U

void buf_init(struct buf *buf, size_t max)
{
    memset(buf, 0, sizeof(*buf));
    buf->max = max;
}

void buf_fini(struct buf *buf)
{
    mem_free(buf->data);
    buf_init(buf, buf->max);
}

size_t buf_len(const struct buf *buf)
{
    return buf->end - buf->start;
}

struct slice buf_slice(const struct buf *buf)
{
    if (buf->data == NULL) {
        return (struct slice){NULL, 0};
    }
    return (struct slice){buf->data + buf->start, buf_len(buf)};
}

void buf_clear(struct buf *buf)
{
    buf->start = 0;
    buf->end = 0;
    buf->failed = false;
}

/* Grow so that `needed` bytes fit, doubling, never above max + 1 (the NUL of buf_text). */
static int grow(struct buf *buf, size_t needed)
{
    size_t capacity = buf->capacity == 0 ? BUF_FIRST_BYTES : buf->capacity;
    uint8_t *data;

    while (capacity < needed) {
        capacity *= 2;
    }
    if (capacity > buf->max + 1) {
        capacity = buf->max + 1;
    }
    data = mem_resize(buf->data, capacity);
    if (data == NULL) {
        return ERR_NO_MEMORY;
    }
    buf->data = data;
    buf->capacity = capacity;
    return 0;
}

static int make_room(struct buf *buf, size_t len)
{
    size_t used = buf_len(buf);

    if (buf->failed || len > buf->max || used > buf->max - len) {
        buf->failed = true;
        return ERR_TOO_LARGE;
    }
    if (buf->capacity - buf->end >= len) {
        return 0;
    }
    if (buf->start > 0) { // Close the gap before asking for more memory.
        memmove(buf->data, buf->data + buf->start, used);
        buf->start = 0;
        buf->end = used;
    }
    if (buf->capacity - buf->end < len && grow(buf, used + len) != 0) {
        buf->failed = true;
        return ERR_NO_MEMORY;
    }
    return 0;
}

uint8_t *buf_reserve(struct buf *buf, size_t len)
{
    static uint8_t nothing;

    if (make_room(buf, len) != 0) {
        return NULL;
    }
    return buf->data == NULL ? &nothing : buf->data + buf->end;
}

void buf_commit(struct buf *buf, size_t len)
{
    REQUIRE(buf->capacity - buf->end >= len);
    buf->end += len;
}

int buf_append(struct buf *buf, const void *bytes, size_t len)
{
    int err = make_room(buf, len);

    if (err != 0) {
        return err;
    }
    if (len > 0) {
        memcpy(buf->data + buf->end, bytes, len);
        buf->end += len;
    }
    return 0;
}

int buf_append_text(struct buf *buf, const char *text)
{
    return buf_append(buf, text, strlen(text));
}

int buf_printf(struct buf *buf, const char *format, ...)
{
    char small[256];
    va_list args;
    int len;
    int err;

    va_start(args, format);
    len = vsnprintf(small, sizeof(small), format, args);
    va_end(args);
    if (len < 0) {
        buf->failed = true;
        return ERR_INVALID;
    }
    if ((size_t)len < sizeof(small)) {
        return buf_append(buf, small, (size_t)len);
    }
    err = make_room(buf, (size_t)len + 1);
    if (err != 0) {
        return err;
    }
    va_start(args, format);
    (void)vsnprintf((char *)buf->data + buf->end, (size_t)len + 1, format, args);
    va_end(args);
    buf->end += (size_t)len;
    return 0;
}

void buf_consume(struct buf *buf, size_t len)
{
    REQUIRE(len <= buf_len(buf));
    buf->start += len;
    if (buf->start == buf->end) {
        buf->start = 0;
        buf->end = 0;
    }
}

const char *buf_text(struct buf *buf)
{
    if (buf->start > 0) { // Room behind the bytes may be gone while room in front of them is not.
        memmove(buf->data, buf->data + buf->start, buf_len(buf));
        buf->end = buf_len(buf);
        buf->start = 0;
    }
    if (buf->end == buf->capacity && grow(buf, buf->end + 1) != 0) {
        return "";
    }
    buf->data[buf->end] = '\0';
    return (const char *)buf->data;
}

struct slice slice_of(const char *text)
{
    return (struct slice){(const uint8_t *)text, strlen(text)};
}

bool slice_equal(struct slice a, struct slice b)
{
    return a.len == b.len && (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
}
