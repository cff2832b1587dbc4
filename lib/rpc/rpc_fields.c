/* SPDX-License-Identifier: Apache-2.0
 *
 * Metadata records in one buffer.
 */
#include "lib/rpc/rpc_fields.h"

#include "lib/base/base64.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/rpc/grpc_header.h"

#include <string.h>

struct lengths {
    uint32_t name;
    uint32_t value;
};

void rpc_fields_init(struct rpc_fields *fields, size_t bytes_max)
{
    buf_init(&fields->bytes, bytes_max);
}

void rpc_fields_fini(struct rpc_fields *fields)
{
    buf_fini(&fields->bytes);
}

static int add_text(struct rpc_fields *fields, struct slice name, struct slice value)
{
    struct lengths lengths = {(uint32_t)name.len, (uint32_t)value.len};
    size_t len = sizeof(lengths) + name.len + value.len;
    uint8_t *record = buf_reserve(&fields->bytes, len);

    if (record == NULL) {
        return ERR_TOO_LARGE;
    }
    memcpy(record, &lengths, sizeof(lengths));
    memcpy(record + sizeof(lengths), name.data, name.len);
    if (value.len > 0) {
        memcpy(record + sizeof(lengths) + name.len, value.data, value.len);
    }
    buf_commit(&fields->bytes, len);
    return 0;
}

static int add_binary(struct rpc_fields *fields, struct slice name, struct slice value)
{
    struct buf decoded;
    int err;

    buf_init(&decoded, value.len);
    err = base64_decode(value, &decoded);
    if (err == ERR_INVALID) {
        err = add_text(fields, name, value);
    } else if (err == 0) {
        err = add_text(fields, name, buf_slice(&decoded));
    }
    buf_fini(&decoded);
    return err;
}

int rpc_fields_add(struct rpc_fields *fields, struct slice name, struct slice value)
{
    if (name.len > UINT32_MAX || value.len > UINT32_MAX) {
        return ERR_TOO_LARGE;
    }
    if (!grpc_is_binary_name(name)) {
        return add_text(fields, name, value);
    }
    for (;;) {
        const uint8_t *comma = value.len == 0 ? NULL : memchr(value.data, ',', value.len);
        size_t len = comma == NULL ? value.len : (size_t)(comma - value.data);
        int err = add_binary(fields, name, (struct slice){value.data, len});

        if (err != 0 || comma == NULL) {
            return err;
        }
        value = (struct slice){comma + 1, value.len - len - 1};
    }
}

bool rpc_fields_next(const struct rpc_fields *fields, size_t *position, struct slice *name,
                     struct slice *value)
{
    struct slice bytes = buf_slice(&fields->bytes);
    struct lengths lengths;

    if (*position >= bytes.len) {
        return false;
    }
    memcpy(&lengths, bytes.data + *position, sizeof(lengths));
    *position += sizeof(lengths);
    *name = (struct slice){bytes.data + *position, lengths.name};
    *position += lengths.name;
    *value = (struct slice){bytes.data + *position, lengths.value};
    *position += lengths.value;
    ENSURE(*position <= bytes.len);
    return true;
}

struct slice rpc_fields_find(const struct rpc_fields *fields, struct slice name)
{
    size_t position = 0;
    struct slice found;
    struct slice value;

    while (rpc_fields_next(fields, &position, &found, &value)) {
        if (slice_equal(found, name)) {
            return value;
        }
    }
    return (struct slice){NULL, 0};
}
