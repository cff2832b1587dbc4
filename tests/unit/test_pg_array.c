/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary arrays, byte for byte as PostgreSQL documents and sends them.
 */
#include "storage/pg_array.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <string.h>

Test(pg_array, integers_are_big_endian_behind_a_header)
{
    static const uint8_t wanted[] = {0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 21, 0, 0, 0,    2,
                                     0, 0, 0, 1, 0, 0, 0, 2, 1, 2, 0, 0,  0, 2, 0xff, 0xfe};
    struct pg_array array;
    struct slice value;

    pg_array_init(&array, 4096);
    pg_array_start(&array, PG_TYPE_INT2);
    pg_array_add_int(&array, 0x0102);
    pg_array_add_int(&array, -2);
    cr_assert_eq(pg_array_value(&array, &value), 0);
    cr_assert_eq(value.len, sizeof(wanted));
    cr_assert_eq(memcmp(value.data, wanted, sizeof(wanted)), 0);
    pg_array_fini(&array);
}

Test(pg_array, empty_array_has_no_dimension)
{
    static const uint8_t wanted[] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 17};
    struct pg_array array;
    struct slice value;

    pg_array_init(&array, 4096);
    pg_array_start(&array, PG_TYPE_BYTEA);
    cr_assert_eq(pg_array_value(&array, &value), 0);
    cr_assert_eq(value.len, sizeof(wanted));
    cr_assert_eq(memcmp(value.data, wanted, sizeof(wanted)), 0);
    pg_array_fini(&array);
}

Test(pg_array, nulls_and_empty_bytes_are_told_apart)
{
    struct pg_array array;
    struct slice value;

    pg_array_init(&array, 4096);
    pg_array_start(&array, PG_TYPE_BYTEA);
    pg_array_add_bytes(&array, (struct slice){NULL, 0});
    pg_array_add_null(&array);
    cr_assert_eq(pg_array_value(&array, &value), 0);
    cr_assert_eq(value.len, 28);
    cr_assert_eq(pg_get_i32(value.data + 4), 1);
    cr_assert_eq(pg_get_i32(value.data + 20), 0);
    cr_assert_eq(pg_get_i32(value.data + 24), -1);
    pg_array_fini(&array);
}

Test(pg_array, array_that_met_its_maximum_is_no_value)
{
    struct pg_array array;
    struct slice value;

    pg_array_init(&array, 32);
    pg_array_add_int(&array, 1);
    pg_array_add_int(&array, 2);
    cr_assert_eq(pg_array_value(&array, &value), ERR_TOO_LARGE);
    pg_array_fini(&array);
}

Test(pg_array, what_was_written_is_read_back)
{
    struct pg_array array;
    struct pg_i64_view view;
    struct slice value;

    pg_array_init(&array, 4096);
    pg_array_add_int(&array, INT64_MIN);
    pg_array_add_int(&array, 0);
    pg_array_add_int(&array, INT64_MAX);
    cr_assert_eq(pg_array_value(&array, &value), 0);
    cr_assert_eq(pg_i64_view_read(value, &view), 0);
    cr_assert_eq(view.count, 3);
    cr_assert_eq(pg_i64_view_get(&view, 0), INT64_MIN);
    cr_assert_eq(pg_i64_view_get(&view, 2), INT64_MAX);
    for (size_t len = 0; len < value.len; len++) {
        cr_assert_eq(pg_i64_view_read((struct slice){value.data, len}, &view), ERR_PROTOCOL);
    }
    pg_array_fini(&array);
}

Test(pg_array, array_of_another_shape_is_a_protocol_error)
{
    uint8_t bytes[44] = {0};
    struct slice value = {bytes, sizeof(bytes)};
    struct pg_i64_view view;

    pg_put_i32(bytes, 1);
    pg_put_i32(bytes + 8, PG_TYPE_INT8);
    pg_put_i32(bytes + 12, 2);
    cr_assert_eq(pg_i64_view_read(value, &view), 0);
    pg_put_i32(bytes, 2);
    cr_assert_eq(pg_i64_view_read(value, &view), ERR_PROTOCOL);
    pg_put_i32(bytes, 1);
    pg_put_i32(bytes + 4, 1);
    cr_assert_eq(pg_i64_view_read(value, &view), ERR_PROTOCOL);
    pg_put_i32(bytes + 4, 0);
    pg_put_i32(bytes + 8, PG_TYPE_INT4);
    cr_assert_eq(pg_i64_view_read(value, &view), ERR_PROTOCOL);
    pg_put_i32(bytes + 8, PG_TYPE_INT8);
    pg_put_i32(bytes + 12, -1);
    cr_assert_eq(pg_i64_view_read(value, &view), ERR_PROTOCOL);
}
