/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as gRPC messages in any cut, packed or not: the verdict does not depend on the cut, and
 * nothing is kept beyond the limit.
 *
 * input: bit 7 of the first byte: grpc-encoding is gzip; its lower bits: the cut.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/rpc/grpc_msg.h"
#include "tests/fuzz/fuzz_memory.h"

#define MESSAGE_BYTES_MAX 1000U

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Feed all bytes in pieces of `step`; the first verdict that is not OK, or that of the end. */
static enum rpc_status feed(struct grpc_reader *reader, struct slice bytes, size_t step)
{
    const char *why = NULL;

    while (bytes.len > 0) {
        size_t len = bytes.len < step ? bytes.len : step;
        enum rpc_status status = grpc_reader_take(reader, (struct slice){bytes.data, len}, &why);

        if (status != RPC_OK) {
            REQUIRE(why != NULL);
            return status;
        }
        bytes = (struct slice){bytes.data + len, bytes.len - len};
    }
    return grpc_reader_end(reader, &why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();
    struct grpc_reader whole;
    struct grpc_reader cut;
    enum rpc_status status;

    if (size == 0) {
        return 0;
    }
    grpc_reader_init(&whole, MESSAGE_BYTES_MAX);
    grpc_reader_init(&cut, MESSAGE_BYTES_MAX);
    whole.encoding = cut.encoding =
        (data[0] & 0x80) == 0 ? GRPC_ENCODING_IDENTITY : GRPC_ENCODING_GZIP;
    status = feed(&whole, (struct slice){data + 1, size - 1}, size);
    if (feed(&cut, (struct slice){data + 1, size - 1}, 1U + data[0] % 16U) != status) {
        REQUIRE(fuzz_lacks_memory);
    } else if (status == RPC_OK) {
        REQUIRE(data[1] != 0 || grpc_reader_message(&whole).len == size - 1 - GRPC_PREFIX_BYTES);
        REQUIRE(grpc_reader_message(&whole).len <= MESSAGE_BYTES_MAX);
        REQUIRE(slice_equal(grpc_reader_message(&whole), grpc_reader_message(&cut)));
    }
    grpc_reader_fini(&whole);
    grpc_reader_fini(&cut);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
