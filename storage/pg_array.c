/* SPDX-License-Identifier: Apache-2.0
 *
 * Binary arrays: a header of 20 bytes (dimensions, null flag, element type, length, lower bound),
 * then a length word and the bytes of each element.
 */
#include "storage/pg_array.h"

#include "lib/base/check.h"
#include "lib/base/err.h"

#include <string.h>

#define HEADER_LEN       20
#define EMPTY_HEADER_LEN 12

static void put(uint8_t *place, uint64_t value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        place[len - 1 - i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *place, size_t len)
{
    uint64_t value = 0;

    for (size_t i = 0; i < len; i++) {
        value = value << 8 | place[i];
    }
    return value;
}

void pg_put_i16(uint8_t *place, int16_t value)
{
    put(place, (uint16_t)value, 2);
}

void pg_put_i32(uint8_t *place, int32_t value)
{
    put(place, (uint32_t)value, 4);
}

void pg_put_i64(uint8_t *place, int64_t value)
{
    put(place, (uint64_t)value, 8);
}

int16_t pg_get_i16(const uint8_t *place)
{
    return (int16_t)get(place, 2);
}

int32_t pg_get_i32(const uint8_t *place)
{
    return (int32_t)get(place, 4);
}

int64_t pg_get_i64(const uint8_t *place)
{
    return (int64_t)get(place, 8);
}

void pg_array_init(struct pg_array *array, size_t bytes_max)
{
    buf_init(&array->buf, bytes_max);
    pg_array_start(array, PG_TYPE_INT8);
}

void pg_array_fini(struct pg_array *array)
{
    buf_fini(&array->buf);
}

void pg_array_start(struct pg_array *array, uint32_t element)
{
    static const uint8_t header[HEADER_LEN];

    buf_clear(&array->buf);
    (void)buf_append(&array->buf, header, sizeof(header));
    array->element = element;
    array->count = 0;
    array->has_null = false;
}

static size_t width_of(uint32_t element)
{
    switch (element) {
    case PG_TYPE_INT2:
        return 2;
    case PG_TYPE_INT4:
        return 4;
    case PG_TYPE_INT8:
        return 8;
    default:
        UNREACHABLE();
    }
}

void pg_array_add_int(struct pg_array *array, int64_t value)
{
    size_t width = width_of(array->element);
    uint8_t bytes[4 + 8];

    pg_put_i32(bytes, (int32_t)width);
    put(bytes + 4, (uint64_t)value, width);
    (void)buf_append(&array->buf, bytes, 4 + width);
    array->count++;
}

void pg_array_add_bytes(struct pg_array *array, struct slice bytes)
{
    uint8_t len[4];

    pg_put_i32(len, (int32_t)bytes.len);
    (void)buf_append(&array->buf, len, sizeof(len));
    (void)buf_append(&array->buf, bytes.data, bytes.len);
    array->count++;
}

void pg_array_add_null(struct pg_array *array)
{
    uint8_t len[4];

    pg_put_i32(len, -1);
    (void)buf_append(&array->buf, len, sizeof(len));
    array->has_null = true;
    array->count++;
}

int pg_array_value(struct pg_array *array, struct slice *out)
{
    uint8_t *header;

    if (array->buf.failed) {
        return ERR_TOO_LARGE;
    }
    header = array->buf.data + array->buf.start;
    pg_put_i32(header, array->count == 0 ? 0 : 1);
    pg_put_i32(header + 4, array->has_null);
    pg_put_i32(header + 8, (int32_t)array->element);
    pg_put_i32(header + 12, (int32_t)array->count);
    pg_put_i32(header + 16, 1);
    *out = buf_slice(&array->buf);
    if (array->count == 0) {
        out->len = EMPTY_HEADER_LEN;
    }
    return 0;
}

int pg_i64_view_read(struct slice value, struct pg_i64_view *out)
{
    const uint8_t *header = value.data;

    if (value.len < EMPTY_HEADER_LEN || pg_get_i32(header + 8) != PG_TYPE_INT8) {
        return ERR_PROTOCOL;
    }
    if (pg_get_i32(header) == 0) {
        *out = (struct pg_i64_view){NULL, 0};
        return 0;
    }
    if (pg_get_i32(header) != 1 || pg_get_i32(header + 4) != 0 || value.len < HEADER_LEN ||
        pg_get_i32(header + 12) < 0 ||
        value.len != HEADER_LEN + (size_t)pg_get_i32(header + 12) * 12) {
        return ERR_PROTOCOL;
    }
    *out = (struct pg_i64_view){header + HEADER_LEN, (size_t)pg_get_i32(header + 12)};
    return 0;
}

int64_t pg_i64_view_get(const struct pg_i64_view *view, size_t i)
{
    REQUIRE(i < view->count);
    return pg_get_i64(view->first + 12 * i + 4);
}
