/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as JSON: what is read can be written, what is written reads as the same bytes on the
 * wire; what is refused has a reason; nothing leaks. The first byte chooses a method's request, or
 * the message that has every kind of field.
 */
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "proto/codec.h"
#include "proto/message.h"
#include "proto/protojson.h"
#include "proto/transcode.h"
#include "tests/fuzz/fuzz_memory.h"

#include <proto/kinds.pb-c.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const ProtobufCMessageDescriptor *choose(uint8_t choice)
{
    char path[TRANSCODE_PATH_BYTES];

    if (choice >= 128 || !transcode_path(choice, path)) {
        return &foliot__test__kinds__descriptor;
    }
    return transcode_find(slice_of(path))->input;
}

static void require_fault(const struct fault *fault)
{
    REQUIRE(fault->status == RPC_INVALID_ARGUMENT || fault->status == RPC_RESOURCE_EXHAUSTED);
    REQUIRE(fault->reason[0] != '\0' && fault->message[0] != '\0');
    REQUIRE(text_is_clean(slice_of(fault->message)) && text_is_clean(slice_of(fault->field)));
}

/* Wire to text; false if the decoder's own limits are met, which are other ones. */
static bool write_text(const ProtobufCMessageDescriptor *type, struct slice wire, struct buf *text)
{
    ProtobufCMessage *message;
    struct fault fault;
    struct arena arena;
    bool is_read;

    arena_init(&arena, 0);
    is_read = message_read(type, wire, &arena, &message, &fault) == 0;
    if (is_read) {
        is_read = protojson_write(message, text) == 0;
        REQUIRE_MEMORY(is_read);
    }
    arena_fini(&arena);
    return is_read;
}

static void try_text(const ProtobufCMessageDescriptor *type, struct slice text)
{
    struct fault fault;
    struct buf texts[2];
    struct buf wire;

    buf_init(&wire, RPC_MESSAGE_BYTES_MAX);
    buf_init(&texts[0], 4 * RPC_MESSAGE_BYTES_MAX);
    buf_init(&texts[1], 4 * RPC_MESSAGE_BYTES_MAX);
    if (protojson_read(type, text, &wire, &fault) != 0) {
        require_fault(&fault);
    } else if (write_text(type, buf_slice(&wire), &texts[0])) {
        buf_clear(&wire);
        REQUIRE_MEMORY(protojson_read(type, buf_slice(&texts[0]), &wire, &fault) == 0);
        REQUIRE_MEMORY(write_text(type, buf_slice(&wire), &texts[1]));
        REQUIRE_MEMORY(slice_equal(buf_slice(&texts[0]), buf_slice(&texts[1])));
    }
    buf_fini(&wire);
    buf_fini(&texts[0]);
    buf_fini(&texts[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();

    if (size > 0) {
        try_text(choose(data[0]), (struct slice){data + 1, size - 1});
    }
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
