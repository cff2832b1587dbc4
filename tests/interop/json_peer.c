/* SPDX-License-Identifier: Apache-2.0
 *
 * Our JSON codec, for other implementations to judge. A line in, a line out:
 *
 *   read TYPE HEX     JSON text to the wire: "ok HEX" or "refused REASON FIELD"
 *   write TYPE HEX    the wire to JSON text: the same
 *   types             every type known, in one line
 *
 * Types: foliot.test.Kinds, and the requests and responses of every method.
 */
#include "lib/base/json_text.h"
#include "lib/base/mem.h"
#include "proto/codec.h"
#include "proto/message.h"
#include "proto/protojson.h"
#include "proto/transcode.h"

#include <proto/kinds.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A line with the hexadecimal digits of a message in it. */
#define LINE_BYTES_MAX (2 * RPC_MESSAGE_BYTES_MAX + 1024)

/* Requests and responses of all methods, and Kinds. */
static const ProtobufCMessageDescriptor *find_type(const char *name)
{
    char path[TRANSCODE_PATH_BYTES];

    if (strcmp(name, foliot__test__kinds__descriptor.name) == 0) {
        return &foliot__test__kinds__descriptor;
    }
    for (size_t i = 0; transcode_path(i, path); i++) {
        const struct ProtobufCMethodDescriptor *method = transcode_find(slice_of(path));

        if (strcmp(method->input->name, name) == 0) {
            return method->input;
        }
        if (strcmp(method->output->name, name) == 0) {
            return method->output;
        }
    }
    return NULL;
}

static void list_types(void)
{
    char path[TRANSCODE_PATH_BYTES];

    (void)printf("%s", foliot__test__kinds__descriptor.name);
    for (size_t i = 0; transcode_path(i, path); i++) {
        const struct ProtobufCMethodDescriptor *method = transcode_find(slice_of(path));

        (void)printf(" %s %s", method->input->name, method->output->name);
    }
    (void)printf("\n");
}

static int hex_value(char digit)
{
    return digit >= 'a' ? digit - 'a' + 10 : digit - '0';
}

static void read_hex(const char *text, struct buf *out)
{
    for (; text[0] != '\0' && text[1] != '\0'; text += 2) {
        uint8_t byte = (uint8_t)(hex_value(text[0]) << 4 | hex_value(text[1]));

        (void)buf_append(out, &byte, 1);
    }
}

static int write_json(const ProtobufCMessageDescriptor *type, struct slice bytes, struct buf *out,
                      struct fault *fault)
{
    ProtobufCMessage *message;
    struct arena arena;
    int err;

    arena_init(&arena, 0);
    err = message_read(type, bytes, &arena, &message, fault);
    if (err == 0) {
        err = protojson_write(message, out);
        if (err != 0) {
            fault_set_err(fault, err, "write");
        }
    }
    arena_fini(&arena);
    return err;
}

static void answer(const char *verb, const ProtobufCMessageDescriptor *type, const char *hex)
{
    struct fault fault;
    struct buf in;
    struct buf out;
    int err;

    buf_init(&in, LINE_BYTES_MAX);
    buf_init(&out, 8 * RPC_MESSAGE_BYTES_MAX);
    read_hex(hex, &in);
    err = strcmp(verb, "read") == 0 ? protojson_read(type, buf_slice(&in), &out, &fault)
                                    : write_json(type, buf_slice(&in), &out, &fault);
    if (err != 0) {
        buf_clear(&out);
        (void)json_text_put(&out, slice_of(fault.field)); // It may have line ends.
        (void)printf("refused %s %s\n", fault.reason, buf_text(&out));
    } else {
        (void)printf("ok ");
        for (size_t i = 0; i < buf_len(&out); i++) {
            (void)printf("%02x", buf_slice(&out).data[i]);
        }
        (void)printf("\n");
    }
    buf_fini(&in);
    buf_fini(&out);
}

/* One line without its end. False at the end of the input. */
static bool read_line(char *line)
{
    if (fgets(line, (int)LINE_BYTES_MAX, stdin) == NULL) {
        return false;
    }
    line[strcspn(line, "\n")] = '\0';
    return true;
}

int main(void)
{
    char *line = mem_new(LINE_BYTES_MAX, 1);

    if (line == NULL) {
        return 1;
    }
    while (read_line(line)) {
        char *type = strchr(line, ' ');
        char *hex = type == NULL ? NULL : strchr(type + 1, ' ');

        if (hex == NULL) {
            list_types();
        } else {
            const ProtobufCMessageDescriptor *descriptor;

            *type++ = '\0';
            *hex++ = '\0';
            descriptor = find_type(type);
            if (descriptor == NULL) {
                (void)printf("unknown\n");
            } else {
                answer(line, descriptor, hex);
            }
        }
        (void)fflush(stdout);
    }
    mem_free(line);
    return mem_block_count() == 0 ? 0 : 1;
}
