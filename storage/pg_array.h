/* SPDX-License-Identifier: Apache-2.0
 *
 * One-dimensional PostgreSQL arrays in the binary format, and the values that replies are made of.
 * Bytes in, bytes out: knows no connection.
 */
#ifndef FOLIOT_STORAGE_PG_ARRAY_H
#define FOLIOT_STORAGE_PG_ARRAY_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

/* Type numbers of PostgreSQL, which never change. source: src/include/catalog/pg_type.dat */
#define PG_TYPE_BYTEA       17
#define PG_TYPE_INT8        20
#define PG_TYPE_INT2        21
#define PG_TYPE_INT4        23
#define PG_TYPE_TEXT        25
#define PG_TYPE_BYTEA_ARRAY 1001
#define PG_TYPE_INT2_ARRAY  1005
#define PG_TYPE_INT4_ARRAY  1007
#define PG_TYPE_INT8_ARRAY  1016

/* Microseconds from 1970 to 2000, where PostgreSQL's timestamps begin. */
#define PG_EPOCH_US INT64_C(946684800000000)

void pg_put_i16(uint8_t *place, int16_t value);
void pg_put_i32(uint8_t *place, int32_t value);
void pg_put_i64(uint8_t *place, int64_t value);
int16_t pg_get_i16(const uint8_t *place);
int32_t pg_get_i32(const uint8_t *place);
int64_t pg_get_i64(const uint8_t *place);

/* An array under construction. Sticky on failure, as its buffer is. */
struct pg_array {
    struct buf buf;
    uint32_t element; /* type of the elements */
    uint32_t count;
    bool has_null;
};

/* Start empty, of bigint. shape of elements: PG_TYPE_INT2, INT4, INT8 or BYTEA. */
void pg_array_init(struct pg_array *array, size_t bytes_max);
void pg_array_fini(struct pg_array *array);

/* Drop the elements, keep the memory, take another type of element. */
void pg_array_start(struct pg_array *array, uint32_t element);

/* Append one element of the array's type; integers are narrowed to it. */
void pg_array_add_int(struct pg_array *array, int64_t value);
void pg_array_add_bytes(struct pg_array *array, struct slice bytes);
void pg_array_add_null(struct pg_array *array);

/*
 * The array as a parameter value, borrowed until it is changed.
 *
 * errors: ERR_TOO_LARGE: an append met the maximum or the end of memory.
 */
MUST_USE int pg_array_value(struct pg_array *array, struct slice *out);

/* An array of bigint without nulls in a reply. */
struct pg_i64_view {
    const uint8_t *first; /* length word of the first element */
    size_t count;
};

/* Look at an array value. errors: ERR_PROTOCOL if it is not a bigint array without nulls. */
MUST_USE int pg_i64_view_read(struct slice value, struct pg_i64_view *out);

/* The i-th element. shape: i < count. */
int64_t pg_i64_view_get(const struct pg_i64_view *view, size_t i);

#endif
