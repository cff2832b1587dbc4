/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of a statement's parameters.
 */
#include "storage/pg_conn.h"

#include "lib/base/check.h"

void pg_params_init(struct pg_params *params)
{
    params->count = 0;
    params->failed = false;
}

static void add_value(struct pg_params *params, const void *value, size_t len)
{
    REQUIRE(params->count < PG_PARAM_COUNT_MAX);
    params->values[params->count] = value;
    params->lengths[params->count] = (int)len;
    params->count++;
}

void pg_params_add_i32(struct pg_params *params, int32_t value)
{
    pg_put_i32(params->small[params->count], value);
    add_value(params, params->small[params->count], 4);
}

void pg_params_add_i64(struct pg_params *params, int64_t value)
{
    pg_put_i64(params->small[params->count], value);
    add_value(params, params->small[params->count], 8);
}

void pg_params_add_bytes(struct pg_params *params, struct slice bytes)
{
    // A null pointer would mean a null value.
    add_value(params, bytes.len == 0 ? (const void *)"" : bytes.data, bytes.len);
}

void pg_params_add_array(struct pg_params *params, struct pg_array *array)
{
    struct slice value = {NULL, 0};

    if (pg_array_value(array, &value) != 0) {
        params->failed = true;
    }
    pg_params_add_bytes(params, value);
}
