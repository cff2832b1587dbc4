/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as the body or the path of a znode: what is accepted is within its bounds and is the
 * same after it has been written and read again; nothing leaks, no crash.
 */
#include "coordinator/zk_body.h"

#include "coordinator/zk_path.h"
#include "lib/base/check.h"
#include "lib/base/mem.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"db0", "db1"};
static const struct coord_zk_databases databases = {.names = names, .count = 2};

static const char node_name[] = "b@0123456789abcdef";

static void read_cluster(struct slice text)
{
    struct zk_cluster_body body;
    struct zk_cluster_body again;
    struct buf out;

    if (zk_body_read_cluster(text, &body) != 0) {
        return;
    }
    REQUIRE(body.shard_count >= 1 && body.shard_count <= SHARD_COUNT_MAX);
    REQUIRE(body.base >= 0 && body.base <= GENERATION_MAX);
    buf_init(&out, ZK_BODY_BYTES_MAX);
    zk_body_write_cluster(&out, &body);
    REQUIRE(zk_body_read_cluster(buf_slice(&out), &again) == 0);
    REQUIRE(strcmp(again.id, body.id) == 0 && again.base == body.base);
    buf_fini(&out);
}

static void read_owner(struct slice text)
{
    struct zk_owner_body body;
    struct zk_owner_body again;
    struct buf out;

    if (zk_body_read_owner(text, &body) != 0) {
        return;
    }
    buf_init(&out, ZK_BODY_BYTES_MAX);
    zk_body_write_owner(&out, &body);
    REQUIRE(zk_body_read_owner(buf_slice(&out), &again) == 0);
    REQUIRE(again.epoch == body.epoch && again.state == body.state);
    buf_fini(&out);
}

static void read_member(struct slice text)
{
    struct member member;
    struct member again;
    struct buf out;

    if (zk_body_read_member(text, node_name, &databases, &member) != 0) {
        return;
    }
    REQUIRE(member.cannot < 4);
    buf_init(&out, ZK_BODY_BYTES_MAX);
    zk_body_write_member(&out, &member, &databases);
    REQUIRE(zk_body_read_member(buf_slice(&out), node_name, &databases, &again) == 0);
    REQUIRE(strcmp(again.grpc, member.grpc) == 0 && strcmp(again.version, member.version) == 0);
    REQUIRE(memcmp(&again.owns, &member.owns, sizeof(member.owns)) == 0);
    buf_fini(&out);
}

static void read_texts(struct slice text)
{
    char *copy = mem_copy(text.data, text.len);
    char name[MEMBER_NAME_BYTES_MAX + 1];
    char instance[INSTANCE_TEXT_LEN + 1];
    struct zk_path cluster;
    struct zk_path_parts parts;
    struct shard_set set;

    REQUIRE(copy != NULL);
    if (zk_path_is_root(copy)) {
        zk_path_cluster(&cluster, copy, "demo");
    }
    zk_path_cluster(&cluster, "/foliot", "demo");
    zk_path_parse(&cluster, copy, &parts);
    REQUIRE(parts.shard < SHARD_COUNT_MAX);
    if (zk_path_split_node_name(copy, name, instance) == 0) {
        char back[ZK_NODE_NAME_SIZE];

        zk_path_node_name(back, name, instance);
        REQUIRE(strcmp(back, copy) == 0);
    }
    (void)!zk_body_read_set(copy, &set);
    mem_free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t blocks = mem_block_count();
    struct slice text = {data, size};
    char database[NAME_BYTES_MAX + 1];

    read_cluster(text);
    read_owner(text);
    read_member(text);
    read_texts(text);
    if (zk_body_read_shard(text, database) == 0) {
        REQUIRE(zk_path_is_name(database));
    }
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
