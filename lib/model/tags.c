/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical text of tags.
 */
#include "lib/model/tags.h"

#include "lib/base/err.h"
#include "lib/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/-"

static int compare_slices(struct slice a, struct slice b)
{
    size_t len = a.len < b.len ? a.len : b.len;
    int order = len == 0 ? 0 : memcmp(a.data, b.data, len);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_names(const void *a, const void *b)
{
    return compare_slices(((const struct tag *)a)->name, ((const struct tag *)b)->name);
}

static bool is_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] == '\0' || strchr(NAME_LETTERS, name.data[i]) == NULL) {
            return false;
        }
    }
    return name.len > 0 && name.len <= TAG_NAME_BYTES_MAX;
}

static bool is_value(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < 0x20 || value.data[i] == 0x7f) {
            return false;
        }
    }
    return value.len <= TAG_VALUE_BYTES_MAX && utf8_is_valid(value);
}

static int check_tag(const struct tag *tag, char *errmsg, size_t errmsg_size)
{
    int shown = (int)(tag->name.len < TAG_NAME_BYTES_MAX ? tag->name.len : TAG_NAME_BYTES_MAX);

    if (!is_name(tag->name)) {
        (void)snprintf(errmsg, errmsg_size,
                       "has the name \"%.*s\"; a name is 1 to %d bytes (TAG_NAME_BYTES_MAX) of "
                       "letters, digits, '.', '_', '/' and '-'",
                       shown, (const char *)tag->name.data, TAG_NAME_BYTES_MAX);
        return ERR_INVALID;
    }
    if (!is_value(tag->value)) {
        (void)snprintf(errmsg, errmsg_size,
                       "has a value for \"%.*s\" of %zu bytes; a value is at most %d bytes "
                       "(TAG_VALUE_BYTES_MAX) of UTF-8 without control characters",
                       shown, (const char *)tag->name.data, tag->value.len, TAG_VALUE_BYTES_MAX);
        return ERR_INVALID;
    }
    return 0;
}

static int check_tags(const struct tag *tags, size_t count, char *errmsg, size_t errmsg_size)
{
    for (size_t i = 0; i < count; i++) {
        int err = check_tag(&tags[i], errmsg, errmsg_size);

        if (err != 0) {
            return err;
        }
        if (i > 0 && slice_equal(tags[i].name, tags[i - 1].name)) {
            (void)snprintf(errmsg, errmsg_size, "has \"%.*s\" twice; a name goes with one value",
                           (int)tags[i].name.len, (const char *)tags[i].name.data);
            return ERR_INVALID;
        }
    }
    return 0;
}

static size_t put(char *out, size_t len, struct slice text, char end)
{
    if (text.len > 0) {
        memcpy(out + len, text.data, text.len);
    }
    out[len + text.len] = end;
    return len + text.len + 1;
}

int tags_write(struct tag *tags, size_t count, char *out, size_t *len, char *errmsg,
               size_t errmsg_size)
{
    int err;

    if (count > TAG_COUNT_MAX) {
        (void)snprintf(errmsg, errmsg_size,
                       "has %zu entries, at most %d are allowed (TAG_COUNT_MAX); put the rest into "
                       "the payload",
                       count, TAG_COUNT_MAX);
        return ERR_INVALID;
    }
    if (count > 1) {
        qsort(tags, count, sizeof(*tags), compare_names);
    }
    err = check_tags(tags, count, errmsg, errmsg_size);
    if (err != 0) {
        return err;
    }
    *len = 0;
    for (size_t i = 0; i < count; i++) {
        *len = put(out, *len, tags[i].name, '=');
        *len = put(out, *len, tags[i].value, '\n');
    }
    return 0;
}

bool tags_next(struct slice text, size_t *at, struct tag *out)
{
    const uint8_t *start;
    const uint8_t *end;
    const uint8_t *sign;

    if (*at >= text.len) {
        return false;
    }
    start = text.data + *at;
    end = memchr(start, '\n', text.len - *at);
    sign = end == NULL ? NULL : memchr(start, '=', (size_t)(end - start));
    if (sign == NULL) {
        return false;
    }
    out->name = (struct slice){start, (size_t)(sign - start)};
    out->value = (struct slice){sign + 1, (size_t)(end - sign) - 1};
    *at += (size_t)(end - start) + 1;
    return true;
}

bool tags_match(struct slice text, struct slice wanted)
{
    struct tag want;
    struct tag have = {.name = {NULL, 0}};
    size_t text_at = 0;
    size_t wanted_at = 0;

    while (tags_next(wanted, &wanted_at, &want)) {
        bool found = false;

        while (!found && tags_next(text, &text_at, &have)) {
            if (compare_slices(have.name, want.name) > 0) {
                return false;
            }
            found = slice_equal(have.name, want.name);
        }
        if (!found || !slice_equal(have.value, want.value)) {
            return false;
        }
    }
    return true;
}
