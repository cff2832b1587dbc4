/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a task id, a target, an address, a pattern of addresses, or a command line: what is
 * accepted is in range and is written as it was read.
 */
#include "broker/config.h"
#include "client/cli/args.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/address.h"
#include "lib/model/queue.h"
#include "lib/model/task.h"
#include "lib/rpc/rpc_target.h"

#include <string.h>

#define WORD_COUNT_MAX 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_task_id(struct slice text)
{
    char again[TASK_ID_TEXT_LEN + 1];
    struct task_id id;

    if (task_id_parse(text, &id) == 0) {
        REQUIRE(id.slot < SLOT_COUNT && id.seq > 0);
        task_id_format(id, again);
        REQUIRE(slice_equal(slice_of(again), text));
    }
}

/* Where a queue may send to can be dialled. */
static void try_target(const char *text)
{
    struct target_address target;
    struct rpc_target dialled;
    char errmsg[512] = "";
    char *authority;

    if (target_parse(text, &target, errmsg, sizeof(errmsg)) != 0) {
        REQUIRE(errmsg[0] != '\0');
        return;
    }
    REQUIRE(target.kind == TARGET_GRPC_METHOD ? target.path.len > 3 : target.path.len < 2);
    REQUIRE(target.path.len == 0 || target.path.data[0] == '/');
    authority = mem_copy(target.authority.data, target.authority.len);
    if (authority != NULL) {
        REQUIRE(rpc_target_parse(authority, &dialled) == 0);
        REQUIRE(dialled.port > 0 && strlen(dialled.host) > 0);
    }
    mem_free(authority);
}

static void try_address(const char *text)
{
    struct address address;
    struct address again;
    char written[ADDRESS_TEXT_BYTES];
    char host[256];
    uint16_t port = 0;

    if (config_split_address(text, host, sizeof(host), &port) == 0) {
        REQUIRE(host[0] != '\0');
        text = host;
    }
    if (address_parse(text, port, &address) == 0) {
        address_format(&address, written);
        REQUIRE(config_split_address(written, host, sizeof(host), &port) == 0);
        REQUIRE(address_parse(host, port, &again) == 0 && address_equal(&address, &again));
    }
}

/* The first line is a pattern, the rest what it is held against. */
static void try_pattern(const char *text)
{
    char pattern[256];
    size_t len = strcspn(text, "\n");

    if (len < sizeof(pattern)) {
        memcpy(pattern, text, len);
        pattern[len] = '\0';
        text += len + (text[len] == '\n');
        if (config_pattern_matches(pattern, slice_of(text)) && strchr(pattern, '*') == NULL) {
            REQUIRE(strcmp(pattern, text) == 0);
        }
        REQUIRE(config_pattern_matches("*", slice_of(text)));
    }
}

static void try_args(char *text)
{
    static const struct cli_option own[] = {{"queue", 'q', "NAME", ""}, {"keyed", 0, NULL, ""}};
    static const struct cli_option common[] = {{"server", 's', "ADDRESS", ""}};
    static const struct args_tables tables = {
        .groups = {{"options", own, ARRAY_COUNT(own)}, {"common", common, ARRAY_COUNT(common)}},
        .count = 2};
    static struct args args;
    char *words[WORD_COUNT_MAX];
    char errmsg[512] = "";
    int count = 0;

    for (char *word = text; word != NULL && count < WORD_COUNT_MAX; count++) {
        words[count] = word;
        word = strchr(word, '\n');
        if (word != NULL) {
            *word++ = '\0';
        }
    }
    if (args_parse(&tables, count, words, &args, errmsg, sizeof(errmsg)) != 0) {
        REQUIRE(errmsg[0] != '\0');
        return;
    }
    REQUIRE(args.item_count + args.operand_count <= WORD_COUNT_MAX);
    for (size_t i = 0; i < args.item_count; i++) {
        REQUIRE(args_has(&args, args.items[i].name) && args.items[i].value != NULL);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();
    char *copy = mem_copy(data, size);

    if (copy == NULL) {
        return 0;
    }
    try_task_id((struct slice){data, size});
    try_target(copy);
    try_address(copy);
    try_pattern(copy);
    try_args(copy);
    mem_free(copy);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
