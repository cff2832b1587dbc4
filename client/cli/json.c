/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON writing.
 */
#include "client/cli/json.h"

#include "client/cli/timetext.h"

#include <inttypes.h>

void json_init(struct json *json, struct buf *out)
{
    json->out = out;
    json->needs_comma = false;
}

static void put_string(struct buf *out, struct slice text)
{
    size_t start = 0;

    (void)buf_append(out, "\"", 1);
    for (size_t i = 0; i < text.len; i++) {
        uint8_t c = text.data[i];

        if (c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            continue;
        }
        if (start < i) {
            (void)buf_append(out, text.data + start, i - start);
        }
        start = i + 1;
        if (c == '"' || c == '\\') {
            (void)buf_printf(out, "\\%c", c);
        } else {
            (void)buf_printf(out, "\\u%04x", c);
        }
    }
    if (start < text.len) {
        (void)buf_append(out, text.data + start, text.len - start);
    }
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

void json_bool(struct json *json, const char *name, bool value)
{
    put_name(json, name);
    (void)buf_append_text(json->out, value ? "true" : "false");
}

void json_bytes(struct json *json, const char *name, struct slice bytes)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    put_name(json, name);
    (void)buf_append(json->out, "\"", 1);
    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t left = bytes.len - i;
        uint32_t group = (uint32_t)bytes.data[i] << 16U;
        char text[4];

        group |= left > 1 ? (uint32_t)bytes.data[i + 1] << 8U : 0;
        group |= left > 2 ? (uint32_t)bytes.data[i + 2] : 0;
        text[0] = digits[group >> 18U];
        text[1] = digits[group >> 12U & 63U];
        text[2] = digits[group >> 6U & 63U];
        text[3] = digits[group & 63U];
        if (left < 3) {
            text[3] = '=';
        }
        if (left < 2) {
            text[2] = '=';
        }
        (void)buf_append(json->out, text, sizeof(text));
    }
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
