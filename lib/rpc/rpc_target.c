/* SPDX-License-Identifier: Apache-2.0
 *
 * Parsing of target addresses.
 */
#include "lib/rpc/rpc_target.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/io/address.h"
#include "lib/rpc/grpc_header.h"

#include <stdio.h>
#include <string.h>

/* Skip a known scheme; a host may be called like one. */
static const char *skip_scheme(const char *text)
{
    static const char *const schemes[] = {"dns:///", "dns:", "ipv4:", "ipv6:"};

    for (size_t i = 0; i < ARRAY_COUNT(schemes); i++) {
        size_t len = strlen(schemes[i]);

        if (strncmp(text, schemes[i], len) == 0 && strchr(text + len, ':') != NULL) {
            return text + len;
        }
    }
    return text;
}

static int parse_port(const char *text, uint16_t *out)
{
    int64_t port;

    if (strlen(text) > 5 || grpc_number_parse(slice_of(text), &port) != 0 || port < 1 ||
        port > UINT16_MAX) {
        return ERR_INVALID;
    }
    *out = (uint16_t)port;
    return 0;
}

/* Letters, digits, '-', '.', '_' and, in brackets, ':'. */
static bool is_host(const char *host, size_t len, bool is_bracketed)
{
    for (size_t i = 0; i < len; i++) {
        char c = host[i];
        bool is_good = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '-' || c == '.' || c == '_' || (is_bracketed && c == ':');

        if (!is_good) {
            return false;
        }
    }
    return len > 0 && len < RPC_HOST_BYTES;
}

int rpc_target_parse(const char *text, struct rpc_target *out)
{
    struct rpc_target target = {.port = 0};
    struct address address;
    const char *host = skip_scheme(text);
    const char *colon = strrchr(host, ':');
    bool is_bracketed = *host == '[';
    size_t len;

    if (colon == NULL || parse_port(colon + 1, &target.port) != 0) {
        return ERR_INVALID;
    }
    len = (size_t)(colon - host);
    if (is_bracketed) {
        if (len < 3 || host[len - 1] != ']') {
            return ERR_INVALID;
        }
        host++;
        len -= 2;
    }
    if (!is_host(host, len, is_bracketed)) {
        return ERR_INVALID;
    }
    memcpy(target.host, host, len);
    target.is_numeric = address_parse(target.host, target.port, &address) == 0;
    if (is_bracketed && !target.is_numeric) {
        return ERR_INVALID;
    }
    (void)snprintf(target.authority, sizeof(target.authority), is_bracketed ? "[%s]:%u" : "%s:%u",
                   target.host, target.port);
    *out = target;
    return 0;
}
