/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as each kind of header text: what is accepted is in range and survives a round trip.
 */
#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_fields.h"
#include "lib/rpc/rpc_target.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_timeout(struct slice text)
{
    char again[GRPC_TIMEOUT_BYTES];
    int64_t us = -1;
    int64_t back = -1;

    if (grpc_timeout_parse(text, &us) == 0) {
        REQUIRE(us >= 0);
        grpc_timeout_format(us, again);
        REQUIRE(grpc_timeout_parse(slice_of(again), &back) == 0);
        REQUIRE(back <= us || us == 0);
    }
}

static void try_percent(struct slice text)
{
    struct buf decoded;
    struct buf encoded;
    struct buf again;

    buf_init(&decoded, text.len);
    buf_init(&encoded, text.len * 3);
    buf_init(&again, text.len);
    REQUIRE(grpc_percent_decode(text, &decoded) == 0);
    REQUIRE(grpc_percent_encode(buf_slice(&decoded), &encoded) == 0);
    REQUIRE(grpc_percent_decode(buf_slice(&encoded), &again) == 0);
    REQUIRE(buf_len(&again) <= buf_len(&decoded));
    if (buf_len(&decoded) <= GRPC_MESSAGE_BYTES_MAX) {
        REQUIRE(slice_equal(buf_slice(&again), buf_slice(&decoded)));
    }
    buf_fini(&decoded);
    buf_fini(&encoded);
    buf_fini(&again);
}

static void try_base64(struct slice text)
{
    struct buf bytes;
    struct buf again;

    buf_init(&bytes, text.len);
    buf_init(&again, text.len + 4);
    if (base64_decode(text, &bytes) == 0) {
        REQUIRE(base64_encode(buf_slice(&bytes), false, &again) == 0);
        REQUIRE(buf_len(&again) <= text.len);
    }
    buf_fini(&bytes);
    buf_fini(&again);
}

static void try_texts(struct slice text)
{
    struct rpc_fields fields;
    int64_t number;

    REQUIRE(grpc_status_parse(text) >= RPC_OK && grpc_status_parse(text) <= RPC_UNAUTHENTICATED);
    if (grpc_number_parse(text, &number) == 0) {
        REQUIRE(text.len > 0);
    }
    if (grpc_is_path(text)) {
        REQUIRE(grpc_path_service(text).len > 0);
    }
    (void)grpc_is_content_type(text);
    (void)grpc_is_metadata_name(text);
    (void)grpc_is_metadata_value(text);
    rpc_fields_init(&fields, 4096);
    if (rpc_fields_add(&fields, slice_of("x-bin"), text) == 0) {
        REQUIRE(rpc_fields_find(&fields, slice_of("x-bin")).data != NULL);
    }
    rpc_fields_fini(&fields);
}

static void try_target(struct slice text)
{
    char *copy = mem_copy(text.data, text.len);
    struct rpc_target target;

    if (copy != NULL && rpc_target_parse(copy, &target) == 0) {
        REQUIRE(target.port > 0 && strlen(target.host) > 0);
        REQUIRE(strlen(target.authority) < sizeof(target.authority));
    }
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {data, size};
    int64_t blocks = mem_block_count();

    try_timeout(text);
    try_percent(text);
    try_base64(text);
    try_texts(text);
    try_target(text);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
