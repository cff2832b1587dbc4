/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON on one line, written as it comes: commas and escapes are right, the order is the caller's.
 */
#ifndef FOLIOT_CLIENT_CLI_JSON_H
#define FOLIOT_CLIENT_CLI_JSON_H

#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stdint.h>

/* Appending is sticky on failure, as the buffer's is. */
struct json {
    struct buf *out;
    bool needs_comma;
};

void json_init(struct json *json, struct buf *out);

/* Brackets. shape: name NULL inside an array and at the top. */
void json_open(struct json *json, const char *name, char bracket);
void json_close(struct json *json, char bracket);

/* Members. shape: name NULL inside an array. */
void json_text(struct json *json, const char *name, const char *text);
void json_slice(struct json *json, const char *name, struct slice text); /* clean UTF-8 */
void json_int(struct json *json, const char *name, int64_t value);   /* of 32 bits on the wire */
void json_int64(struct json *json, const char *name, int64_t value); /* a text, as proto3 has it */
void json_bool(struct json *json, const char *name, bool value);

/* Bytes in base64, as proto3 JSON has them. */
void json_bytes(struct json *json, const char *name, struct slice bytes);

/* A moment as RFC 3339; left out for WALL_NEVER. */
void json_time(struct json *json, const char *name, wall_ms time);

/* A length of time as proto3 JSON has it: "1.500s". */
void json_span(struct json *json, const char *name, span_ms span);

/* Tags in their canonical text (lib/model/tags.h), as an object. */
void json_tags(struct json *json, const char *name, struct slice tags);

/* An array of texts. */
void json_texts(struct json *json, const char *name, const char *const *texts, size_t count);

#endif
