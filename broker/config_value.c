/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of options: read from text, checked against type and range, written as YAML.
 */
#include "broker/config_table.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static void *field_of(struct config *config, const struct config_option *option)
{
    return (char *)config + option->field;
}

static const void *field_at(const struct config *config, const struct config_option *option)
{
    return (const char *)config + option->field;
}

static const struct {
    const char *name;
    int64_t ms;
} UNITS[] = {{"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};

/* A number and what follows it; false if it is no number or too large. */
static bool read_number(struct slice text, int64_t *number, struct slice *rest)
{
    size_t i = 0;
    int64_t value = 0;

    while (i < text.len && text.data[i] >= '0' && text.data[i] <= '9') {
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text.data[i] - '0', &value)) {
            return false;
        }
        i++;
    }
    *number = value;
    rest->data = text.data == NULL ? NULL : text.data + i;
    rest->len = text.len - i;
    return i > 0;
}

static void format_span(int64_t ms, char *text, size_t size)
{
    size_t unit = ARRAY_COUNT(UNITS) - 1;

    while (unit > 0 && (ms % UNITS[unit].ms != 0 || ms == 0)) {
        unit--;
    }
    (void)snprintf(text, size, "%" PRId64 "%s", ms / UNITS[unit].ms, UNITS[unit].name);
}

static int set_count(int64_t *field, const struct config_option *option, struct slice text,
                     char *errmsg, size_t errmsg_size)
{
    struct slice rest;
    int64_t value;

    if (!read_number(text, &value, &rest) || rest.len > 0 || value < option->low ||
        value > option->high) {
        (void)snprintf(errmsg, errmsg_size, "must be a whole number from %" PRId64 " to %" PRId64,
                       option->low, option->high);
        return ERR_INVALID;
    }
    *field = value;
    return 0;
}

static int set_span(span_ms *field, const struct config_option *option, struct slice text,
                    char *errmsg, size_t errmsg_size)
{
    char low[32];
    char high[32];
    struct slice rest;
    int64_t value = 0;
    bool is_good = false;

    if (read_number(text, &value, &rest)) {
        for (size_t i = 0; i < ARRAY_COUNT(UNITS); i++) {
            if (slice_equal(rest, slice_of(UNITS[i].name))) {
                is_good = !__builtin_mul_overflow(value, UNITS[i].ms, &value);
                break;
            }
        }
    }
    if (!is_good || value < option->low || value > option->high) {
        format_span(option->low, low, sizeof(low));
        format_span(option->high, high, sizeof(high));
        (void)snprintf(errmsg, errmsg_size,
                       "must be a time with its unit (ms, s, m, h, d) from %s to %s", low, high);
        return ERR_INVALID;
    }
    *field = value;
    return 0;
}

static int set_choice(int64_t *field, const struct config_option *option, struct slice text,
                      char *errmsg, size_t errmsg_size)
{
    const char *word = option->choices;
    int64_t index = 0;

    for (;;) {
        size_t len = strcspn(word, "|");

        if (slice_equal(text, (struct slice){(const uint8_t *)word, len})) {
            *field = index;
            return 0;
        }
        if (word[len] == '\0') {
            (void)snprintf(errmsg, errmsg_size, "must be one of %s", option->choices);
            return ERR_INVALID;
        }
        word += len + 1;
        index++;
    }
}

static int set_text(char **field, const struct config_option *option, struct slice text,
                    char *errmsg, size_t errmsg_size)
{
    char *copy;

    if (text.len < (size_t)option->low || text.len > (size_t)option->high) {
        (void)snprintf(errmsg, errmsg_size, "must have %" PRId64 " to %" PRId64 " bytes",
                       option->low, option->high);
        return ERR_INVALID;
    }
    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < 0x20 || text.data[i] >= 0x7f) {
            (void)snprintf(errmsg, errmsg_size, "must be printable ASCII");
            return ERR_INVALID;
        }
    }
    copy = mem_copy(text.data, text.len);
    if (copy == NULL) {
        return ERR_NO_MEMORY;
    }
    mem_free(*field);
    *field = copy;
    return 0;
}

static void clear_list(struct config_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        mem_free(list->items[i]);
    }
    mem_free(list->items);
    list->items = NULL;
    list->count = 0;
}

static int set_list(struct config_list *field, const struct config_option *option,
                    const struct config_value *value, char *errmsg, size_t errmsg_size)
{
    struct config_list list = {NULL, 0};

    if (value->count > (size_t)option->high) {
        (void)snprintf(errmsg, errmsg_size, "must have at most %" PRId64 " items", option->high);
        return ERR_INVALID;
    }
    list.items = mem_new(value->count + 1, sizeof(*list.items));
    if (list.items == NULL) {
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < value->count; i++) {
        struct slice item = value->items[i];

        if (item.len == 0 || item.len > CONFIG_VALUE_BYTES_MAX) {
            (void)snprintf(errmsg, errmsg_size, "must have items of 1 to %d bytes",
                           CONFIG_VALUE_BYTES_MAX);
            clear_list(&list);
            return ERR_INVALID;
        }
        list.items[i] = mem_copy(item.data, item.len);
        if (list.items[i] == NULL) {
            clear_list(&list);
            return ERR_NO_MEMORY;
        }
        list.count++;
    }
    clear_list(field);
    *field = list;
    return 0;
}

int config_option_set(struct config *config, const struct config_option *option,
                      const struct config_value *value, char *errmsg, size_t errmsg_size)
{
    void *field = field_of(config, option);

    if (option->type != OPTION_LIST && (value->is_list || value->count != 1)) {
        (void)snprintf(errmsg, errmsg_size, "must be one value, not a list");
        return ERR_INVALID;
    }
    switch (option->type) {
    case OPTION_TEXT:
        return set_text(field, option, value->items[0], errmsg, errmsg_size);
    case OPTION_COUNT:
        return set_count(field, option, value->items[0], errmsg, errmsg_size);
    case OPTION_SPAN:
        return set_span(field, option, value->items[0], errmsg, errmsg_size);
    case OPTION_CHOICE:
        return set_choice(field, option, value->items[0], errmsg, errmsg_size);
    case OPTION_LIST:
        return set_list(field, option, value, errmsg, errmsg_size);
    }
    return ERR_INTERNAL;
}

/* A text in double quotes, as YAML wants it. Values are printable ASCII or bytes of UTF-8. */
static void write_quoted(const char *text, struct buf *out)
{
    (void)buf_append_text(out, "\"");
    for (; *text != '\0'; text++) {
        if (*text == '"' || *text == '\\') {
            (void)buf_append(out, "\\", 1);
        }
        if (*text == '\n') {
            (void)buf_append_text(out, "\\n");
        } else {
            (void)buf_append(out, text, 1);
        }
    }
    (void)buf_append_text(out, "\"");
}

static void write_list(const struct config_list *list, const struct config_option *option,
                       struct buf *out)
{
    (void)buf_append_text(out, "[");
    for (size_t i = 0; i < list->count; i++) {
        const char *equals = strchr(list->items[i], '=');

        (void)buf_append_text(out, i > 0 ? ", " : "");
        if (option->is_secret) {
            (void)buf_printf(out, "\"%.*s=(hidden)\"",
                             equals == NULL ? 0 : (int)(equals - list->items[i]), list->items[i]);
        } else {
            write_quoted(list->items[i], out);
        }
    }
    (void)buf_append_text(out, "]");
}

static void write_choice(int64_t index, const char *choices, struct buf *out)
{
    const char *word = choices;

    for (; index > 0; index--) {
        word += strcspn(word, "|") + 1;
    }
    (void)buf_append(out, word, strcspn(word, "|"));
}

void config_option_write(const struct config *config, const struct config_option *option,
                         struct buf *out)
{
    const void *field = field_at(config, option);
    char text[32];

    switch (option->type) {
    case OPTION_TEXT:
        write_quoted(*(char *const *)field, out);
        break;
    case OPTION_COUNT:
        (void)buf_printf(out, "%" PRId64, *(const int64_t *)field);
        break;
    case OPTION_SPAN:
        format_span(*(const int64_t *)field, text, sizeof(text));
        (void)buf_append_text(out, text);
        break;
    case OPTION_CHOICE:
        write_choice(*(const int64_t *)field, option->choices, out);
        break;
    case OPTION_LIST:
        write_list(field, option, out);
        break;
    }
}

void config_option_clear(struct config *config, const struct config_option *option)
{
    void *field = field_of(config, option);

    switch (option->type) {
    case OPTION_TEXT:
        mem_free(*(char **)field);
        *(char **)field = NULL;
        break;
    case OPTION_LIST:
        clear_list(field);
        break;
    case OPTION_COUNT:
    case OPTION_SPAN:
    case OPTION_CHOICE:
        break;
    }
}
