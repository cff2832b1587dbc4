/* SPDX-License-Identifier: Apache-2.0
 *
 * Exit codes and complaints.
 */
#define _GNU_SOURCE /* environ */

#include "client/cli/cli.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Longest line that is said; longer ones are cut. */
#define SAY_BYTES 4096

int cli_exit_of(enum rpc_status status)
{
    switch (status) {
    case RPC_OK:
        return CLI_OK;
    case RPC_INVALID_ARGUMENT:
    case RPC_OUT_OF_RANGE:
        return CLI_USAGE;
    case RPC_NOT_FOUND:
    case RPC_UNIMPLEMENTED:
        return CLI_NOT_FOUND;
    case RPC_PERMISSION_DENIED:
    case RPC_UNAUTHENTICATED:
        return CLI_DENIED;
    case RPC_ALREADY_EXISTS:
    case RPC_FAILED_PRECONDITION:
    case RPC_ABORTED:
        return CLI_CONFLICT;
    case RPC_UNAVAILABLE:
    case RPC_RESOURCE_EXHAUSTED:
        return CLI_UNAVAILABLE;
    case RPC_DEADLINE_EXCEEDED:
        return CLI_TIMEOUT;
    case RPC_CANCELLED:
    case RPC_UNKNOWN:
    case RPC_INTERNAL:
    case RPC_DATA_LOSS:
        return CLI_ERROR;
    }
    return CLI_ERROR;
}

static PRINTF_LIKE(1, 0) void say(const char *format, va_list args)
{
    char line[SAY_BYTES];

    (void)vsnprintf(line, sizeof(line), format, args);
    cli_clean(line, strlen(line));
    (void)fprintf(stderr, "foliot: %s\n", line);
}

void cli_say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
}

int cli_usage(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say(format, args);
    va_end(args);
    return CLI_USAGE;
}

void cli_clean(char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)text[i];
        // U+0080 … U+009F, among them one that begins a control sequence.
        bool is_pair = byte == 0xc2 && i + 1 < len && (unsigned char)text[i + 1] >= 0x80 &&
                       (unsigned char)text[i + 1] <= 0x9f;

        if (is_pair) {
            text[i++] = '?';
            text[i] = '?';
        } else if ((byte < ' ' && byte != '\n') || byte == 0x7f) {
            text[i] = '?';
        }
    }
}

const char *cli_variable(const char *name)
{
    size_t len = strlen(name);

    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, name, len) == 0 && (*entry)[len] == '=') {
            return *entry + len + 1;
        }
    }
    return NULL;
}
