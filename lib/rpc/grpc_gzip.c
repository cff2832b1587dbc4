/* SPDX-License-Identifier: Apache-2.0
 *
 * zlib in one go for each message, with our memory and a bound on what comes out.
 */
#include "lib/rpc/grpc_gzip.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <zlib.h>

/* Largest window, and a gzip head instead of zlib's own. source: zlib.h, inflateInit2 */
#define GZIP_WINDOW_BITS (15 + 16)

/* Bytes asked of the buffer at a time. */
#define GZIP_STEP_BYTES ((size_t)16 << 10)

/* Memory of a packing context: a small one, for it is short-lived. */
#define GZIP_MEMORY_LEVEL 8

static void *allocate(void *opaque, uInt count, uInt size)
{
    (void)opaque;
    return mem_new(count, size);
}

static void release(void *opaque, void *block)
{
    (void)opaque;
    mem_free(block);
}

static z_stream stream_over(struct slice bytes)
{
    // The library does not write there; its pointer is not const for historical reasons only.
    return (z_stream){.zalloc = allocate,
                      .zfree = release,
                      .next_in = (Bytef *)(uintptr_t)bytes.data,
                      .avail_in = (uInt)bytes.len};
}

typedef int (*gzip_step_fn)(z_stream *stream, int flush);

/*
 * Run the stream until its end. At the buffer's maximum one byte aside tells a stream that is
 * complete from one that goes on.
 */
static int run(z_stream *stream, gzip_step_fn step, struct buf *out)
{
    for (;;) {
        size_t room = out->max - buf_len(out);
        size_t len = room < GZIP_STEP_BYTES ? room : GZIP_STEP_BYTES;
        uint8_t aside;
        uint8_t *space = len == 0 ? &aside : buf_reserve(out, len);
        int result;

        if (space == NULL) {
            return ERR_NO_MEMORY;
        }
        stream->next_out = space;
        stream->avail_out = len == 0 ? 1 : (uInt)len;
        result = step(stream, Z_FINISH);
        if (len == 0 && stream->avail_out == 0) {
            return ERR_TOO_LARGE;
        }
        buf_commit(out, len == 0 ? 0 : len - stream->avail_out);
        if (result == Z_STREAM_END) {
            return stream->avail_in == 0 ? 0 : ERR_PROTOCOL;
        }
        if (result == Z_MEM_ERROR) {
            return ERR_NO_MEMORY;
        }
        // With Z_FINISH a lack of room is reported as an error of the buffer.
        if ((result != Z_OK && result != Z_BUF_ERROR) || stream->avail_out > 0) {
            return ERR_PROTOCOL;
        }
    }
}

int grpc_gzip_inflate(struct slice packed, struct buf *out)
{
    z_stream stream = stream_over(packed);
    int err;

    REQUIRE(packed.len <= UINT32_MAX);
    if (packed.len == 0) {
        return ERR_PROTOCOL;
    }
    if (inflateInit2(&stream, GZIP_WINDOW_BITS) != Z_OK) {
        return ERR_NO_MEMORY;
    }
    err = run(&stream, inflate, out);
    (void)inflateEnd(&stream);
    return err;
}

int grpc_gzip_deflate(struct slice bytes, struct buf *out)
{
    z_stream stream = stream_over(bytes);
    int err;

    REQUIRE(bytes.len <= UINT32_MAX);
    if (deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW_BITS, GZIP_MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        return ERR_NO_MEMORY;
    }
    err = run(&stream, deflate, out);
    (void)deflateEnd(&stream);
    return err;
}
