/* SPDX-License-Identifier: Apache-2.0
 *
 * Settings from all sources: defaults first, then the file, the environment and the flags, each
 * over the ones before. Every source is read to its end, so that all errors are told at once.
 */
#define _GNU_SOURCE // strerrordesc_np(): strerror() is not for programs with threads

#include "broker/config.h"

#include "broker/config_check.h"
#include "broker/config_table.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/yaml/flat_yaml.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PREFIX          "FOLIOT_"
#define FILE_SUFFIX     "_FILE"
#define TEST_PREFIX     "FOLIOT_TEST_"
#define CONFIG_VARIABLE "FOLIOT_CONFIG"

/* What one source gives for one option. */
struct reading {
    struct config *config;
    struct config_report *report;
    enum config_source source;
    const char *path; /* of the YAML file */
    bool out_of_memory;
};

void config_report_init(struct config_report *report)
{
    buf_init(&report->errors, CONFIG_REPORT_BYTES_MAX);
    buf_init(&report->warnings, CONFIG_REPORT_BYTES_MAX);
}

void config_report_fini(struct config_report *report)
{
    buf_fini(&report->errors);
    buf_fini(&report->warnings);
}

void config_fini(struct config *config)
{
    for (size_t i = 0; i < config_option_count(); i++) {
        config_option_clear(config, config_option_at(i));
    }
}

static void set_value(struct reading *r, size_t index, const struct config_value *value,
                      const char *where)
{
    const struct config_option *option = config_option_at(index);
    struct config_origin *origin = &r->config->origins[index];
    char why[256];
    int err = config_option_set(r->config, option, value, why, sizeof(why));

    if (err == ERR_NO_MEMORY) {
        r->out_of_memory = true;
    } else if (err != 0) {
        (void)buf_printf(&r->report->errors, "%s: %s %s\n", where, option->key, why);
    } else {
        origin->source = r->source;
        (void)snprintf(origin->where, sizeof(origin->where), "%s", where);
    }
}

static bool is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static struct slice trimmed(struct slice text)
{
    REQUIRE(text.data != NULL || text.len == 0);
    while (text.len > 0 && is_space(text.data[0])) {
        text.data++;
        text.len--;
    }
    while (text.len > 0 && is_space(text.data[text.len - 1])) {
        text.len--;
    }
    return text;
}

/* Append the items of a list that is written as one text; false if there are too many. */
static bool split_items(struct slice text, char separator, struct slice *items, size_t *count)
{
    size_t start = 0;

    for (size_t i = 0; i <= text.len; i++) {
        struct slice item;

        if (i < text.len && text.data[i] != (uint8_t)separator && text.data[i] != '\n') {
            continue;
        }
        item = trimmed((struct slice){text.data == NULL ? NULL : text.data + start, i - start});
        start = i + 1;
        if (item.len > 0 && *count == CONFIG_LIST_COUNT_MAX) {
            return false;
        }
        if (item.len > 0) {
            items[(*count)++] = item;
        }
    }
    return true;
}

/* A value written as one text. */
static void set_text_value(struct reading *r, size_t index, struct slice text, const char *where)
{
    const struct config_option *option = config_option_at(index);
    struct slice items[CONFIG_LIST_COUNT_MAX];
    struct config_value value = {items, 0, false};

    if (option->type != OPTION_LIST) {
        items[0] = text;
        value.count = 1;
    } else if (split_items(text, option->separator, items, &value.count)) {
        value.is_list = true;
    } else {
        (void)buf_printf(&r->report->errors, "%s: %s must have at most %d items\n", where,
                         option->key, CONFIG_LIST_COUNT_MAX);
        return;
    }
    set_value(r, index, &value, where);
}

/* ---- defaults ---- */

static void read_defaults(struct reading *r)
{
    r->source = CONFIG_DEFAULT;
    for (size_t i = 0; i < config_option_count(); i++) {
        set_text_value(r, i, slice_of(config_option_at(i)->default_value), "default");
    }
}

/* ---- files ---- */

static int read_file(const char *path, struct buf *text, struct buf *errors)
{
    FILE *file = fopen(path, "rbe");
    size_t len = 1;

    if (file == NULL) {
        (void)buf_printf(errors, "%s: cannot be opened: %s\n", path, strerrordesc_np(errno));
        return ERR_INVALID;
    }
    while (len > 0 && !text->failed) {
        uint8_t chunk[4096];

        len = fread(chunk, 1, sizeof(chunk), file);
        (void)buf_append(text, chunk, len);
    }
    if (ferror(file) != 0 || text->failed) {
        (void)buf_printf(errors, "%s: cannot be read, or is longer than %d bytes\n", path,
                         CONFIG_FILE_BYTES_MAX);
        (void)fclose(file);
        return ERR_INVALID;
    }
    (void)fclose(file);
    return 0;
}

static void add_hint(struct buf *errors, const char *near, const char *prefix)
{
    if (near != NULL) {
        (void)buf_printf(errors, "; did you mean %s%s?", prefix, near);
    }
    (void)buf_append_text(errors, "\n");
}

static void on_yaml_entry(void *ctx, const struct flat_entry *entry)
{
    struct reading *r = ctx;
    size_t index = config_option_find(entry->key);
    char where[192];

    (void)snprintf(where, sizeof(where), "%.160s:%zu", r->path, entry->line);
    if (index == config_option_count()) {
        (void)buf_printf(&r->report->errors, "%s: unknown key \"%s\"", where, entry->key);
        add_hint(&r->report->errors, config_option_near(entry->key), "");
    } else if (entry->is_list) {
        struct config_value value = {entry->items, entry->item_count, true};

        set_value(r, index, &value, where);
    } else {
        set_text_value(r, index, entry->items[0], where);
    }
}

static void read_yaml(struct reading *r, const char *path)
{
    struct buf text;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    r->source = CONFIG_FILE;
    r->path = path;
    if (read_file(path, &text, &r->report->errors) == 0 &&
        flat_yaml_parse(path, buf_slice(&text), on_yaml_entry, r, &r->report->errors) ==
            ERR_NO_MEMORY) {
        r->out_of_memory = true;
    }
    buf_fini(&text);
}

/* ---- environment ---- */

static const char *variable_value(char **environment, const char *name)
{
    size_t len = strlen(name);

    for (; *environment != NULL; environment++) {
        if (strncmp(*environment, name, len) == 0 && (*environment)[len] == '=') {
            return *environment + len + 1;
        }
    }
    return NULL;
}

static void read_secret_file(struct reading *r, size_t index, const char *path, const char *where)
{
    struct buf text;
    struct slice value;

    buf_init(&text, CONFIG_FILE_BYTES_MAX);
    if (read_file(path, &text, &r->report->errors) == 0) {
        value = buf_slice(&text);
        while (value.len > 0 && value.data[value.len - 1] == '\n') {
            value.len--;
        }
        set_text_value(r, index, value, where);
    }
    buf_fini(&text);
}

static void read_environment(struct reading *r, char **environment)
{
    r->source = CONFIG_ENVIRONMENT;
    for (size_t i = 0; i < config_option_count(); i++) {
        const struct config_option *option = config_option_at(i);
        char name[OPTION_NAME_SIZE];
        char file_name[OPTION_NAME_SIZE + sizeof(FILE_SUFFIX)];
        const char *value;
        const char *path;

        config_option_variable(option, name);
        (void)snprintf(file_name, sizeof(file_name), "%s" FILE_SUFFIX, name);
        value = variable_value(environment, name);
        path = option->is_secret ? variable_value(environment, file_name) : NULL;
        if (value != NULL && path != NULL) {
            (void)buf_printf(&r->report->errors, "%s: also given by %s; keep one of them\n", name,
                             file_name);
        } else if (value != NULL) {
            set_text_value(r, i, slice_of(value), name);
        } else if (path != NULL) {
            read_secret_file(r, i, path, file_name);
        }
    }
}

/* The foliot command's are often set in the same shell. */
static const char *const OTHER_VARIABLES[] = {CONFIG_VARIABLE, "FOLIOT_ADDRESS", "FOLIOT_SERVER",
                                              "FOLIOT_CONTEXT", "FOLIOT_NAMESPACE"};

static bool is_known_variable(const char *name, size_t len)
{
    for (size_t i = 0; i < ARRAY_COUNT(OTHER_VARIABLES); i++) {
        if (len == strlen(OTHER_VARIABLES[i]) && strncmp(name, OTHER_VARIABLES[i], len) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < config_option_count(); i++) {
        const struct config_option *option = config_option_at(i);
        char known[OPTION_NAME_SIZE];
        size_t known_len;

        config_option_variable(option, known);
        known_len = strlen(known);
        if (strncmp(name, known, known_len) == 0 &&
            (len == known_len || (option->is_secret && len == known_len + strlen(FILE_SUFFIX) &&
                                  strncmp(name + known_len, FILE_SUFFIX, 5) == 0))) {
            return true;
        }
    }
    return false;
}

/* Only warned of: Kubernetes sets variables of this prefix that we know nothing of. */
static void warn_of_variables(struct reading *r, char **environment)
{
    for (; *environment != NULL; environment++) {
        size_t len = strcspn(*environment, "=");
        char name[OPTION_NAME_SIZE];
        const char *near;

        if (strncmp(*environment, PREFIX, strlen(PREFIX)) != 0 ||
            strncmp(*environment, TEST_PREFIX, strlen(TEST_PREFIX)) == 0 ||
            is_known_variable(*environment, len)) {
            continue;
        }
        (void)snprintf(name, sizeof(name), "%.*s", (int)(len - strlen(PREFIX)),
                       *environment + strlen(PREFIX));
        near = config_option_near(name);
        (void)buf_printf(&r->report->warnings, "%.*s: not a setting of ours, ignored", (int)len,
                         *environment);
        add_hint(&r->report->warnings, near, "the variable of ");
    }
}

/* ---- flags ---- */

/* Texts that one list option was given by several flags. */
struct flag_list {
    struct slice items[CONFIG_LIST_COUNT_MAX];
    size_t count;
};

static const struct {
    const char *flag;
    enum config_action action;
} ACTIONS[] = {{"--help", CONFIG_SHOW_HELP},
               {"-h", CONFIG_SHOW_HELP},
               {"--version", CONFIG_SHOW_VERSION},
               {"--print-config", CONFIG_SHOW_CONFIG},
               {"--check-config", CONFIG_CHECK_ONLY}};

static bool read_action(const char *text, enum config_action *action)
{
    for (size_t i = 0; i < ARRAY_COUNT(ACTIONS); i++) {
        if (strcmp(text, ACTIONS[i].flag) == 0) {
            *action = ACTIONS[i].action;
            return true;
        }
    }
    return false;
}

/* The value of "--flag=value" or "--flag value"; NULL if argument `*at` is another flag. A value
 * that is missing is "". */
static const char *flag_value(const struct config_input *input, int *at, const char *flag)
{
    const char *text = input->argv[*at];
    size_t len = strlen(flag);

    if (strncmp(text, flag, len) != 0) {
        return NULL;
    }
    if (text[len] == '=') {
        return text + len + 1;
    }
    if (text[len] != '\0') {
        return NULL;
    }
    if (*at + 1 >= input->argc) {
        return "";
    }
    (*at)++;
    return input->argv[*at];
}

/* Several flags of one list option add up. */
static void set_flag(struct reading *r, size_t index, const char *text, struct flag_list *lists)
{
    const struct config_option *option = config_option_at(index);
    char flag[OPTION_NAME_SIZE];

    config_option_flag(option, flag);
    if (option->type != OPTION_LIST) {
        set_text_value(r, index, slice_of(text), flag);
        return;
    }
    if (!split_items(slice_of(text), option->separator, lists[index].items, &lists[index].count)) {
        (void)buf_printf(&r->report->errors, "%s: %s must have at most %d items\n", flag,
                         option->key, CONFIG_LIST_COUNT_MAX);
        return;
    }
    set_value(r, index, &(struct config_value){lists[index].items, lists[index].count, true}, flag);
}

/* With the word behind it, which was meant as its value, so that one mistake gives one line. */
static void unknown_flag(struct reading *r, const struct config_input *input, int *at)
{
    const char *text = input->argv[*at];
    size_t len = strcspn(text, "=");
    char name[OPTION_NAME_SIZE];
    char flag[OPTION_NAME_SIZE];
    const char *near = NULL;

    if (strncmp(text, "--", 2) == 0) {
        (void)snprintf(name, sizeof(name), "%.*s", (int)len - 2, text + 2);
        near = config_option_near(name);
    }
    if (near != NULL) {
        config_option_flag(config_option_at(config_option_find(near)), flag);
        near = flag;
    }
    (void)buf_printf(&r->report->errors, "%.*s: unknown flag", (int)len, text);
    add_hint(&r->report->errors, near, "");
    if (text[0] == '-' && text[len] == '\0' && *at + 1 < input->argc &&
        input->argv[*at + 1][0] != '-') {
        (*at)++;
    }
}

static void read_flag(struct reading *r, const struct config_input *input, int *at,
                      struct flag_list *lists)
{
    for (size_t i = 0; i < config_option_count(); i++) {
        char flag[OPTION_NAME_SIZE];
        const char *value;

        config_option_flag(config_option_at(i), flag);
        if (*at + 1 == input->argc && strcmp(input->argv[*at], flag) == 0) {
            (void)buf_printf(&r->report->errors, "%s: needs a value: %s %s\n", flag, flag,
                             config_option_at(i)->value);
            return;
        }
        value = flag_value(input, at, flag);
        if (value != NULL) {
            set_flag(r, i, value, lists);
            return;
        }
    }
    unknown_flag(r, input, at);
}

static void read_flags(struct reading *r, const struct config_input *input)
{
    struct flag_list *lists = mem_new(config_option_count(), sizeof(*lists));

    r->source = CONFIG_FLAG;
    if (lists == NULL) {
        r->out_of_memory = true;
        return;
    }
    for (int at = 1; at < input->argc; at++) {
        enum config_action ignored;

        if (!read_action(input->argv[at], &ignored) && flag_value(input, &at, "--config") == NULL) {
            read_flag(r, input, &at, lists);
        }
    }
    mem_free(lists);
}

/* What has to be known before anything is read: the file, and what is wanted. */
static const char *scan_flags(const struct config_input *input, enum config_action *action)
{
    const char *path = variable_value(input->environment, CONFIG_VARIABLE);

    *action = CONFIG_RUN;
    for (int at = 1; at < input->argc; at++) {
        const char *value;

        if (read_action(input->argv[at], action)) {
            continue;
        }
        value = flag_value(input, &at, "--config");
        path = value != NULL ? value : path;
    }
    return path;
}

int config_load(struct config *config, const struct config_input *input, enum config_action *action,
                struct config_report *report)
{
    struct reading r = {.config = config, .report = report};
    const char *path = scan_flags(input, action);

    memset(config, 0, sizeof(*config));
    read_defaults(&r);
    if (path != NULL) {
        read_yaml(&r, path);
    }
    read_environment(&r, input->environment);
    warn_of_variables(&r, input->environment);
    read_flags(&r, input);
    if (!r.out_of_memory && buf_len(&report->errors) == 0) {
        config_check(config, &report->errors);
    }
    if (!r.out_of_memory && buf_len(&report->errors) == 0) {
        r.out_of_memory = config_derive(config) != 0;
    }
    if (!r.out_of_memory && buf_len(&report->errors) == 0) {
        return 0;
    }
    config_fini(config);
    return r.out_of_memory ? ERR_NO_MEMORY : ERR_INVALID;
}

/* ---- output ---- */

void config_print(const struct config *config, struct buf *out)
{
    for (size_t i = 0; i < config_option_count(); i++) {
        const struct config_option *option = config_option_at(i);

        (void)buf_printf(out, "%s: ", option->key);
        config_option_write(config, option, out);
        (void)buf_printf(out, " # %s\n", config->origins[i].where);
    }
}

static void help_option(const struct config_option *option, struct buf *out)
{
    char flag[OPTION_NAME_SIZE];
    char variable[OPTION_NAME_SIZE];

    config_option_flag(option, flag);
    config_option_variable(option, variable);
    (void)buf_printf(out, "\n  %s %s\n      %s\n      YAML %s, environment %s%s\n", flag,
                     option->value, option->doc, option->key, variable,
                     option->is_secret ? " or the file named by " : "");
    if (option->is_secret) {
        (void)buf_printf(out, "      %s%s\n", variable, FILE_SUFFIX);
    }
    if (option->type == OPTION_LIST) {
        (void)buf_printf(out, "      A list; in flags and environment parted by '%c' or lines.\n",
                         option->separator);
    }
    if (option->choices != NULL) {
        (void)buf_printf(out, "      One of %s.\n", option->choices);
    }
    if (option->default_value[0] != '\0') {
        (void)buf_printf(out, "      Default: %s\n", option->default_value);
    }
}

void config_help(struct buf *out)
{
    (void)buf_append_text(
        out, "usage: foliotd [FLAGS]\n"
             "A broker of Foliot: joins a cluster by ZooKeeper, keeps tasks in PostgreSQL, fires\n"
             "them by gRPC. Flags win over the environment, that over the file, that over the\n"
             "defaults. SIGTERM drains; a second one ends at once.\n"
             "\n"
             "  --config FILE     read settings from this YAML file (environment FOLIOT_CONFIG)\n"
             "  --check-config    check all settings and exit: 0 if they are good, else 2\n"
             "  --print-config    print all settings with their origin and exit\n"
             "  --version         print the version and exit\n"
             "  --help, -h        print this and exit\n");
    for (size_t i = 0; i < config_option_count(); i++) {
        help_option(config_option_at(i), out);
    }
}
