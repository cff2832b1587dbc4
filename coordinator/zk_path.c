/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of znodes.
 */
#include "coordinator/zk_path.h"

#include "lib/base/check.h"
#include "lib/base/err.h"

#include <stdio.h>
#include <string.h>

#define LOWER  "abcdefghijklmnopqrstuvwxyz"
#define UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"

static bool is_text_of(const char *text, const char *allowed, size_t len_max)
{
    size_t len = strspn(text, allowed);

    return len >= 1 && len <= len_max && text[len] == '\0';
}

/* One component, of `len` bytes. */
static bool is_component(const char *text, size_t len)
{
    bool is_dots = (len == 1 && text[0] == '.') || (len == 2 && text[0] == '.' && text[1] == '.');

    return len >= 1 && !is_dots && strspn(text, LOWER UPPER DIGITS "._-") >= len;
}

bool zk_path_is_root(const char *root)
{
    static const char reserved[] = "/zookeeper";
    const char *at = root;

    if (strlen(root) > ZK_ROOT_BYTES_MAX || root[0] != '/') {
        return false;
    }
    if (strncmp(root, reserved, sizeof(reserved) - 1) == 0 &&
        (root[sizeof(reserved) - 1] == '/' || root[sizeof(reserved) - 1] == '\0')) {
        return false;
    }
    while (*at == '/') {
        size_t len = strcspn(at + 1, "/");

        if (!is_component(at + 1, len)) {
            return false;
        }
        at += 1 + len;
    }
    return true;
}

bool zk_path_is_name(const char *name)
{
    return is_text_of(name, LOWER DIGITS "._-", NAME_BYTES_MAX) &&
           strchr(LOWER DIGITS, name[0]) != NULL;
}

bool zk_path_is_member_name(const char *name)
{
    return is_text_of(name, LOWER UPPER DIGITS "._:-[]", MEMBER_NAME_BYTES_MAX);
}

bool zk_path_is_instance(const char *instance)
{
    return is_text_of(instance, DIGITS "abcdef", INSTANCE_TEXT_LEN) &&
           strlen(instance) == INSTANCE_TEXT_LEN;
}

_Static_assert(SHARD_COUNT_MAX <= 10000, "shards are named by four digits");

/* The end of a shard's path, or of its owner's. */
struct shard_name {
    char text[sizeof("0000/owner")];
};

static struct shard_name shard_name(uint32_t shard)
{
    return (struct shard_name){{(char)('0' + shard / 1000), (char)('0' + shard / 100 % 10),
                                (char)('0' + shard / 10 % 10), (char)('0' + shard % 10)}};
}

static struct shard_name owner_name(uint32_t shard)
{
    struct shard_name name = shard_name(shard);

    memcpy(name.text + 4, "/owner", sizeof("/owner"));
    return name;
}

/*
 * Three texts in a row. Every path fits: ZK_PATH_SIZE is checked against the longest one when this
 * is compiled. By hand, since a broker that has been away names every shard again.
 */
static void join(struct zk_path *out, const char *a, const char *b, const char *c)
{
    const char *const parts[] = {a, b, c};
    size_t len = 0;

    for (size_t i = 0; i < ARRAY_COUNT(parts); i++) {
        size_t part_len = strlen(parts[i]);

        ENSURE(len + part_len < sizeof(out->text));
        memcpy(out->text + len, parts[i], part_len);
        len += part_len;
    }
    out->text[len] = '\0';
}

void zk_path_cluster(struct zk_path *out, const char *root, const char *name)
{
    REQUIRE(zk_path_is_root(root) && zk_path_is_name(name));
    join(out, root, "/", name);
}

void zk_path_brokers(struct zk_path *out, const struct zk_path *cluster)
{
    join(out, cluster->text, "/brokers", "");
}

void zk_path_broker(struct zk_path *out, const struct zk_path *cluster, const char *node_name)
{
    join(out, cluster->text, "/brokers/", node_name);
}

void zk_path_shards(struct zk_path *out, const struct zk_path *cluster)
{
    join(out, cluster->text, "/shards", "");
}

void zk_path_shard(struct zk_path *out, const struct zk_path *cluster, uint32_t shard)
{
    REQUIRE(shard < SHARD_COUNT_MAX);
    join(out, cluster->text, "/shards/", shard_name(shard).text);
}

void zk_path_owner(struct zk_path *out, const struct zk_path *cluster, uint32_t shard)
{
    REQUIRE(shard < SHARD_COUNT_MAX);
    join(out, cluster->text, "/shards/", owner_name(shard).text);
}

void zk_path_config(struct zk_path *out, const struct zk_path *cluster)
{
    join(out, cluster->text, "/config-version", "");
}

void zk_path_node_name(char *out, const char *name, const char *instance)
{
    int len;

    REQUIRE(zk_path_is_member_name(name) && zk_path_is_instance(instance));
    len = snprintf(out, ZK_NODE_NAME_SIZE, "%s@%s", name, instance);
    ENSURE(len > 0 && len < ZK_NODE_NAME_SIZE);
}

int zk_path_split_node_name(const char *node_name, char *name, char *instance)
{
    const char *at = strchr(node_name, '@');
    char found[MEMBER_NAME_BYTES_MAX + 1];

    if (at == NULL || (size_t)(at - node_name) >= sizeof(found)) {
        return ERR_INVALID;
    }
    memcpy(found, node_name, (size_t)(at - node_name));
    found[at - node_name] = '\0';
    if (!zk_path_is_member_name(found) || !zk_path_is_instance(at + 1)) {
        return ERR_INVALID;
    }
    memcpy(name, found, sizeof(found));
    memcpy(instance, at + 1, INSTANCE_TEXT_LEN + 1);
    return 0;
}

/* Four digits and "/owner": the only form that zk_path_owner() writes. */
static void parse_owner(const char *text, struct zk_path_parts *out)
{
    uint32_t shard = 0;

    if (strspn(text, DIGITS) != 4 || strcmp(text + 4, "/owner") != 0) {
        return;
    }
    for (int i = 0; i < 4; i++) {
        shard = shard * 10 + (uint32_t)(text[i] - '0');
    }
    if (shard < SHARD_COUNT_MAX) {
        out->kind = ZK_PATH_OWNER;
        out->shard = shard;
    }
}

/* What follows `prefix` in `text`, or NULL. */
static const char *after(const char *text, const char *prefix)
{
    size_t len = strlen(prefix);

    return strncmp(text, prefix, len) == 0 ? text + len : NULL;
}

void zk_path_parse(const struct zk_path *cluster, const char *path, struct zk_path_parts *out)
{
    const char *rest = after(path, cluster->text);
    const char *shard = rest == NULL ? NULL : after(rest, "/shards/");
    const char *broker = rest == NULL ? NULL : after(rest, "/brokers/");

    out->kind = ZK_PATH_OTHER;
    out->shard = 0;
    out->rest = NULL;
    if (rest == NULL) {
        return;
    }
    if (strcmp(rest, "/brokers") == 0) {
        out->kind = ZK_PATH_BROKERS;
    } else if (strcmp(rest, "/config-version") == 0) {
        out->kind = ZK_PATH_CONFIG;
    } else if (broker != NULL && *broker != '\0' && strchr(broker, '/') == NULL) {
        out->kind = ZK_PATH_BROKER;
        out->rest = broker;
    } else if (shard != NULL) {
        parse_owner(shard, out);
    }
}
