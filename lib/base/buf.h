/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte buffer whose maximum is given at init, and a borrowed view of bytes. Appending is
 * sticky on failure: after the first one the buffer says so and takes no more.
 */
#ifndef FOLIOT_LIB_BASE_BUF_H
#define FOLIOT_LIB_BASE_BUF_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Borrowed bytes: valid as long as their owner says. data may be NULL when len is 0. */
struct slice {
    const uint8_t *data;
    size_t len; /* bytes */
};

/*
 * 1. start ≤ end ≤ capacity ≤ max. The bytes in use are data[start … end − 1].
 * 2. Once failed, the contents stay as they were before the append that failed.
 */
struct buf {
    uint8_t *data;
    size_t start;    /* first byte in use */
    size_t end;      /* one past the last byte in use */
    size_t capacity; /* bytes allocated */
    size_t max;      /* most bytes that may be in use; chosen by the owner */
    bool failed;     /* an append met max or the end of memory */
};

/* Start empty; nothing is allocated yet. */
void buf_init(struct buf *buf, size_t max);

/* Free the memory; the buffer is empty and usable again. */
void buf_fini(struct buf *buf);

/* Bytes in use. */
size_t buf_len(const struct buf *buf);

/* The bytes in use, borrowed until the next append, consume or fini. */
struct slice buf_slice(const struct buf *buf);

/* Drop all bytes and the failure mark, keep the memory. */
void buf_clear(struct buf *buf);

/* Append bytes. errors: ERR_TOO_LARGE above max, ERR_NO_MEMORY; both mark the buffer failed. */
int buf_append(struct buf *buf, const void *bytes, size_t len);

/* Append a NUL-terminated text without its NUL. errors: as buf_append. */
int buf_append_text(struct buf *buf, const char *text);

/* Append as printf does. errors: as buf_append. */
int buf_printf(struct buf *buf, const char *format, ...) PRINTF_LIKE(2, 3);

/* Make room for `len` more bytes and return where they go, or NULL; commit them by buf_commit. */
MUST_USE uint8_t *buf_reserve(struct buf *buf, size_t len);

/* Take `len` bytes, written where buf_reserve said, into use. */
void buf_commit(struct buf *buf, size_t len);

/* Drop the first `len` bytes in use. shape: len ≤ buf_len. */
void buf_consume(struct buf *buf, size_t len);

/* The contents as a NUL-terminated text, borrowed as buf_slice; "" when out of memory. */
const char *buf_text(struct buf *buf);

/* View of a NUL-terminated text, without its NUL. */
struct slice slice_of(const char *text);

/* Same length and same bytes. */
bool slice_equal(struct slice a, struct slice b);

#endif
