/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of znodes: what is written is what DESIGN 6 shows and is read back the same; what others
 * wrote is checked field by field.
 */
#include "coordinator/zk_body.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const char *const names[] = {"db0", "db1"};
static const struct coord_zk_databases databases = {.names = names, .count = 2};

static struct buf text;

static void start(void)
{
    buf_init(&text, ZK_BODY_BYTES_MAX);
}

static void finish(void)
{
    buf_fini(&text);
    cr_assert_eq(mem_block_count(), 0);
}

TestSuite(zk_body, .init = start, .fini = finish);

static struct member sample(void)
{
    struct member member = {
        .name = "b-1:7000",
        .instance = "0123456789abcdef",
        .grpc = "10.0.0.1:7000",
        .admin = "127.0.0.1:7001",
        .version = "0.1.0",
        .started_ms = 1700000000123,
        .cannot = 2,
        .config = 17,
    };

    for (uint32_t shard = 0; shard <= 3; shard++) {
        shard_set_add(&member.owns, shard);
    }
    shard_set_add(&member.owns, 9);
    return member;
}

Test(zk_body, is_written_as_the_design_shows)
{
    struct member member = sample();

    zk_body_write_cluster(
        &text, &(struct zk_cluster_body){.id = "c-1", .format = 1, .shard_count = 128, .base = 0});
    cr_assert_str_eq(
        buf_text(&text),
        "{\"cluster_id\":\"c-1\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":0}");
    buf_clear(&text);
    zk_body_write_shard(&text, "db0");
    cr_assert_str_eq(buf_text(&text), "{\"database\":\"db0\"}");
    buf_clear(&text);
    zk_body_write_owner(&text, &(struct zk_owner_body){.broker = "b-1:7000",
                                                       .instance = "0123456789abcdef",
                                                       .epoch = 769,
                                                       .state = COORD_ACTIVE,
                                                       .since_ms = 5});
    cr_assert_str_eq(buf_text(&text), "{\"broker\":\"b-1:7000\",\"instance\":\"0123456789abcdef\","
                                      "\"epoch\":769,\"state\":\"active\",\"since\":5}");
    buf_clear(&text);
    zk_body_write_member(&text, &member, &databases);
    cr_assert_str_eq(
        buf_text(&text),
        "{\"name\":\"b-1:7000\",\"grpc\":\"10.0.0.1:7000\",\"admin\":\"127.0.0.1:7001\","
        "\"version\":\"0.1.0\",\"started\":1700000000123,\"owns\":\"0-3,9\",\"cannot\":[\"db1\"],"
        "\"config\":17}");
}

Test(zk_body, a_member_comes_back_the_same)
{
    struct member member = sample();
    struct member back;
    struct buf again;

    (void)snprintf(member.version, sizeof(member.version), "1\"\\\x01\n\x7f\xc3\xa4");
    zk_body_write_member(&text, &member, &databases);
    cr_assert_not(text.failed);
    memset(&back, 0xff, sizeof(back));
    cr_assert_eq(
        zk_body_read_member(buf_slice(&text), "b-1:7000@0123456789abcdef", &databases, &back), 0);
    cr_assert_str_eq(back.instance, member.instance);
    buf_init(&again, ZK_BODY_BYTES_MAX);
    zk_body_write_member(&again, &back, &databases);
    cr_assert(slice_equal(buf_slice(&again), buf_slice(&text)));
    buf_fini(&again);
}

Test(zk_body, a_member_of_the_largest_size_fits)
{
    struct member member;
    struct member back;
    char node_name[MEMBER_NAME_BYTES_MAX + 1 + INSTANCE_TEXT_LEN + 1];

    memset(&member, 0, sizeof(member));
    memset(member.name, 'n', sizeof(member.name) - 1);
    memset(member.instance, '0', sizeof(member.instance) - 1);
    memset(member.grpc, 1, sizeof(member.grpc) - 1); // Six bytes each when written.
    memset(member.admin, 1, sizeof(member.admin) - 1);
    memset(member.version, 1, sizeof(member.version) - 1);
    for (uint32_t shard = 0; shard < SHARD_COUNT_MAX; shard += 2) { // The longest list of ranges.
        shard_set_add(&member.owns, shard);
    }
    zk_body_write_member(&text, &member, &databases);
    cr_assert_not(text.failed);
    (void)snprintf(node_name, sizeof(node_name), "%s@%s", member.name, member.instance);
    cr_assert_eq(zk_body_read_member(buf_slice(&text), node_name, &databases, &back), 0);
    cr_assert_str_eq(back.name, member.name);
    cr_assert_str_eq(back.instance, member.instance);
    cr_assert_str_eq(back.grpc, member.grpc);
    cr_assert_str_eq(back.admin, member.admin);
    cr_assert_str_eq(back.version, member.version);
    cr_assert_eq(memcmp(&back.owns, &member.owns, sizeof(back.owns)), 0);
}

Test(zk_body, an_unknown_database_in_cannot_is_left_out)
{
    static const char body[] =
        "{\"name\":\"a\",\"grpc\":\"\",\"admin\":\"\",\"version\":\"\",\"started\":0,\"owns\":\"\","
        "\"cannot\":[\"db9\",\"db0\"],\"config\":0,\"later\":{\"fields\":[1]}}";
    struct member member;

    cr_assert_eq(zk_body_read_member(slice_of(body), "a@0123456789abcdef", &databases, &member), 0);
    cr_assert_eq(member.cannot, 1);
}

Test(zk_body, a_member_must_agree_with_its_name)
{
    struct member member = sample();
    struct member back;

    zk_body_write_member(&text, &member, &databases);
    cr_assert_eq(
        zk_body_read_member(buf_slice(&text), "b-2:7000@0123456789abcdef", &databases, &back),
        ERR_INVALID);
    cr_assert_eq(zk_body_read_member(buf_slice(&text), "b-1:7000", &databases, &back), ERR_INVALID);
}

Test(zk_body, every_missing_or_mistyped_field_is_refused)
{
    const char *const fields[] = {
        "\"name\":\"a\"", "\"grpc\":\"\"", "\"admin\":\"\"", "\"version\":\"\"",
        "\"started\":0",  "\"owns\":\"\"", "\"cannot\":[]",  "\"config\":0",
    };
    const char *const wrong[] = {"null", "true", "{}", "1.5", "-1", "99999999999999999999", "[1]"};
    const size_t count = sizeof(fields) / sizeof(fields[0]);
    struct member member;

    for (size_t skip = 0; skip <= count; skip++) {
        for (size_t kind = 0; kind <= sizeof(wrong) / sizeof(wrong[0]); kind++) {
            const char *lead = "{";
            int err;

            buf_clear(&text);
            for (size_t i = 0; i < count; i++) {
                if (i != skip) {
                    (void)buf_printf(&text, "%s%s", lead, fields[i]);
                    lead = ",";
                } else if (kind > 0) { // The field's name, and a value of another type.
                    (void)buf_printf(&text, "%s%.*s:%s", lead,
                                     (int)(strchr(fields[i], ':') - fields[i]), fields[i],
                                     wrong[kind - 1]);
                    lead = ",";
                }
            }
            (void)buf_append_text(&text, "}");
            err = zk_body_read_member(buf_slice(&text), "a@0123456789abcdef", &databases, &member);
            cr_assert_eq(err, skip == count ? 0 : ERR_INVALID, "%s", buf_text(&text));
        }
    }
}

Test(zk_body, a_cluster_of_another_layout_is_told_from_garbage)
{
    const struct {
        const char *body;
        int err;
    } rows[] = {
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":5}", 0},
        {"{\"format\":2}", ERR_UNSUPPORTED},
        {"{\"cluster_id\":\"c\",\"format\":0,\"shards\":128,\"slots\":4096,\"base\":0}",
         ERR_UNSUPPORTED},
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":128,\"slots\":8192,\"base\":0}",
         ERR_UNSUPPORTED},
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":0,\"slots\":4096,\"base\":0}", ERR_INVALID},
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":4097,\"slots\":4096,\"base\":0}",
         ERR_INVALID},
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":-1}",
         ERR_INVALID},
        {"{\"cluster_id\":\"c\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":16777216}",
         ERR_INVALID},
        {"{\"cluster_id\":\"\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":0}",
         ERR_INVALID},
        {"{\"cluster_id\":\"'; x\",\"format\":1,\"shards\":128,\"slots\":4096,\"base\":0}",
         ERR_INVALID},
        {"{\"cluster_id\":\"c\",\"format\":\"1\"}", ERR_INVALID},
        {"[]", ERR_INVALID},
        {"{}", ERR_INVALID},
        {"", ERR_INVALID},
        {"{\"format\":1", ERR_INVALID},
        {"{\"format\":1,\"format\":1}", ERR_INVALID},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct zk_cluster_body body = {.base = 99};

        cr_assert_eq(zk_body_read_cluster(slice_of(rows[i].body), &body), rows[i].err, "%s",
                     rows[i].body);
        cr_assert_eq(body.base, rows[i].err == 0 ? 5 : 99); // Written only on success.
    }
}

Test(zk_body, sets_come_back_the_same)
{
    struct prng prng;

    prng_init(&prng, 1);
    for (int round = 0; round < 300; round++) {
        struct shard_set set = {{0}};
        struct shard_set back;
        uint32_t density = (uint32_t)prng_below(&prng, 1001);

        for (uint32_t shard = 0; shard < SHARD_COUNT_MAX; shard++) {
            if (prng_chance(&prng, density)) {
                shard_set_add(&set, shard);
            }
        }
        buf_clear(&text);
        zk_body_write_set(&text, &set);
        cr_assert_not(text.failed);
        cr_assert_eq(zk_body_read_set(buf_text(&text), &back), 0);
        cr_assert_eq(memcmp(&set, &back, sizeof(set)), 0);
    }
}

Test(zk_body, sets_out_of_form_are_refused)
{
    const char *const bad[] = {",",  "0,",     "0,,1", "3-1", "1,1",    "2,1",   "0-3,3", "4096",
                               "-1", "1-",     "a",    "1 2", "0-4096", "99999", "1-2-3", "0x1",
                               "0 ", "999999", ";",    "+1",  "1,-2",   "\xff",  "0-0,0"};
    const char *const good[] = {"", "0", "0-0", "0,1", "0-4095", "00000,00001"};
    struct shard_set set;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(zk_body_read_set(bad[i], &set), ERR_INVALID, "%s", bad[i]);
    }
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        cr_assert_eq(zk_body_read_set(good[i], &set), 0, "%s", good[i]);
    }
}

/* Read a body as every kind: nothing may break, and nothing may leak. */
static void read_all(struct slice body)
{
    struct zk_cluster_body cluster;
    struct zk_owner_body owner;
    struct member member;
    char database[NAME_BYTES_MAX + 1];

    (void)!zk_body_read_cluster(body, &cluster);
    (void)!zk_body_read_owner(body, &owner);
    (void)!zk_body_read_shard(body, database);
    (void)!zk_body_read_member(body, "b-1:7000@0123456789abcdef", &databases, &member);
}

Test(zk_body, any_change_of_one_byte_is_survived)
{
    struct member member = sample();
    uint8_t *bytes;
    size_t len;

    zk_body_write_member(&text, &member, &databases);
    len = buf_len(&text);
    bytes = (uint8_t *)mem_copy(buf_slice(&text).data, len);
    for (size_t i = 0; i < len; i++) {
        uint8_t kept = bytes[i];

        for (unsigned value = 0; value < 256; value++) {
            bytes[i] = (uint8_t)value;
            read_all((struct slice){bytes, len});
        }
        bytes[i] = kept;
        read_all((struct slice){bytes, i}); // And every truncation.
    }
    mem_free(bytes);
}

Test(zk_body, deep_and_large_bodies_are_refused)
{
    struct zk_cluster_body cluster;
    size_t size = ZK_BODY_BYTES_MAX + 1;
    uint8_t *bytes = mem_new(1, size);

    memset(bytes, '[', size);
    read_all((struct slice){bytes, size - 1});
    cr_assert_eq(zk_body_read_cluster((struct slice){bytes, size - 1}, &cluster), ERR_INVALID);
    cr_assert_eq(zk_body_read_cluster((struct slice){bytes, size}, &cluster), ERR_TOO_LARGE);
    mem_free(bytes);
    cr_assert_eq(zk_body_read_cluster((struct slice){NULL, 0}, &cluster), ERR_INVALID);
}

Test(zk_body, an_owner_comes_back_the_same_or_not_at_all)
{
    struct zk_owner_body body = {.broker = "b",
                                 .instance = "0123456789abcdef",
                                 .epoch = 0xffffffffLL,
                                 .state = COORD_DRAINING,
                                 .since_ms = 1};
    struct zk_owner_body back;
    char database[NAME_BYTES_MAX + 1];

    zk_body_write_owner(&text, &body);
    cr_assert_eq(zk_body_read_owner(buf_slice(&text), &back), 0);
    cr_assert_str_eq(back.broker, body.broker);
    cr_assert_eq(back.epoch, body.epoch);
    cr_assert_eq(back.state, COORD_DRAINING);
    cr_assert_eq(zk_body_read_owner(slice_of("{\"broker\":\"b\",\"instance\":\"0123456789abcdef\","
                                             "\"epoch\":1,\"state\":\"up\",\"since\":1}"),
                                    &back),
                 ERR_INVALID);
    cr_assert_eq(zk_body_read_shard(slice_of("{\"database\":\"db0\"}"), database), 0);
    cr_assert_eq(zk_body_read_shard(slice_of("{\"database\":\"../x\"}"), database), ERR_INVALID);
    cr_assert_eq(zk_body_read_shard(slice_of("{\"database\":\"a\\u0000b\"}"), database),
                 ERR_INVALID);
}
