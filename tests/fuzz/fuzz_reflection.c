/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a request of the reflection service, to our own descriptors and to any bytes as
 * descriptors: an answer is whole fields, within its limit, and holds the request.
 *
 * input: bit 0 of the first byte: the rest is the request; else its first half is the set.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/rpc/descriptors.h"
#include "lib/rpc/proto_wire.h"
#include "lib/rpc/rpc_reflection.h"
#include "proto/descriptor_set.h"

#define ANSWER_BYTES_MAX (1U << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has_service(const void *ctx, struct slice service)
{
    (void)ctx;
    return service.len % 2 == 0;
}

static void check_answer(struct slice answer, struct slice request)
{
    struct proto_field field;
    struct slice rest = answer;

    REQUIRE(slice_equal(proto_wire_find(answer, 2), request));
    while (rest.len > 0) {
        REQUIRE(proto_wire_next(&rest, &field) == 0);
        REQUIRE(field.type == PROTO_BYTES);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();
    struct slice set = descriptor_set();
    struct slice request;
    struct buf answer;

    if (size == 0) {
        return 0;
    }
    request = (struct slice){data + 1, size - 1};
    if ((data[0] & 1) == 0) {
        set = (struct slice){request.data, request.len / 2};
        request = (struct slice){request.data + set.len, request.len - set.len};
    }
    buf_init(&answer, ANSWER_BYTES_MAX);
    if (rpc_reflection_answer(set, request, has_service, NULL, &answer) == 0) {
        check_answer(buf_slice(&answer), request);
    }
    (void)descriptors_is_message(set, request);
    buf_fini(&answer);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
