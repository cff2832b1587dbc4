/* SPDX-License-Identifier: Apache-2.0
 *
 * Names, kinds, and lengths of time.
 */
#include "proto/protojson.h"

#include "lib/base/check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NANOS_PER_S 1000000000

enum protojson_kind protojson_kind_of(const ProtobufCMessageDescriptor *descriptor)
{
    if (strcmp(descriptor->name, "google.protobuf.Timestamp") == 0) {
        return PROTOJSON_TIMESTAMP;
    }
    if (strcmp(descriptor->name, "google.protobuf.Duration") == 0) {
        return PROTOJSON_DURATION;
    }
    return PROTOJSON_OBJECT;
}

/* Copy a name without its underscores, the letter behind each one in upper case; the first letter
 * too, if asked. */
static void write_camel(const char *name, bool is_upper, char *out, size_t size)
{
    size_t len = 0;

    for (size_t i = 0; name[i] != '\0' && len + 1 < size; i++) {
        if (name[i] == '_') {
            is_upper = true;
            continue;
        }
        out[len] = name[i];
        if (is_upper && name[i] >= 'a' && name[i] <= 'z') {
            out[len] = (char)(name[i] - 'a' + 'A');
        }
        is_upper = false;
        len++;
    }
    out[len] = '\0';
}

void protojson_name(const char *name, char out[PROTOJSON_NAME_BYTES])
{
    REQUIRE(strlen(name) < PROTOJSON_NAME_BYTES);
    write_camel(name, false, out, PROTOJSON_NAME_BYTES);
}

bool protojson_is_map(const ProtobufCMessageDescriptor *owner,
                      const ProtobufCFieldDescriptor *field)
{
    const ProtobufCMessageDescriptor *entry = field->descriptor;
    size_t owner_len = strlen(owner->name);
    char name[PROTOJSON_NAME_BYTES];
    const char *rest;

    if (field->label != PROTOBUF_C_LABEL_REPEATED || field->type != PROTOBUF_C_TYPE_MESSAGE ||
        entry->n_fields != 2 || strcmp(entry->fields[0].name, "key") != 0 ||
        strcmp(entry->fields[1].name, "value") != 0) {
        return false;
    }
    if (strncmp(entry->name, owner->name, owner_len) != 0 || entry->name[owner_len] != '.') {
        return false;
    }
    write_camel(field->name, true, name, sizeof(name));
    rest = entry->name + owner_len + 1;
    return strncmp(rest, name, strlen(name)) == 0 && strcmp(rest + strlen(name), "Entry") == 0;
}

/* Digits of a fraction of a second as nanoseconds. */
static int parse_fraction(const char **at, int32_t *nanos)
{
    size_t count = strspn(*at, "0123456789");
    int32_t digit = NANOS_PER_S / 10;

    if (count == 0 || count > 9) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < count; i++, digit /= 10) {
        *nanos += digit * (*(*at)++ - '0');
    }
    return 0;
}

int protojson_parse_span(const char *text, struct protojson_span *out)
{
    bool is_negative = *text == '-';
    struct protojson_span span = {0};
    const char *at = is_negative ? text + 1 : text;
    size_t count = strspn(at, "0123456789");

    if (count == 0) {
        return ERR_INVALID;
    }
    for (; count > 0; count--) {
        if (__builtin_mul_overflow(span.seconds, 10, &span.seconds) ||
            __builtin_add_overflow(span.seconds, *at - '0', &span.seconds)) {
            return ERR_INVALID;
        }
        at++;
    }
    if (*at == '.') {
        at++;
        if (parse_fraction(&at, &span.nanos) != 0) {
            return ERR_INVALID;
        }
    }
    if (strcmp(at, "s") != 0) {
        return ERR_INVALID;
    }
    out->seconds = is_negative ? -span.seconds : span.seconds;
    out->nanos = is_negative ? -span.nanos : span.nanos;
    return 0;
}

void protojson_format_span(struct protojson_span span, char out[PROTOJSON_SPAN_BYTES])
{
    bool is_negative = span.seconds < 0 || span.nanos < 0;
    uint64_t seconds = (uint64_t)(span.seconds < 0 ? -span.seconds : span.seconds);
    uint32_t fraction = (uint32_t)(span.nanos < 0 ? -span.nanos : span.nanos);
    int width = 9;

    while (width > 0 && fraction % 1000 == 0) {
        fraction /= 1000;
        width -= 3;
    }
    if (width == 0) {
        (void)snprintf(out, PROTOJSON_SPAN_BYTES, "%s%" PRIu64 "s", is_negative ? "-" : "",
                       seconds);
    } else {
        (void)snprintf(out, PROTOJSON_SPAN_BYTES, "%s%" PRIu64 ".%0*" PRIu32 "s",
                       is_negative ? "-" : "", seconds, width, fraction);
    }
}
