/* SPDX-License-Identifier: Apache-2.0
 *
 * YAML events flattened to dotted keys. The event parser is libyaml's; what may stand where is
 * ours.
 */
#include "lib/yaml/flat_yaml.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <yaml.h>

#include <stdarg.h>
#include <string.h>

#define DEPTH_MAX       4
#define TEXT_BYTES_MAX  262144
#define VALUE_BYTES_MAX 65536

/*
 * 1. key[0 … prefix[depth − 1]) names the mapping that we are in.
 * 2. has_key: the key of the next value is complete in `key`.
 */
struct flattener {
    const char *name;
    struct buf *errors;
    flat_entry_fn entry;
    void *ctx;
    char key[YAML_KEY_BYTES_MAX + 1];
    size_t prefix[DEPTH_MAX + 1];
    size_t depth; /* mappings that are open */
    bool has_key;
    bool in_list;
    size_t line;      /* of the key */
    size_t documents; /* seen so far */
    char *seen[YAML_KEY_COUNT_MAX];
    size_t seen_count;
    struct buf bytes; /* of the items of the present value */
    size_t ends[YAML_ITEM_COUNT_MAX];
    size_t item_count;
};

static int refuse(struct flattener *f, size_t line, const char *format, ...) PRINTF_LIKE(3, 4);

static int refuse(struct flattener *f, size_t line, const char *format, ...)
{
    char text[512];
    va_list arguments;

    va_start(arguments, format);
    (void)vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    (void)buf_printf(f->errors, "%s:%zu: %s\n", f->name, line, text);
    return ERR_INVALID;
}

static size_t line_of(const yaml_event_t *event)
{
    return event->start_mark.line + 1;
}

/* Every complete key once, whether it was written nested or dotted. */
static int note_key(struct flattener *f)
{
    for (size_t i = 0; i < f->seen_count; i++) {
        if (strcmp(f->seen[i], f->key) == 0) {
            return refuse(f, f->line, "key \"%s\" is given twice", f->key);
        }
    }
    if (f->seen_count == YAML_KEY_COUNT_MAX) {
        return refuse(f, f->line, "more than %d keys", YAML_KEY_COUNT_MAX);
    }
    f->seen[f->seen_count] = mem_copy(f->key, strlen(f->key));
    if (f->seen[f->seen_count] == NULL) {
        return ERR_NO_MEMORY;
    }
    f->seen_count++;
    return 0;
}

static int on_key(struct flattener *f, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    size_t start = f->depth == 1 ? 0 : f->prefix[f->depth - 1] + 1;

    f->line = line_of(event);
    if (len == 0 || strlen(text) != len) {
        return refuse(f, f->line, "a key is empty or has a NUL byte");
    }
    if (start + len > YAML_KEY_BYTES_MAX) {
        return refuse(f, f->line, "a key is longer than %d bytes", YAML_KEY_BYTES_MAX);
    }
    if (f->depth > 1) {
        f->key[start - 1] = '.';
    }
    memcpy(f->key + start, text, len);
    f->key[start + len] = '\0';
    f->has_key = true;
    return note_key(f);
}

static int add_item(struct flattener *f, const yaml_event_t *event)
{
    const char *text = (const char *)event->data.scalar.value;
    size_t len = event->data.scalar.length;
    bool is_plain = event->data.scalar.style == YAML_PLAIN_SCALAR_STYLE;

    if (is_plain && (len == 0 || strcmp(text, "~") == 0 || strcmp(text, "null") == 0)) {
        return refuse(f, line_of(event), "\"%s\" has no value; write \"\" for an empty one",
                      f->key);
    }
    if (strlen(text) != len) {
        return refuse(f, line_of(event), "the value of \"%s\" has a NUL byte", f->key);
    }
    if (f->item_count == YAML_ITEM_COUNT_MAX) {
        return refuse(f, line_of(event), "\"%s\" has more than %d items", f->key,
                      YAML_ITEM_COUNT_MAX);
    }
    if (buf_append(&f->bytes, text, len) != 0) {
        return refuse(f, line_of(event), "the value of \"%s\" is too long", f->key);
    }
    f->ends[f->item_count++] = buf_len(&f->bytes);
    return 0;
}

static void report_entry(struct flattener *f, bool is_list)
{
    struct slice items[YAML_ITEM_COUNT_MAX];
    struct slice bytes = buf_slice(&f->bytes);
    size_t start = 0;
    struct flat_entry entry = {f->key, f->line, items, f->item_count, is_list};

    for (size_t i = 0; i < f->item_count; i++) {
        items[i].data = bytes.data == NULL ? NULL : bytes.data + start;
        items[i].len = f->ends[i] - start;
        start = f->ends[i];
    }
    f->entry(f->ctx, &entry);
    f->item_count = 0;
    buf_clear(&f->bytes);
    f->has_key = false;
}

static int on_scalar(struct flattener *f, const yaml_event_t *event)
{
    int err;

    if (event->data.scalar.anchor != NULL || event->data.scalar.tag != NULL) {
        return refuse(f, line_of(event), "anchors and tags are not supported");
    }
    if (f->depth == 0) {
        bool is_nothing = event->data.scalar.length == 0;

        return is_nothing ? 0 : refuse(f, line_of(event), "expected \"key: value\" lines");
    }
    if (!f->has_key) {
        return on_key(f, event);
    }
    err = add_item(f, event);
    if (err == 0 && !f->in_list) {
        report_entry(f, false);
    }
    return err;
}

static int on_mapping(struct flattener *f, const yaml_event_t *event)
{
    if (event->data.mapping_start.anchor != NULL || event->data.mapping_start.tag != NULL) {
        return refuse(f, line_of(event), "anchors and tags are not supported");
    }
    if (f->in_list) {
        return refuse(f, line_of(event), "\"%s\" takes plain texts as items", f->key);
    }
    if (f->depth > 0 && !f->has_key) {
        return refuse(f, line_of(event), "a key cannot be a mapping");
    }
    if (f->depth == DEPTH_MAX) {
        return refuse(f, line_of(event), "\"%s\" is nested deeper than %d levels", f->key,
                      DEPTH_MAX);
    }
    if (f->depth > 0) {
        f->prefix[f->depth] = strlen(f->key);
    }
    f->depth++;
    f->has_key = false;
    return 0;
}

static int on_sequence(struct flattener *f, const yaml_event_t *event)
{
    if (event->data.sequence_start.anchor != NULL || event->data.sequence_start.tag != NULL) {
        return refuse(f, line_of(event), "anchors and tags are not supported");
    }
    if (f->depth == 0) {
        return refuse(f, line_of(event), "expected \"key: value\" lines");
    }
    if (!f->has_key) {
        return refuse(f, line_of(event), "a key cannot be a list");
    }
    if (f->in_list) {
        return refuse(f, line_of(event), "\"%s\" takes plain texts as items", f->key);
    }
    f->in_list = true;
    return 0;
}

static int on_document(struct flattener *f, const yaml_event_t *event)
{
    f->documents++;
    return f->documents > 1 ? refuse(f, line_of(event), "more than one document") : 0;
}

static int on_event(struct flattener *f, const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_DOCUMENT_START_EVENT:
        return on_document(f, event);
    case YAML_ALIAS_EVENT:
        return refuse(f, line_of(event), "aliases are not supported");
    case YAML_SCALAR_EVENT:
        return on_scalar(f, event);
    case YAML_MAPPING_START_EVENT:
        return on_mapping(f, event);
    case YAML_MAPPING_END_EVENT:
        f->depth--;
        return 0;
    case YAML_SEQUENCE_START_EVENT:
        return on_sequence(f, event);
    case YAML_SEQUENCE_END_EVENT:
        f->in_list = false;
        report_entry(f, true);
        return 0;
    case YAML_NO_EVENT:
    case YAML_STREAM_START_EVENT:
    case YAML_STREAM_END_EVENT:
    case YAML_DOCUMENT_END_EVENT:
        return 0;
    }
    return 0;
}

static int run_parser(struct flattener *f, yaml_parser_t *parser)
{
    bool is_end = false;
    int err = 0;

    while (err == 0 && !is_end) {
        yaml_event_t event;

        if (yaml_parser_parse(parser, &event) == 0) {
            return refuse(f, parser->problem_mark.line + 1, "%s",
                          parser->problem != NULL ? parser->problem : "not YAML");
        }
        err = on_event(f, &event);
        is_end = event.type == YAML_STREAM_END_EVENT;
        yaml_event_delete(&event);
    }
    return err;
}

int flat_yaml_parse(const char *name, struct slice text, flat_entry_fn entry, void *ctx,
                    struct buf *errors)
{
    struct flattener *f = mem_new(1, sizeof(*f));
    yaml_parser_t parser;
    int err = ERR_NO_MEMORY;

    if (f == NULL) {
        return ERR_NO_MEMORY;
    }
    f->name = name;
    f->errors = errors;
    f->entry = entry;
    f->ctx = ctx;
    buf_init(&f->bytes, VALUE_BYTES_MAX);
    if (text.len > TEXT_BYTES_MAX) {
        err = refuse(f, 1, "longer than %d bytes", TEXT_BYTES_MAX);
    } else if (yaml_parser_initialize(&parser) != 0) {
        yaml_parser_set_input_string(&parser, text.data, text.len);
        err = run_parser(f, &parser);
        yaml_parser_delete(&parser);
    }
    for (size_t i = 0; i < f->seen_count; i++) {
        mem_free(f->seen[i]);
    }
    buf_fini(&f->bytes);
    mem_free(f);
    return err;
}
