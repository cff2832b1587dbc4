/* SPDX-License-Identifier: Apache-2.0
 *
 * What the framing of unary messages promises.
 */
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

    grpc_write_prefix(prefix, 0x01020304);
    cr_assert_arr_eq(prefix, ((const uint8_t[]){0, 1, 2, 3, 4}), 5);
}
