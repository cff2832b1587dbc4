/* SPDX-License-Identifier: Apache-2.0
 *
 * What the framing of messages promises.
 */
#include "lib/base/mem.h"
#include "lib/rpc/grpc_gzip.h"
#include "lib/rpc/grpc_msg.h"

#include <criterion/criterion.h>

#include <string.h>

static enum rpc_status take(struct grpc_reader *reader, const char *bytes, size_t len)
{
    const char *why = NULL;
    enum rpc_status status =
        grpc_reader_take(reader, (struct slice){(const uint8_t *)bytes, len}, &why);

    cr_assert_eq(status != RPC_OK, why != NULL);
    return status;
}

static enum rpc_status end(const struct grpc_reader *reader)
{
    const char *why = NULL;

    return grpc_reader_end(reader, &why);
}

Test(grpc_msg, a_message_is_the_same_in_every_cut)
{
    static const char wire[] = "\0\0\0\0\5hello";

    for (size_t first = 0; first <= 10; first++) {
        for (size_t second = first; second <= 10; second++) {
            struct grpc_reader reader;

            grpc_reader_init(&reader, 5);
            cr_assert_eq(take(&reader, wire, first), RPC_OK);
            cr_assert_eq(take(&reader, wire + first, second - first), RPC_OK);
            cr_assert_eq(end(&reader), second == 10  ? RPC_OK
                                       : second == 0 ? RPC_UNIMPLEMENTED
                                                     : RPC_INTERNAL);
            cr_assert_eq(take(&reader, wire + second, 10 - second), RPC_OK);
            cr_assert_eq(end(&reader), RPC_OK);
            cr_assert(slice_equal(grpc_reader_message(&reader), slice_of("hello")));
            grpc_reader_fini(&reader);
        }
    }
}

Test(grpc_msg, an_empty_message_is_a_message)
{
    struct grpc_reader reader;

    grpc_reader_init(&reader, 0);
    cr_assert(grpc_reader_is_empty(&reader));
    cr_assert_eq(end(&reader), RPC_UNIMPLEMENTED);
    cr_assert_eq(take(&reader, "\0\0\0\0\0", 5), RPC_OK);
    cr_assert_eq(end(&reader), RPC_OK);
    cr_assert_eq(grpc_reader_message(&reader).len, 0);
    grpc_reader_fini(&reader);
}

Test(grpc_msg, a_second_message_is_refused)
{
    struct grpc_reader reader;

    grpc_reader_init(&reader, 100);
    cr_assert_eq(take(&reader, "\0\0\0\0\1a\0", 7), RPC_UNIMPLEMENTED);
    cr_assert_eq(take(&reader, "\0\0\0\1b", 5), RPC_OK, "the rest is dropped");
    grpc_reader_fini(&reader);
}

Test(grpc_msg, a_length_above_the_limit_is_refused_before_any_memory)
{
    struct grpc_reader reader;

    grpc_reader_init(&reader, 1000);
    cr_assert_eq(take(&reader, "\0\0\0\3\351", 5), RPC_RESOURCE_EXHAUSTED);
    cr_assert_eq(reader.body.capacity, 0);
    grpc_reader_fini(&reader);
    grpc_reader_init(&reader, (size_t)1 << 33);
    cr_assert_eq(take(&reader, "\0\377\377\377\377x", 6), RPC_OK);
    cr_assert_lt(reader.body.capacity, 1000, "a length alone allocates nothing");
    grpc_reader_fini(&reader);
}

Test(grpc_msg, compressed_and_unknown_flags_are_internal_errors)
{
    for (int flag = 1; flag <= 255; flag++) {
        struct grpc_reader reader;
        char wire[5] = {(char)flag, 0, 0, 0, 0};

        grpc_reader_init(&reader, 100);
        cr_assert_eq(take(&reader, wire, 5), RPC_INTERNAL);
        grpc_reader_fini(&reader);
    }
}

Test(grpc_msg, the_prefix_is_big_endian)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];

    grpc_write_prefix(prefix, 0x01020304, false);
    cr_assert_arr_eq(prefix, ((const uint8_t[]){0, 1, 2, 3, 4}), 5);
    grpc_write_prefix(prefix, 7, true);
    cr_assert_arr_eq(prefix, ((const uint8_t[]){1, 0, 0, 0, 7}), 5);
}

/* ---- streams ---- */

Test(grpc_msg, a_stream_is_the_same_messages_in_every_cut)
{
    static const char wire[] = "\0\0\0\0\2ab\0\0\0\0\0\0\0\0\0\1c";
    static const size_t lens[] = {2, 0, 1};

    for (size_t cut = 1; cut < sizeof(wire); cut++) {
        struct grpc_reader reader;
        const char *why = NULL;
        size_t count = 0;

        grpc_reader_init(&reader, 5);
        for (size_t at = 0; at < sizeof(wire) - 1; at += cut) {
            size_t left = sizeof(wire) - 1 - at;
            struct slice bytes = {(const uint8_t *)wire + at, left < cut ? left : cut};

            while (bytes.len > 0) {
                cr_assert_eq(grpc_reader_take_one(&reader, &bytes, &why), RPC_OK);
                if (reader.is_whole) {
                    cr_assert_lt(count, 3);
                    cr_assert_eq(grpc_reader_message(&reader).len, lens[count++]);
                    grpc_reader_next(&reader);
                }
            }
        }
        cr_assert_eq(count, 3);
        cr_assert(grpc_reader_is_empty(&reader));
        grpc_reader_fini(&reader);
    }
}

/* ---- compression ---- */

/* Frame `packed` as a compressed message and have it read with a limit of `max`. */
static enum rpc_status read_packed(struct grpc_reader *reader, struct slice packed, size_t max)
{
    uint8_t prefix[GRPC_PREFIX_BYTES];
    const char *why = NULL;
    enum rpc_status status;

    grpc_reader_init(reader, max);
    reader->encoding = GRPC_ENCODING_GZIP;
    grpc_write_prefix(prefix, packed.len, true);
    status = grpc_reader_take(reader, (struct slice){prefix, sizeof(prefix)}, &why);
    if (status == RPC_OK && packed.len > 0) {
        status = grpc_reader_take(reader, packed, &why);
    }
    return status == RPC_OK ? grpc_reader_end(reader, &why) : status;
}

static void pack(size_t len, struct buf *packed)
{
    uint8_t *bytes = mem_new(len, 1);

    buf_init(packed, len + 1000);
    for (size_t i = 0; i < len; i++) {
        bytes[i] = (uint8_t)(i / 1000);
    }
    cr_assert_eq(grpc_gzip_deflate((struct slice){bytes, len}, packed), 0);
    mem_free(bytes);
}

Test(grpc_msg, a_packed_message_is_unpacked_up_to_the_limit_and_not_beyond)
{
    static const size_t lens[] = {1, 1000, 16383, 16384, 16385, 100000};

    for (size_t i = 0; i < ARRAY_COUNT(lens); i++) {
        struct grpc_reader reader;
        struct buf packed;

        pack(lens[i], &packed);
        cr_assert_eq(read_packed(&reader, buf_slice(&packed), lens[i] + 100), RPC_OK);
        cr_assert_eq(grpc_reader_message(&reader).len, lens[i]);
        cr_assert_eq(grpc_reader_message(&reader).data[lens[i] - 1],
                     (uint8_t)((lens[i] - 1) / 1000));
        grpc_reader_fini(&reader);
        if (lens[i] >= 1000) { // The packed form of what is shorter is longer.
            cr_assert_eq(read_packed(&reader, buf_slice(&packed), lens[i]), RPC_OK);
            grpc_reader_fini(&reader);
            cr_assert_eq(read_packed(&reader, buf_slice(&packed), lens[i] - 1),
                         RPC_RESOURCE_EXHAUSTED);
            cr_assert_eq(reader.body.capacity, 0);
            grpc_reader_fini(&reader);
        }
        buf_fini(&packed);
    }
}

Test(grpc_msg, a_damaged_packed_message_is_an_internal_error)
{
    struct grpc_reader reader;
    struct buf packed;
    struct slice whole;

    pack(5000, &packed);
    whole = buf_slice(&packed);
    for (size_t len = 0; len < whole.len; len++) { // cut off anywhere
        cr_assert_eq(read_packed(&reader, (struct slice){whole.data, len}, 10000), RPC_INTERNAL);
        grpc_reader_fini(&reader);
    }
    cr_assert_eq(buf_append(&packed, "x", 1), 0); // something behind it
    cr_assert_eq(read_packed(&reader, buf_slice(&packed), 10000), RPC_INTERNAL);
    grpc_reader_fini(&reader);
    packed.data[packed.end - 3] ^= 1; // another length at its end
    packed.end--;
    cr_assert_eq(read_packed(&reader, buf_slice(&packed), 10000), RPC_INTERNAL);
    grpc_reader_fini(&reader);
    buf_fini(&packed);
    cr_assert_eq(mem_block_count(), 0);
}

Test(grpc_msg, gzip_is_found_in_every_list)
{
    static const char *const with[] = {"gzip", "identity,gzip", "identity, gzip , deflate"};
    static const char *const without[] = {"", ",", "identity", "gzipx,xgzip", "identity;gzip"};

    for (size_t i = 0; i < ARRAY_COUNT(with); i++) {
        cr_assert(grpc_accepts_gzip(slice_of(with[i])), "%s", with[i]);
    }
    for (size_t i = 0; i < ARRAY_COUNT(without); i++) {
        cr_assert_not(grpc_accepts_gzip(slice_of(without[i])), "%s", without[i]);
    }
}
