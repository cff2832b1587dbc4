/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of znodes: a small writer of our own, and jansson to read.
 */
#include "coordinator/zk_body.h"

#include "coordinator/zk_path.h"
#include "lib/base/err.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* ---- writing ---- */

/* A JSON string: quotes, backslashes and control characters escaped; other bytes as they are. */
static void write_text(struct buf *out, const char *text)
{
    const char *plain = text; // From here on nothing was to be escaped.
    const char *at = text;

    (void)buf_append_text(out, "\"");
    for (; *at != '\0'; at++) {
        unsigned char byte = (unsigned char)*at;

        if (byte >= 0x20 && byte != '"' && byte != '\\' && byte != 0x7f) {
            continue;
        }
        (void)buf_append(out, plain, (size_t)(at - plain));
        (void)buf_printf(out, byte == '"' || byte == '\\' ? "\\%c" : "\\u%04x", byte);
        plain = at + 1;
    }
    (void)buf_append(out, plain, (size_t)(at - plain));
    (void)buf_append_text(out, "\"");
}

/* ,"name":"text"; the comma is missing in front of the first one. */
static void write_field(struct buf *out, const char *lead, const char *text)
{
    (void)buf_append_text(out, lead);
    write_text(out, text);
}

void zk_body_write_cluster(struct buf *out, const struct zk_cluster_body *body)
{
    write_field(out, "{\"cluster_id\":", body->id);
    (void)buf_printf(out,
                     ",\"format\":%" PRId64 ",\"shards\":%u,\"slots\":%d,\"base\":%" PRId64 "}",
                     body->format, body->shard_count, SLOT_COUNT, body->base);
}

void zk_body_write_shard(struct buf *out, const char *database)
{
    write_field(out, "{\"database\":", database);
    (void)buf_append_text(out, "}");
}

static const char *state_name(enum coord_shard_state state)
{
    switch (state) {
    case COORD_LOADING:
        return "loading";
    case COORD_ACTIVE:
        return "active";
    case COORD_DRAINING:
        return "draining";
    }
    return "?";
}

void zk_body_write_owner(struct buf *out, const struct zk_owner_body *body)
{
    write_field(out, "{\"broker\":", body->broker);
    write_field(out, ",\"instance\":", body->instance);
    (void)buf_printf(out, ",\"epoch\":%" PRId64, body->epoch);
    write_field(out, ",\"state\":", state_name(body->state));
    (void)buf_printf(out, ",\"since\":%" PRId64 "}", body->since_ms);
}

void zk_body_write_config(struct buf *out, const struct zk_config_body *body)
{
    write_field(out, "{\"by\":", body->broker);
    (void)buf_printf(out, ",\"at\":%" PRId64 "}", body->at_ms);
}

/* The first shard from `from` on that is in the set, or is not; SHARD_COUNT_MAX if there is none.
 */
static uint32_t find_shard(const struct shard_set *set, uint32_t from, bool is_in)
{
    while (from < SHARD_COUNT_MAX) {
        uint64_t word = is_in ? set->bits[from / 64] : ~set->bits[from / 64];

        word >>= from % 64;
        if (word != 0) {
            return from + (uint32_t)__builtin_ctzll(word);
        }
        from = (from / 64 + 1) * 64;
    }
    return SHARD_COUNT_MAX;
}

/* lead: the sign before it, or "". */
static void write_shard(struct buf *out, const char *lead, uint32_t shard)
{
    char text[10]; // The digits of any 32-bit number.
    size_t start = sizeof(text);

    do {
        text[--start] = (char)('0' + shard % 10);
        shard /= 10;
    } while (shard > 0);
    (void)buf_append_text(out, lead);
    (void)buf_append(out, text + start, sizeof(text) - start);
}

void zk_body_write_set(struct buf *out, const struct shard_set *set)
{
    const char *lead = "";
    uint32_t first = find_shard(set, 0, true);

    while (first < SHARD_COUNT_MAX) {
        uint32_t end = find_shard(set, first, false);

        write_shard(out, lead, first);
        if (end > first + 1) {
            write_shard(out, "-", end - 1);
        }
        lead = ",";
        first = find_shard(set, end, true);
    }
}

void zk_body_write_member(struct buf *out, const struct member *member,
                          const struct coord_zk_databases *databases)
{
    const char *lead = "";

    write_field(out, "{\"name\":", member->name);
    write_field(out, ",\"grpc\":", member->grpc);
    write_field(out, ",\"admin\":", member->admin);
    write_field(out, ",\"version\":", member->version);
    (void)buf_printf(out, ",\"started\":%" PRId64 ",\"owns\":\"", member->started_ms);
    zk_body_write_set(out, &member->owns);
    (void)buf_append_text(out, "\",\"cannot\":[");
    for (uint32_t i = 0; i < databases->count; i++) {
        if ((member->cannot >> i & 1U) != 0) {
            write_field(out, lead, databases->names[i]);
            lead = ",";
        }
    }
    (void)buf_printf(out, "],\"config\":%" PRId64 "}", member->config);
}

/* ---- reading ---- */

/* Parse an object. ownership: *out is freed by json_decref(). */
static int parse(struct slice text, json_t **out)
{
    json_error_t error;
    json_t *root;

    if (text.len > ZK_BODY_BYTES_MAX) {
        return ERR_TOO_LARGE;
    }
    if (text.data == NULL) {
        return ERR_INVALID;
    }
    root = json_loadb((const char *)text.data, text.len, JSON_REJECT_DUPLICATES, &error);
    if (!json_is_object(root)) {
        json_decref(root);
        return ERR_INVALID;
    }
    *out = root;
    return 0;
}

/* A text field of at most size − 1 bytes. jansson refuses NUL inside and bytes that are not UTF-8.
 */
static int read_text(const json_t *root, const char *name, char *out, size_t size)
{
    const json_t *field = json_object_get(root, name);
    size_t len = json_string_length(field);

    if (!json_is_string(field) || len >= size) {
        return ERR_INVALID;
    }
    memcpy(out, json_string_value(field), len);
    out[len] = '\0';
    return 0;
}

static int read_int(const json_t *root, const char *name, int64_t max, int64_t *out)
{
    const json_t *field = json_object_get(root, name);

    if (!json_is_integer(field) || json_integer_value(field) < 0 ||
        json_integer_value(field) > max) {
        return ERR_INVALID;
    }
    *out = json_integer_value(field);
    return 0;
}

static bool is_id(const char *id)
{
    size_t len = strspn(id, "abcdefghijklmnopqrstuvwxyz0123456789-");

    return len >= 1 && id[len] == '\0';
}

static int read_cluster(const json_t *root, struct zk_cluster_body *body)
{
    int64_t shard_count;
    int64_t slot_count;

    if (read_int(root, "format", INT64_MAX, &body->format) != 0) {
        return ERR_INVALID;
    }
    if (body->format != ZK_FORMAT) { // The other fields may have another meaning there.
        return ERR_UNSUPPORTED;
    }
    if (read_int(root, "slots", INT64_MAX, &slot_count) != 0 ||
        read_int(root, "shards", SHARD_COUNT_MAX, &shard_count) != 0 || shard_count == 0 ||
        read_int(root, "base", GENERATION_MAX, &body->base) != 0 ||
        read_text(root, "cluster_id", body->id, sizeof(body->id)) != 0 || !is_id(body->id)) {
        return ERR_INVALID;
    }
    body->shard_count = (uint32_t)shard_count;
    return slot_count == SLOT_COUNT ? 0 : ERR_UNSUPPORTED;
}

int zk_body_read_cluster(struct slice text, struct zk_cluster_body *out)
{
    struct zk_cluster_body body = {0};
    json_t *root;
    int err = parse(text, &root);

    if (err != 0) {
        return err;
    }
    err = read_cluster(root, &body);
    json_decref(root);
    if (err == 0) {
        *out = body;
    }
    return err;
}

int zk_body_read_shard(struct slice text, char *database)
{
    char name[NAME_BYTES_MAX + 1];
    json_t *root;
    int err = parse(text, &root);

    if (err != 0) {
        return err;
    }
    err = read_text(root, "database", name, sizeof(name));
    json_decref(root);
    if (err != 0 || !zk_path_is_name(name)) {
        return ERR_INVALID;
    }
    memcpy(database, name, sizeof(name));
    return 0;
}

static int read_state(const json_t *root, enum coord_shard_state *out)
{
    char name[16];

    if (read_text(root, "state", name, sizeof(name)) != 0) {
        return ERR_INVALID;
    }
    for (int state = COORD_LOADING; state <= COORD_DRAINING; state++) {
        if (strcmp(name, state_name((enum coord_shard_state)state)) == 0) {
            *out = (enum coord_shard_state)state;
            return 0;
        }
    }
    return ERR_INVALID;
}

int zk_body_read_owner(struct slice text, struct zk_owner_body *out)
{
    struct zk_owner_body body = {0};
    json_t *root;
    int err = parse(text, &root);

    if (err != 0) {
        return err;
    }
    if (read_text(root, "broker", body.broker, sizeof(body.broker)) != 0 ||
        read_text(root, "instance", body.instance, sizeof(body.instance)) != 0 ||
        read_int(root, "epoch", INT64_MAX, &body.epoch) != 0 ||
        read_int(root, "since", INT64_MAX, &body.since_ms) != 0 ||
        read_state(root, &body.state) != 0 || !zk_path_is_member_name(body.broker) ||
        !zk_path_is_instance(body.instance)) {
        err = ERR_INVALID;
    } else {
        *out = body;
    }
    json_decref(root);
    return err;
}

/* One number of a set; NULL if there is none, or too large. */
static const char *read_number(const char *text, uint32_t *out)
{
    size_t len = strspn(text, "0123456789");
    uint32_t number = 0;

    if (len < 1 || len > 5) {
        return NULL;
    }
    for (size_t i = 0; i < len; i++) {
        number = number * 10 + (uint32_t)(text[i] - '0');
    }
    *out = number;
    return number < SHARD_COUNT_MAX ? text + len : NULL;
}

int zk_body_read_set(const char *text, struct shard_set *out)
{
    struct shard_set set = {{0}};
    uint32_t floor = 0; // Numbers rise, so the work is bounded whatever the text says.

    while (*text != '\0') {
        uint32_t first = 0;
        uint32_t last;

        text = read_number(text, &first);
        last = first;
        if (text != NULL && *text == '-') {
            text = read_number(text + 1, &last);
        }
        if (text == NULL || first < floor || last < first || (*text != ',' && *text != '\0') ||
            (*text == ',' && text[1] == '\0')) {
            return ERR_INVALID;
        }
        for (uint32_t shard = first; shard <= last; shard++) {
            shard_set_add(&set, shard);
        }
        floor = last + 1;
        text += *text == ',' ? 1 : 0;
    }
    *out = set;
    return 0;
}

static int read_owns(const json_t *root, struct shard_set *out)
{
    const json_t *field = json_object_get(root, "owns");

    return json_is_string(field) ? zk_body_read_set(json_string_value(field), out) : ERR_INVALID;
}

static int read_cannot(const json_t *root, const struct coord_zk_databases *databases,
                       uint32_t *out)
{
    const json_t *field = json_object_get(root, "cannot");
    uint32_t cannot = 0;

    if (!json_is_array(field)) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < json_array_size(field); i++) {
        const char *name = json_string_value(json_array_get(field, i));

        if (name == NULL) {
            return ERR_INVALID;
        }
        for (uint32_t database = 0; database < databases->count; database++) {
            if (strcmp(databases->names[database], name) == 0) {
                cannot |= 1U << database;
            }
        }
    }
    *out = cannot;
    return 0;
}

static int read_member(const json_t *root, const struct coord_zk_databases *databases,
                       struct member *member)
{
    char name[MEMBER_NAME_BYTES_MAX + 1];

    if (read_text(root, "name", name, sizeof(name)) != 0 || strcmp(name, member->name) != 0 ||
        read_text(root, "grpc", member->grpc, sizeof(member->grpc)) != 0 ||
        read_text(root, "admin", member->admin, sizeof(member->admin)) != 0 ||
        read_text(root, "version", member->version, sizeof(member->version)) != 0 ||
        read_int(root, "started", INT64_MAX, &member->started_ms) != 0 ||
        read_int(root, "config", INT64_MAX, &member->config) != 0) {
        return ERR_INVALID;
    }
    if (read_owns(root, &member->owns) != 0) {
        return ERR_INVALID;
    }
    return read_cannot(root, databases, &member->cannot);
}

int zk_body_read_member(struct slice text, const char *node_name,
                        const struct coord_zk_databases *databases, struct member *out)
{
    struct member member;
    json_t *root;
    int err;

    memset(&member, 0, sizeof(member));
    err = zk_path_split_node_name(node_name, member.name, member.instance);
    if (err != 0) {
        return err;
    }
    err = parse(text, &root);
    if (err != 0) {
        return err;
    }
    err = read_member(root, databases, &member);
    json_decref(root);
    if (err == 0) {
        *out = member;
    }
    return err;
}
