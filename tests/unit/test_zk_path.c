/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of znodes are those of DESIGN 6, and nothing else is taken for one of ours.
 */
#include "coordinator/zk_path.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <string.h>

static struct zk_path cluster_path(void)
{
    struct zk_path path;

    zk_path_cluster(&path, "/foliot", "demo");
    return path;
}

Test(zk_path, builds_the_names_of_the_design)
{
    struct zk_path cluster = cluster_path();
    struct zk_path path;

    cr_assert_str_eq(cluster.text, "/foliot/demo");
    zk_path_shard(&path, &cluster, 7);
    cr_assert_str_eq(path.text, "/foliot/demo/shards/0007");
    zk_path_owner(&path, &cluster, 4095);
    cr_assert_str_eq(path.text, "/foliot/demo/shards/4095/owner");
    zk_path_broker(&path, &cluster, "b-1:7000@0123456789abcdef");
    cr_assert_str_eq(path.text, "/foliot/demo/brokers/b-1:7000@0123456789abcdef");
    zk_path_config(&path, &cluster);
    cr_assert_str_eq(path.text, "/foliot/demo/config-version");
}

Test(zk_path, the_longest_names_fit)
{
    char root[ZK_ROOT_BYTES_MAX + 1];
    char cluster_name[NAME_BYTES_MAX + 1];
    char name[MEMBER_NAME_BYTES_MAX + 1];
    char node_name[ZK_NODE_NAME_SIZE];
    struct zk_path cluster;
    struct zk_path path;

    memset(root, 'r', sizeof(root));
    root[0] = '/';
    root[ZK_ROOT_BYTES_MAX] = '\0';
    memset(cluster_name, 'c', sizeof(cluster_name));
    cluster_name[NAME_BYTES_MAX] = '\0';
    memset(name, 'N', sizeof(name));
    name[MEMBER_NAME_BYTES_MAX] = '\0';
    zk_path_cluster(&cluster, root, cluster_name);
    zk_path_node_name(node_name, name, "0123456789abcdef");
    zk_path_broker(&path, &cluster, node_name);
    cr_assert_eq(strlen(path.text), strlen(root) + 1 + NAME_BYTES_MAX + strlen("/brokers/") +
                                        MEMBER_NAME_BYTES_MAX + 1 + INSTANCE_TEXT_LEN);
}

Test(zk_path, a_root_is_absolute_and_plain)
{
    const char *const good[] = {"/foliot", "/a/b/c", "/.hidden", "/a..b", "/zookeepers", "/A-1_2"};
    const char *const bad[] = {"",           "/",    "foliot",  "/foliot/",  "//a",
                               "/a//b",      "/a/.", "/a/../b", "/a b",      "/a\"b",
                               "/zookeeper", "/.",   "/..",     "/\xc3\xa4", "/zookeeper/quota"};
    char long_root[ZK_ROOT_BYTES_MAX + 3];

    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert(zk_path_is_root(good[i]), "%s", good[i]);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_not(zk_path_is_root(bad[i]), "%s", bad[i]);
    }
    memset(long_root, 'x', sizeof(long_root));
    long_root[0] = '/';
    long_root[ZK_ROOT_BYTES_MAX] = '\0';
    cr_assert(zk_path_is_root(long_root));
    long_root[ZK_ROOT_BYTES_MAX] = 'x';
    long_root[ZK_ROOT_BYTES_MAX + 1] = '\0';
    cr_assert_not(zk_path_is_root(long_root));
}

Test(zk_path, names_are_checked)
{
    cr_assert(zk_path_is_name("db0"));
    cr_assert(zk_path_is_name("a.b_c-d"));
    cr_assert_not(zk_path_is_name(""));
    cr_assert_not(zk_path_is_name("..")); // A znode of that name cannot be.
    cr_assert_not(zk_path_is_name("Upper"));
    cr_assert_not(zk_path_is_name("a/b"));
    cr_assert(zk_path_is_member_name("broker-0.brokers.svc:7000"));
    cr_assert(zk_path_is_member_name("[::1]:7000"));
    cr_assert_not(zk_path_is_member_name("a@b"));
    cr_assert_not(zk_path_is_member_name("a/b"));
    cr_assert_not(zk_path_is_member_name("a\"b"));
    cr_assert_not(zk_path_is_member_name(""));
    cr_assert(zk_path_is_instance("0123456789abcdef"));
    cr_assert_not(zk_path_is_instance("0123456789ABCDEF"));
    cr_assert_not(zk_path_is_instance("0123456789abcde"));
    cr_assert_not(zk_path_is_instance("0123456789abcdef0"));
}

Test(zk_path, a_node_name_comes_apart_as_it_was_put_together)
{
    char node_name[ZK_NODE_NAME_SIZE];
    char name[MEMBER_NAME_BYTES_MAX + 1];
    char instance[INSTANCE_TEXT_LEN + 1];
    const char *const bad[] = {"",
                               "@",
                               "a@",
                               "a",
                               "a@b@0123456789abcdef",
                               "@0123456789abcdef",
                               "a@0123456789abcdeg",
                               "a@0123456789abcdef0"};

    zk_path_node_name(node_name, "host:1", "00000000000000ff");
    cr_assert_eq(zk_path_split_node_name(node_name, name, instance), 0);
    cr_assert_str_eq(name, "host:1");
    cr_assert_str_eq(instance, "00000000000000ff");
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(zk_path_split_node_name(bad[i], name, instance), ERR_INVALID, "%s", bad[i]);
    }
}

Test(zk_path, an_event_is_told_by_its_path)
{
    const struct {
        const char *path;
        enum zk_path_kind kind;
        uint32_t shard;
    } rows[] = {
        {"/foliot/demo/brokers", ZK_PATH_BROKERS, 0},
        {"/foliot/demo/brokers/x@1", ZK_PATH_BROKER, 0},
        {"/foliot/demo/brokers/", ZK_PATH_OTHER, 0},
        {"/foliot/demo/brokers/x/y", ZK_PATH_OTHER, 0},
        {"/foliot/demo/config-version", ZK_PATH_CONFIG, 0},
        {"/foliot/demo/shards/0007/owner", ZK_PATH_OWNER, 7},
        {"/foliot/demo/shards/4095/owner", ZK_PATH_OWNER, 4095},
        {"/foliot/demo/shards/4096/owner", ZK_PATH_OTHER, 0},
        {"/foliot/demo/shards/007/owner", ZK_PATH_OTHER, 0},
        {"/foliot/demo/shards/00007/owner", ZK_PATH_OTHER, 0},
        {"/foliot/demo/shards/0007", ZK_PATH_OTHER, 0},
        {"/foliot/demo/shards/0007/owner/x", ZK_PATH_OTHER, 0},
        {"/foliot/demo", ZK_PATH_OTHER, 0},
        {"/foliot/demo2/brokers", ZK_PATH_OTHER, 0},
        {"/foliot/other/brokers", ZK_PATH_OTHER, 0},
        {"", ZK_PATH_OTHER, 0},
    };
    struct zk_path cluster = cluster_path();

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zk_path_parts parts;

        zk_path_parse(&cluster, rows[i].path, &parts);
        cr_assert_eq(parts.kind, rows[i].kind, "%s", rows[i].path);
        cr_assert_eq(parts.shard, rows[i].shard, "%s", rows[i].path);
    }
}
