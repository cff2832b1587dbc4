/* SPDX-License-Identifier: Apache-2.0
 *
 * Options that several commands have.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "client/cli/options.h"

#include "client/cli/cli.h"
#include "client/cli/moment.h"
#include "lib/base/err.h"
#include "lib/model/tags.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

void options_queue(const struct args *args, struct queue_name *out)
{
    out->tenant = args_text(args, "namespace", NAMESPACE_DEFAULT);
    out->name = args_text(args, "queue", "");
}

int options_key(const struct args *args, struct slice *out)
{
    const char *key = args_text(args, "key", "");

    if (args_has(args, "key") && key[0] == '\0') {
        return cli_usage("--key is empty, which would be no key: give one, or leave --key out");
    }
    if (strlen(key) > KEY_BYTES_MAX) {
        return cli_usage("--key has more than %d bytes (KEY_BYTES_MAX)", KEY_BYTES_MAX);
    }
    *out = slice_of(key);
    return CLI_OK;
}

int options_order_key(const struct args *args, struct slice *out)
{
    const char *key = args_text(args, "order-key", "");

    if (args_has(args, "order-key") && key[0] == '\0') {
        return cli_usage("--order-key is empty, which would be none: give one, or leave it out");
    }
    if (strlen(key) > ORDER_KEY_BYTES_MAX) {
        return cli_usage("--order-key has more than %d bytes (ORDER_KEY_BYTES_MAX)",
                         ORDER_KEY_BYTES_MAX);
    }
    *out = slice_of(key);
    return CLI_OK;
}

int options_task(const struct args *args, struct task_name *out)
{
    int code;

    memset(out, 0, sizeof(*out));
    options_queue(args, &out->queue);
    code = options_key(args, &out->key);
    if (code == CLI_OK) {
        code = options_order_key(args, &out->order_key);
    }
    if (code == CLI_OK && out->order_key.len > 0 && out->key.len == 0) {
        code = cli_usage("--order-key goes with --key: together they name a task");
    }
    if (code != CLI_OK) {
        return code;
    }
    if (args->operand_count == 1) {
        if (out->key.len > 0) {
            return cli_usage("give an id or --key, not both");
        }
        if (task_id_parse(slice_of(args->operands[0]), &out->id) != 0) {
            return cli_usage("\"%s\" is no task id; one looks like 0a7-0000012300000001",
                             args->operands[0]);
        }
        return CLI_OK;
    }
    if (out->key.len == 0 || out->queue.name[0] == '\0') {
        return cli_usage("name the task: its id, or --queue NAME --key KEY");
    }
    return CLI_OK;
}

static int read_stream(FILE *file, const char *path, struct buf *out)
{
    uint8_t chunk[4096];
    size_t len = 1;

    while (len > 0) {
        len = fread(chunk, 1, sizeof(chunk), file);
        if (buf_append(out, chunk, len) != 0) {
            return cli_usage("payload \"%s\" has more than %d bytes (PAYLOAD_BYTES_MAX)", path,
                             PAYLOAD_BYTES_MAX);
        }
    }
    return ferror(file) != 0 ? cli_usage("cannot read \"%s\": %s", path, strerrordesc_np(errno))
                             : CLI_OK;
}

static int read_file(const char *path, struct buf *out)
{
    FILE *file;
    int code;

    if (strcmp(path, "-") == 0) {
        return read_stream(stdin, path, out);
    }
    file = fopen(path, "rb");
    if (file == NULL) {
        return cli_usage("cannot open \"%s\": %s", path, strerrordesc_np(errno));
    }
    code = read_stream(file, path, out);
    (void)fclose(file);
    return code;
}

int options_payload(const struct args *args, struct buf *store, struct slice *out)
{
    const char *text = args_text(args, "payload", NULL);
    const char *path = args_text(args, "payload-file", NULL);

    if (text != NULL && path != NULL) {
        return cli_usage("give --payload or --payload-file, not both");
    }
    if (path != NULL) {
        int code = read_file(path, store);

        *out = buf_slice(store);
        return code;
    }
    *out = slice_of(text == NULL ? "" : text);
    if (out->len > PAYLOAD_BYTES_MAX) {
        return cli_usage("--payload has more than %d bytes (PAYLOAD_BYTES_MAX)", PAYLOAD_BYTES_MAX);
    }
    return CLI_OK;
}

int options_tags(const struct args *args, char *store, struct slice *out)
{
    struct tag tags[TAG_COUNT_MAX + 1];
    char errmsg[256];
    size_t count = 0;
    size_t len = 0;

    for (size_t i = 0; i < args->item_count && count < ARRAY_COUNT(tags); i++) {
        const char *text = args->items[i].value;
        size_t name_len = strcspn(text, "=");

        if (strcmp(args->items[i].name, "tag") != 0) {
            continue;
        }
        if (text[name_len] != '=') {
            return cli_usage("--tag \"%s\" must be NAME=VALUE", text);
        }
        tags[count++] =
            (struct tag){{(const uint8_t *)text, name_len}, slice_of(text + name_len + 1)};
    }
    if (tags_write(tags, count, store, &len, errmsg, sizeof(errmsg)) != 0) {
        return cli_usage("--tag: %s", errmsg);
    }
    *out = (struct slice){(const uint8_t *)store, len};
    return CLI_OK;
}

int options_when(const struct args *args, struct when *out)
{
    if (!args_has(args, "delay")) {
        return moment_option(args, "at", out);
    }
    if (args_has(args, "at")) {
        return cli_usage("give --at or --delay, not both");
    }
    out->kind = WHEN_DELAY;
    return args_span(args, "delay", &out->delay_ms) == 0 ? CLI_OK : CLI_USAGE;
}

int options_copy(const char *what, const char *text, const char *limit, char *out, size_t size)
{
    if (strlen(text) >= size) {
        return cli_usage("%s has more than %zu bytes (%s)", what, size - 1, limit);
    }
    (void)snprintf(out, size, "%s", text);
    return CLI_OK;
}

int options_queue_operand(const struct args *args, struct queue *out)
{
    int code;

    if (args->operand_count != 1) {
        return cli_usage("name the queue; foliot queue list shows those there are");
    }
    code = options_copy("--namespace", args_text(args, "namespace", NAMESPACE_DEFAULT),
                        "NAME_BYTES_MAX", out->tenant, sizeof(out->tenant));
    return code != CLI_OK ? code
                          : options_copy("the name of the queue", args->operands[0],
                                         "NAME_BYTES_MAX", out->name, sizeof(out->name));
}
