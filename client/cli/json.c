/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON writing.
 */
#include "client/cli/json.h"

#include "client/cli/timetext.h"
#include "lib/base/base64.h"
#include "lib/base/json_text.h"
#include "lib/model/tags.h"

#include <inttypes.h>
#include <stdio.h>

void json_init(struct json *json, struct buf *out)
{
    json->out = out;
    json->needs_comma = false;
}

static void put_string(struct buf *out, struct slice text)
{
    (void)buf_append(out, "\"", 1);
    (void)json_text_put(out, text);
    (void)buf_append(out, "\"", 1);
}

static void put_name(struct json *json, const char *name)
{
    if (json->needs_comma) {
        (void)buf_append(json->out, ",", 1);
    }
    json->needs_comma = true;
    if (name != NULL) {
        put_string(json->out, slice_of(name));
        (void)buf_append(json->out, ":", 1);
    }
}

void json_open(struct json *json, const char *name, char bracket)
{
    put_name(json, name);
    (void)buf_append(json->out, &bracket, 1);
    json->needs_comma = false;
}

void json_close(struct json *json, char bracket)
{
    (void)buf_append(json->out, &bracket, 1);
    json->needs_comma = true;
}

void json_text(struct json *json, const char *name, const char *text)
{
    json_slice(json, name, slice_of(text));
}

void json_slice(struct json *json, const char *name, struct slice text)
{
    put_name(json, name);
    put_string(json->out, text);
}

void json_int(struct json *json, const char *name, int64_t value)
{
    put_name(json, name);
    (void)buf_printf(json->out, "%" PRId64, value);
}

void json_int64(struct json *json, const char *name, int64_t value)
{
    put_name(json, name);
    (void)buf_printf(json->out, "\"%" PRId64 "\"", value);
}

void json_bool(struct json *json, const char *name, bool value)
{
    put_name(json, name);
    (void)buf_append_text(json->out, value ? "true" : "false");
}

void json_bytes(struct json *json, const char *name, struct slice bytes)
{
    put_name(json, name);
    (void)buf_append(json->out, "\"", 1);
    (void)base64_encode(bytes, true, json->out);
    (void)buf_append(json->out, "\"", 1);
}

void json_time(struct json *json, const char *name, wall_ms time)
{
    char text[TIMETEXT_BYTES];

    if (time != WALL_NEVER) {
        timetext_write(time, text);
        json_text(json, name, text);
    }
}

void json_span(struct json *json, const char *name, span_ms span)
{
    uint64_t size = span < 0 ? -(uint64_t)span : (uint64_t)span;

    put_name(json, name);
    (void)buf_printf(json->out, "\"%s%" PRIu64 ".%03us\"", span < 0 ? "-" : "", size / 1000,
                     (unsigned)(size % 1000));
}

void json_tags(struct json *json, const char *name, struct slice tags)
{
    struct tag tag;
    size_t at = 0;

    json_open(json, name, '{');
    while (tags_next(tags, &at, &tag)) {
        char text[TAG_NAME_BYTES_MAX + 1];

        (void)snprintf(text, sizeof(text), "%.*s", (int)tag.name.len, (const char *)tag.name.data);
        json_slice(json, text, tag.value);
    }
    json_close(json, '}');
}

void json_texts(struct json *json, const char *name, const char *const *texts, size_t count)
{
    json_open(json, name, '[');
    for (size_t i = 0; i < count; i++) {
        json_text(json, NULL, texts[i]);
    }
    json_close(json, ']');
}
