/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a broker's answer to a part of a batch: each result lies in them, the walk ends, and
 * where the codec can read the whole it counts as many results.
 */
#include "client/lib/parts.h"

#include "lib/base/check.h"
#include "proto/codec_task.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {data, size};
    struct create_results results;
    struct slice result;
    struct arena arena;
    struct fault fault;
    bool is_bad = false;
    size_t count = 0;
    size_t at = 0;
    size_t end = 0;

    while (parts_next_result(bytes, &at, &result, &is_bad)) {
        REQUIRE(result.data >= data + end && result.len > 0);
        end = (size_t)(result.data - data) + result.len;
        REQUIRE(end <= size && at == end);
        count++;
    }
    arena_init(&arena, 0);
    if (codec_read_batch_reply(bytes, &arena, &results, &fault) == 0) {
        REQUIRE(!is_bad && results.count == count);
    }
    arena_fini(&arena);
    return 0;
}
