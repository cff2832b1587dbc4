/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a configuration file: entries keep their bounds, nothing leaks, no crash.
 */
#include "lib/yaml/flat_yaml.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void on_entry(void *ctx, const struct flat_entry *entry)
{
    size_t *count = ctx;

    REQUIRE(strlen(entry->key) > 0 && strlen(entry->key) <= YAML_KEY_BYTES_MAX);
    REQUIRE(entry->item_count <= YAML_ITEM_COUNT_MAX);
    REQUIRE(entry->is_list || entry->item_count == 1);
    for (size_t i = 0; i < entry->item_count; i++) {
        REQUIRE(entry->items[i].len == 0 ||
                memchr(entry->items[i].data, 0, entry->items[i].len) == NULL);
    }
    (*count)++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();
    struct buf errors;
    size_t count = 0;
    int err;

    buf_init(&errors, 65536);
    err = flat_yaml_parse("f", (struct slice){data, size}, on_entry, &count, &errors);
    REQUIRE(count <= YAML_KEY_COUNT_MAX);
    REQUIRE((err == 0) == (buf_len(&errors) == 0));
    buf_fini(&errors);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
