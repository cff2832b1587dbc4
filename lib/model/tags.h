/* SPDX-License-Identifier: Apache-2.0
 *
 * Tags of a task: a few names with values, for people, filters and the task's target. In memory and
 * in storage they are one canonical text, "colour=red\nsize=9\n": sorted by name, each name once,
 * so that equal tags are equal bytes and a person in psql can read them.
 */
#ifndef FOLIOT_LIB_MODEL_TAGS_H
#define FOLIOT_LIB_MODEL_TAGS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Tags of one task. */
#define TAG_COUNT_MAX 16

/* A name: 1 to this many bytes of a-z A-Z 0-9 . _ / - */
#define TAG_NAME_BYTES_MAX 63

/* A value: 0 to this many bytes of UTF-8 without control characters. */
#define TAG_VALUE_BYTES_MAX 255

/* The canonical text of all of them. */
#define TAGS_BYTES_MAX ((size_t)TAG_COUNT_MAX * (TAG_NAME_BYTES_MAX + TAG_VALUE_BYTES_MAX + 2))

/* One of them; borrowed. */
struct tag {
    struct slice name;
    struct slice value;
};

/*
 * Write the canonical text of `count` tags in any order.
 *
 * shape:  tags are sorted in place; out has room for TAGS_BYTES_MAX bytes, *len is what was used.
 * errors: ERR_INVALID: too many of them, a name twice, or a bad name or value; errmsg (of
 *         errmsg_size bytes) then says which, the limit by its name, and what to do.
 */
MUST_USE int tags_write(struct tag *tags, size_t count, char *out, size_t *len, char *errmsg,
                        size_t errmsg_size);

/*
 * The next tag of a canonical text.
 *
 * shape: *at starts at 0 and is moved on; false at the end. A text that is not canonical ends
 * early.
 */
bool tags_next(struct slice text, size_t *at, struct tag *out);

/* Has `text` every tag of `wanted`, by name and value? shape: both canonical. */
bool tags_match(struct slice text, struct slice wanted);

#endif
