/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of contexts, and what it says about a command line.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "client/cli/context.h"

#include "client/cli/cli.h"
#include "lib/base/buf.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/yaml/flat_yaml.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct {
    const char *option;   /* and the key in the file */
    const char *variable; /* NULL: no variable says it */
    const char *alias;    /* another name of the variable */
} SETTINGS[] = {
    {"address", "FOLIOT_ADDRESS", "FOLIOT_SERVER"},
    {"namespace", "FOLIOT_NAMESPACE", NULL},
    {"timeout", NULL, NULL},
    {"tz", NULL, NULL},
    {"tls", NULL, NULL},
    {"tls-ca", NULL, NULL},
    {"tls-cert", NULL, NULL},
    {"tls-key", NULL, NULL},
    {"tls-name", NULL, NULL},
};

_Static_assert(ARRAY_COUNT(SETTINGS) <= CONTEXT_SETTING_MAX, "a context has room for each");

size_t context_setting_count(void)
{
    return ARRAY_COUNT(SETTINGS);
}

const char *context_setting(size_t index)
{
    return SETTINGS[index].option;
}

/* No dots: they part keys in the file. */
static bool is_name(const char *name)
{
    size_t len = strlen(name);

    return len > 0 && len <= NAME_BYTES_MAX &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_-") == len;
}

struct context *contexts_find(struct contexts *contexts, const char *name)
{
    for (size_t i = 0; i < contexts->count; i++) {
        if (strcmp(contexts->items[i].name, name) == 0) {
            return &contexts->items[i];
        }
    }
    return NULL;
}

int contexts_make(struct contexts *contexts, const char *name, struct context **out)
{
    size_t at = 0;

    *out = contexts_find(contexts, name);
    if (*out != NULL) {
        return CLI_OK;
    }
    if (!is_name(name)) {
        return cli_usage("context \"%s\" must be 1 to %d of a-z 0-9 _ - (NAME_BYTES_MAX)", name,
                         NAME_BYTES_MAX);
    }
    if (contexts->count == CONTEXT_COUNT_MAX) {
        return cli_usage("there are %d contexts, as many as there may be (CONTEXT_COUNT_MAX); "
                         "foliot context delete takes one away",
                         CONTEXT_COUNT_MAX);
    }
    while (at < contexts->count && strcmp(contexts->items[at].name, name) < 0) {
        at++;
    }
    memmove(&contexts->items[at + 1], &contexts->items[at],
            (contexts->count - at) * sizeof(contexts->items[0]));
    contexts->count++;
    *out = &contexts->items[at];
    memset(*out, 0, sizeof(**out));
    (void)snprintf((*out)->name, sizeof((*out)->name), "%s", name);
    return CLI_OK;
}

static void clear_context(struct context *context)
{
    for (size_t i = 0; i < ARRAY_COUNT(SETTINGS); i++) {
        mem_free(context->values[i]);
        context->values[i] = NULL;
    }
}

void contexts_remove(struct contexts *contexts, struct context *context)
{
    size_t at = (size_t)(context - contexts->items);

    clear_context(context);
    contexts->count--;
    memmove(context, context + 1, (contexts->count - at) * sizeof(*context));
}

void contexts_fini(struct contexts *contexts)
{
    for (size_t i = 0; i < contexts->count; i++) {
        clear_context(&contexts->items[i]);
    }
    contexts->count = 0;
}

int context_set(struct context *context, size_t setting, const char *value)
{
    char *copy = NULL;

    if (value != NULL && value[0] != '\0') {
        copy = mem_copy(value, strlen(value));
        if (copy == NULL) {
            cli_say("out of memory");
            return CLI_ERROR;
        }
    }
    mem_free(context->values[setting]);
    context->values[setting] = copy;
    return CLI_OK;
}

/* ---- the file ---- */

static void find_path(struct contexts *contexts)
{
    const char *folder = cli_variable("XDG_CONFIG_HOME");
    const char *home = cli_variable("HOME");
    int len = 0;

    // A relative one is to be ignored. source: XDG Base Directory Specification
    if (folder != NULL && folder[0] == '/') {
        len = snprintf(contexts->path, sizeof(contexts->path), "%s/foliot/contexts.yaml", folder);
    } else if (home != NULL && home[0] == '/') {
        len = snprintf(contexts->path, sizeof(contexts->path), "%s/.config/foliot/contexts.yaml",
                       home);
    }
    if (len < 0 || (size_t)len >= sizeof(contexts->path)) {
        contexts->path[0] = '\0';
    }
}

struct loading {
    struct contexts *contexts;
    struct buf errors;
    int code; /* of the first thing that is wrong */
};

/* "contexts.NAME.SETTING" */
static int take_setting(struct loading *loading, const char *rest, const char *value)
{
    char name[YAML_KEY_BYTES_MAX + 1];
    const char *setting = strrchr(rest, '.');
    struct context *context;
    size_t i = 0;
    int code;

    if (setting == NULL) {
        return ERR_INVALID;
    }
    while (i < ARRAY_COUNT(SETTINGS) && strcmp(setting + 1, SETTINGS[i].option) != 0) {
        i++;
    }
    if (i == ARRAY_COUNT(SETTINGS)) {
        return ERR_INVALID;
    }
    (void)snprintf(name, sizeof(name), "%.*s", (int)(setting - rest), rest);
    code = contexts_make(loading->contexts, name, &context);
    if (code == CLI_OK) {
        code = context_set(context, i, value);
    }
    loading->code = loading->code == CLI_OK ? code : loading->code;
    return 0;
}

static void on_entry(void *ctx, const struct flat_entry *entry)
{
    struct loading *loading = ctx;
    struct contexts *contexts = loading->contexts;
    static const char prefix[] = "contexts.";
    char value[CONTEXT_VALUE_BYTES_MAX + 1];
    bool is_known = !entry->is_list && entry->items[0].len < sizeof(value);

    if (is_known) {
        (void)snprintf(value, sizeof(value), "%.*s", (int)entry->items[0].len,
                       (const char *)entry->items[0].data);
        if (strcmp(entry->key, "current") == 0 && strlen(value) <= NAME_BYTES_MAX) {
            (void)snprintf(contexts->current, sizeof(contexts->current), "%.63s", value);
        } else {
            is_known = strncmp(entry->key, prefix, strlen(prefix)) == 0 &&
                       take_setting(loading, entry->key + strlen(prefix), value) == 0;
        }
    }
    if (!is_known) {
        (void)buf_printf(&loading->errors,
                         "%s:%zu: %s: not known here; contexts.NAME has address, namespace, "
                         "timeout, tz, tls, tls-ca, tls-cert, tls-key and tls-name\n",
                         contexts->path, entry->line, entry->key);
    }
}

/* The file's text; a file that is not there is empty. */
static int read_file(const char *path, struct buf *out)
{
    uint8_t chunk[4096];
    FILE *file = fopen(path, "rb");
    size_t len = 1;
    int code = CLI_OK;

    if (file == NULL) {
        return errno == ENOENT || errno == ENOTDIR
                   ? CLI_OK
                   : cli_usage("cannot read \"%s\": %s", path, strerrordesc_np(errno));
    }
    while (len > 0 && code == CLI_OK) {
        len = fread(chunk, 1, sizeof(chunk), file);
        if (buf_append(out, chunk, len) != 0) {
            code = cli_usage("\"%s\" is longer than %d bytes (CONTEXT_FILE_BYTES_MAX)", path,
                             CONTEXT_FILE_BYTES_MAX);
        }
    }
    if (code == CLI_OK && ferror(file) != 0) {
        code = cli_usage("cannot read \"%s\": %s", path, strerrordesc_np(errno));
    }
    (void)fclose(file);
    return code;
}

static int parse_file(struct contexts *contexts, struct slice text)
{
    struct loading loading = {.contexts = contexts, .code = CLI_OK};
    int err;

    buf_init(&loading.errors, CONTEXT_FILE_BYTES_MAX);
    err = flat_yaml_parse(contexts->path, text, on_entry, &loading, &loading.errors);
    if (err != 0 || buf_len(&loading.errors) > 0) {
        const char *lines = buf_text(&loading.errors);

        // The first line is enough: mending one mistake often mends the others.
        loading.code =
            cli_usage("%.*s", (int)strcspn(lines, "\n"), lines[0] == '\0' ? err_text(err) : lines);
    }
    buf_fini(&loading.errors);
    return loading.code;
}

int contexts_load(struct contexts *contexts)
{
    struct buf text;
    int code;

    memset(contexts, 0, sizeof(*contexts));
    find_path(contexts);
    if (contexts->path[0] == '\0') {
        return CLI_OK;
    }
    buf_init(&text, CONTEXT_FILE_BYTES_MAX);
    code = read_file(contexts->path, &text);
    if (code == CLI_OK && buf_len(&text) > 0) {
        code = parse_file(contexts, buf_slice(&text));
    }
    buf_fini(&text);
    return code;
}

/* A YAML scalar in double quotes. Control characters have been refused. */
static void write_value(struct buf *out, const char *value)
{
    (void)buf_append_text(out, "\"");
    for (; *value != '\0'; value++) {
        if (*value == '"' || *value == '\\') {
            (void)buf_append_text(out, "\\");
        }
        (void)buf_append(out, value, 1);
    }
    (void)buf_append_text(out, "\"\n");
}

static void write_contexts(const struct contexts *contexts, struct buf *out)
{
    (void)buf_append_text(out,
                          "# Contexts of the foliot command; foliot context set changes them.\n");
    if (contexts->current[0] != '\0') {
        (void)buf_append_text(out, "current: ");
        write_value(out, contexts->current);
    }
    if (contexts->count > 0) {
        (void)buf_append_text(out, "contexts:\n");
    }
    for (size_t i = 0; i < contexts->count; i++) {
        (void)buf_printf(out, "  \"%s\":\n", contexts->items[i].name);
        for (size_t j = 0; j < ARRAY_COUNT(SETTINGS); j++) {
            if (contexts->items[i].values[j] != NULL) {
                (void)buf_printf(out, "    %s: ", SETTINGS[j].option);
                write_value(out, contexts->items[i].values[j]);
            }
        }
    }
}

/* Make the folders above the file, as far as they are missing; what fails shows when it is
 * opened. */
static void make_folders(const char *path)
{
    char folder[CONTEXT_PATH_BYTES];

    for (size_t i = 1; path[i] != '\0'; i++) {
        if (path[i] == '/') {
            (void)snprintf(folder, sizeof(folder), "%.*s", (int)i, path);
            (void)mkdir(folder, 0700);
        }
    }
}

/* Whole or not at all: a new file takes the place of the old one. */
static int write_file(const char *path, struct slice text)
{
    char scratch[CONTEXT_PATH_BYTES + 8];
    int fd;
    bool is_written;

    (void)snprintf(scratch, sizeof(scratch), "%s.new", path);
    fd = open(scratch, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        cli_say("cannot write \"%s\": %s", scratch, strerrordesc_np(errno));
        return CLI_ERROR;
    }
    is_written = write(fd, text.data, text.len) == (ssize_t)text.len;
    is_written = close(fd) == 0 && is_written;
    if (!is_written || rename(scratch, path) != 0) {
        cli_say("cannot write \"%s\": %s", path, strerrordesc_np(errno));
        (void)unlink(scratch);
        return CLI_ERROR;
    }
    return CLI_OK;
}

int contexts_save(const struct contexts *contexts)
{
    struct buf text;
    int code;

    if (contexts->path[0] == '\0') {
        return cli_usage("there is no place for contexts: set XDG_CONFIG_HOME or HOME");
    }
    buf_init(&text, CONTEXT_FILE_BYTES_MAX);
    write_contexts(contexts, &text);
    make_folders(contexts->path);
    if (text.failed) {
        code = cli_usage("the contexts need more than %d bytes (CONTEXT_FILE_BYTES_MAX)",
                         CONTEXT_FILE_BYTES_MAX);
    } else {
        code = write_file(contexts->path, buf_slice(&text));
    }
    buf_fini(&text);
    return code;
}

/* ---- a command line ---- */

/* The context that is meant; *out is NULL if none is. */
static int find_meant(struct contexts *contexts, const char *name, const char *where,
                      struct context **out)
{
    *out = NULL;
    if (name == NULL || name[0] == '\0') {
        return CLI_OK;
    }
    *out = contexts_find(contexts, name);
    if (*out == NULL) {
        cli_say("there is no context \"%s\"%s; foliot context list shows those there are", name,
                where);
        return CLI_NOT_FOUND;
    }
    return CLI_OK;
}

/* What says the setting, if its option does not; NULL if nothing does. */
static const char *find_value(size_t setting, const struct context *named,
                              const struct context *in_use)
{
    const char *value = named != NULL ? named->values[setting] : NULL;

    if (value == NULL && SETTINGS[setting].variable != NULL) {
        value = cli_variable(SETTINGS[setting].variable);
    }
    if (value == NULL && SETTINGS[setting].alias != NULL) {
        value = cli_variable(SETTINGS[setting].alias);
    }
    if (value == NULL && named == NULL && in_use != NULL) {
        value = in_use->values[setting];
    }
    return value;
}

static int add_settings(const struct args_tables *tables, struct args *args,
                        const struct context *named, const struct context *in_use)
{
    for (size_t i = 0; i < ARRAY_COUNT(SETTINGS); i++) {
        const char *name = SETTINGS[i].option;
        const char *value = find_value(i, named, in_use);

        if (value == NULL || value[0] == '\0' || args_has(args, name) ||
            args_find_option(tables, name, strlen(name)) == NULL ||
            (strcmp(name, "tz") == 0 && args_has(args, "utc"))) {
            continue;
        }
        if (args_add(args, name, value) != 0) {
            return cli_usage("more than %d options (ARGS_ITEM_COUNT_MAX)", ARGS_ITEM_COUNT_MAX);
        }
    }
    return CLI_OK;
}

int context_apply(struct contexts *contexts, const struct args_tables *tables, struct args *args)
{
    struct context *named;
    struct context *in_use;
    const char *variable = cli_variable("FOLIOT_CONTEXT");
    int code;

    memset(contexts, 0, sizeof(*contexts));
    if (args_find_option(tables, "context", strlen("context")) == NULL) {
        return CLI_OK; // It asks no broker, so no context is about it.
    }
    code = contexts_load(contexts);
    if (code == CLI_OK) {
        code = find_meant(contexts, args_text(args, "context", NULL), "", &named);
    }
    if (code == CLI_OK && variable != NULL && variable[0] != '\0') {
        code = find_meant(contexts, variable, " (FOLIOT_CONTEXT)", &in_use);
    } else if (code == CLI_OK) {
        in_use = contexts_find(contexts, contexts->current);
    }
    return code == CLI_OK ? add_settings(tables, args, named, in_use) : code;
}
