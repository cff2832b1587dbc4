/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot context list, use, set, delete.
 */
#include "client/cli/cli.h"
#include "client/cli/context.h"
#include "client/cli/output.h"
#include "client/cli/timetext.h"
#include "client/cli/zone.h"
#include "lib/base/err.h"

#include <stdio.h>
#include <string.h>

/* Columns: whether it is in use, its name, its settings. */
#define COLUMN_FIRST_SETTING 2

#define DONE_BYTES 256

static const struct output_column COLUMNS[] = {
    {"CURRENT", false}, {"NAME", false},   {"ADDRESS", false}, {"NAMESPACE", false},
    {"TIMEOUT", false}, {"TZ", false},     {"TLS", true},      {"TLS CA", true},
    {"TLS CERT", true}, {"TLS KEY", true}, {"TLS NAME", true},
};
static const struct output_layout LAYOUT = {COLUMNS, ARRAY_COUNT(COLUMNS), 1, "contexts"};

static void add_context(struct output *output, const struct context *context, bool is_current)
{
    const char *cells[ARRAY_COUNT(COLUMNS)] = {is_current ? "*" : "", context->name};

    if (output_wants_json(output)) {
        struct json *json = output_json(output);

        json_open(json, NULL, '{');
        json_text(json, "name", context->name);
        json_bool(json, "current", is_current);
        for (size_t i = 0; i < context_setting_count(); i++) {
            if (context->values[i] != NULL) {
                json_text(json, context_setting(i), context->values[i]);
            }
        }
        json_close(json, '}');
        output_json_done(output);
        return;
    }
    for (size_t i = 0; i < context_setting_count(); i++) {
        cells[COLUMN_FIRST_SETTING + i] = context->values[i] == NULL ? "" : context->values[i];
    }
    output_row(output, cells);
}

static int context_list(const struct args *args)
{
    static struct contexts contexts;
    struct output output;
    int code = output_init(&output, args, &LAYOUT);

    if (code == CLI_OK) {
        code = contexts_load(&contexts);
    }
    for (size_t i = 0; i < contexts.count && code == CLI_OK; i++) {
        add_context(&output, &contexts.items[i],
                    strcmp(contexts.items[i].name, contexts.current) == 0);
    }
    if (code == CLI_OK) {
        code = output_end(&output);
    }
    contexts_fini(&contexts);
    output_fini(&output);
    return code;
}

static int refuse_name(struct contexts *contexts, const char *name)
{
    const char *names[CONTEXT_COUNT_MAX];
    const char *nearest;

    for (size_t i = 0; i < contexts->count; i++) {
        names[i] = contexts->items[i].name;
    }
    nearest = args_nearest(name, names, contexts->count);
    if (nearest != NULL) {
        cli_say("there is no context \"%s\"; did you mean \"%s\"?", name, nearest);
    } else {
        cli_say("there is no context \"%s\"; foliot context set %s --address HOST:PORT makes it",
                name, name);
    }
    return CLI_NOT_FOUND;
}

/* What a command does to the contexts before they are written back; done says so afterwards, if
 * there is anything to say. shape: done has DONE_BYTES. */
typedef int (*change_fn)(struct contexts *contexts, const char *name, const struct args *args,
                         char *done);

static int change_contexts(const struct args *args, change_fn change)
{
    static struct contexts contexts;
    char done[DONE_BYTES] = "";
    int code;

    if (args->operand_count != 1) {
        return cli_usage("name the context; foliot context list shows those there are");
    }
    code = contexts_load(&contexts);
    if (code == CLI_OK) {
        code = change(&contexts, args->operands[0], args, done);
    }
    if (code == CLI_OK) {
        code = contexts_save(&contexts);
    }
    if (code == CLI_OK && done[0] != '\0') {
        cli_say("%s", done);
    }
    contexts_fini(&contexts);
    return code;
}

static int use(struct contexts *contexts, const char *name, const struct args *args, char *done)
{
    (void)args;
    if (contexts_find(contexts, name) == NULL) {
        return refuse_name(contexts, name);
    }
    (void)snprintf(contexts->current, sizeof(contexts->current), "%s", name);
    (void)snprintf(done, DONE_BYTES, "context \"%s\" is in use", name);
    return CLI_OK;
}

static int context_use(const struct args *args)
{
    return change_contexts(args, use);
}

static bool is_file(const char *setting)
{
    return strcmp(setting, "tls-ca") == 0 || strcmp(setting, "tls-cert") == 0 ||
           strcmp(setting, "tls-key") == 0;
}

/* A value that goes to the file: one line, and no zone that nobody knows. */
static int check_value(const char *setting, const char *value)
{
    span_ms span = 0;

    for (const char *at = value; *at != '\0'; at++) {
        if ((unsigned char)*at < ' ' || *at == '\x7f') {
            return cli_usage("--%s has control characters in it", setting);
        }
    }
    if (strlen(value) > CONTEXT_VALUE_BYTES_MAX) {
        return cli_usage("--%s has more than %d bytes (CONTEXT_VALUE_BYTES_MAX)", setting,
                         CONTEXT_VALUE_BYTES_MAX);
    }
    if (value[0] == '\0') {
        return CLI_OK;
    }
    if (strcmp(setting, "tz") == 0 && zone_use(value) != 0) {
        return cli_usage("--tz \"%s\" is no time zone of this machine; one looks like "
                         "Europe/Paris, see /usr/share/zoneinfo (package tzdata)",
                         value);
    }
    if (strcmp(setting, "address") == 0 && strchr(value, ':') == NULL) {
        return cli_usage("--address \"%s\" must be host:port, as 127.0.0.1:7400", value);
    }
    if (is_file(setting) && value[0] != '/') {
        return cli_usage("--%s \"%s\" must begin with \"/\": a context is used in any folder",
                         setting, value);
    }
    if (strcmp(setting, "timeout") == 0 && timetext_read_span(value, &span) != 0) {
        return cli_usage("--timeout \"%s\" must be a time like 500ms, 10s, 15m, 2h, 1d or 1h30m",
                         value);
    }
    return CLI_OK;
}

static bool is_empty(const struct context *context)
{
    for (size_t i = 0; i < context_setting_count(); i++) {
        if (context->values[i] != NULL) {
            return false;
        }
    }
    return true;
}

static int set(struct contexts *contexts, const char *name, const struct args *args, char *done)
{
    struct context *context;
    int code;

    if (args->item_count == 0) {
        return cli_usage("say what to set, for example --address HOST:PORT; see --help");
    }
    code = contexts_make(contexts, name, &context);
    for (size_t i = 0; i < context_setting_count() && code == CLI_OK; i++) {
        const char *value = args_text(args, context_setting(i), NULL);

        if (value != NULL) {
            code = check_value(context_setting(i), value);
        }
        if (value != NULL && code == CLI_OK) {
            code = context_set(context, i, value);
        }
    }
    if (code == CLI_OK && is_empty(context)) {
        return cli_usage("nothing would be left of context \"%s\"; \"foliot context delete %s\" "
                         "takes it away",
                         name, name);
    }
    if (code == CLI_OK && strcmp(contexts->current, name) != 0) {
        (void)snprintf(done, DONE_BYTES,
                       "context \"%s\" is set; \"foliot context use %s\" makes it the default",
                       name, name);
    }
    return code;
}

static int context_set_run(const struct args *args)
{
    return change_contexts(args, set);
}

static int take_away(struct contexts *contexts, const char *name, const struct args *args,
                     char *done)
{
    struct context *context = contexts_find(contexts, name);

    (void)args;
    if (context == NULL) {
        return refuse_name(contexts, name);
    }
    contexts_remove(contexts, context);
    if (strcmp(contexts->current, name) == 0) {
        contexts->current[0] = '\0';
        (void)snprintf(done, DONE_BYTES, "context \"%s\" was in use; now none is", name);
    }
    return CLI_OK;
}

static int context_delete(const struct args *args)
{
    return change_contexts(args, take_away);
}

static const struct cli_option SET_OPTIONS[] = {
    {"address", 's', "HOST:PORT", "brokers to ask, several with commas"},
    {"server", 0, "HOST:PORT", "=address"},
    {"namespace", 'n', "NAME", "namespace of queues"},
    {"timeout", 0, "SPAN", "give up after this long"},
    {"tz", 0, "ZONE", "zone of times that are read and shown"},
    {"tls", 0, "on|off", "encrypted, or not"},
    {"tls-ca", 0, "FILE", "certificates of those we trust, PEM"},
    {"tls-cert", 0, "FILE", "our own certificate, PEM"},
    {"tls-key", 0, "FILE", "its key, PEM"},
    {"tls-name", 0, "NAME", "name that the broker's certificate must have"},
};

const struct command CONTEXT_COMMANDS[] = {
    {"context", "list", "", 0, "List the contexts; the one in use has a star.",
     "  foliot context list\n", NULL, 0, context_list, COMMAND_ROWS},
    {"context", "use", "NAME", 1, "Make a context the one that is used if nothing else is said.",
     "  foliot context use prod\n", NULL, 0, context_use, 0},
    {"context", "set", "NAME", 1, "Make a context, or change it; an empty value takes one away.",
     "  foliot context set prod --address b1.example:7400,b2.example:7400 --namespace shop\n"
     "  foliot context set prod --timeout ''\n",
     SET_OPTIONS, ARRAY_COUNT(SET_OPTIONS), context_set_run, 0},
    {"context", "delete", "NAME", 1, "Take a context away.", "  foliot context delete old\n", NULL,
     0, context_delete, 0},
};
const size_t CONTEXT_COMMAND_COUNT = ARRAY_COUNT(CONTEXT_COMMANDS);
