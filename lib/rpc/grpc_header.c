/* SPDX-License-Identifier: Apache-2.0
 *
 * Codecs of header texts.
 */
#include "lib/rpc/grpc_header.h"

#include <stdio.h>
#include <string.h>

#define TIMEOUT_DIGITS_MAX 8U
#define TIMEOUT_COUNT_MAX  99999999

#define NS_PER_US 1000

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool starts_with(struct slice text, const char *prefix)
{
    size_t len = strlen(prefix);

    return text.len >= len && memcmp(text.data, prefix, len) == 0;
}

/* ---- timeouts ---- */

/* Microseconds of a unit; 0 for nanoseconds, −1 for none. */
static int64_t unit_us(uint8_t unit)
{
    switch (unit) {
    case 'H':
        return 3600 * US_PER_S;
    case 'M':
        return 60 * US_PER_S;
    case 'S':
        return US_PER_S;
    case 'm':
        return US_PER_MS;
    case 'u':
        return 1;
    case 'n':
        return 0;
    default:
        return -1;
    }
}

int grpc_timeout_parse(struct slice text, int64_t *out_us)
{
    int64_t count = 0;
    int64_t unit;

    if (text.len < 2 || text.len > TIMEOUT_DIGITS_MAX + 1) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < text.len - 1; i++) {
        if (!is_digit(text.data[i])) {
            return ERR_INVALID;
        }
        count = count * 10 + (text.data[i] - '0');
    }
    unit = unit_us(text.data[text.len - 1]);
    if (unit < 0) {
        return ERR_INVALID;
    }
    *out_us = unit == 0 ? (count + NS_PER_US - 1) / NS_PER_US : count * unit;
    return 0;
}

void grpc_timeout_format(int64_t us, char *text)
{
    static const char units[] = {'u', 'm', 'S', 'M', 'H'};
    static const int64_t steps[] = {1000, 1000, 60, 60};
    int64_t count = us;
    size_t i = 0;

    if (us <= 0) {
        (void)snprintf(text, GRPC_TIMEOUT_BYTES, "1n");
        return;
    }
    while (count > TIMEOUT_COUNT_MAX && i < ARRAY_COUNT(steps)) {
        count /= steps[i++];
    }
    if (count > TIMEOUT_COUNT_MAX) {
        count = TIMEOUT_COUNT_MAX;
    }
    (void)snprintf(text, GRPC_TIMEOUT_BYTES, "%d%c", (int)count, units[i]);
}

/* ---- percent coding ---- */

/* Length ≤ max that does not end inside a UTF-8 sequence. */
static size_t cut_utf8(struct slice text, size_t max)
{
    size_t len = text.len;

    if (len <= max) {
        return len;
    }
    len = max;
    while (len > 0 && (text.data[len] & 0xc0) == 0x80) {
        len--;
    }
    return len;
}

int grpc_percent_encode(struct slice text, struct buf *out)
{
    static const char hex[] = "0123456789ABCDEF";
    size_t len = cut_utf8(text, GRPC_MESSAGE_BYTES_MAX);

    for (size_t i = 0; i < len; i++) {
        uint8_t byte = text.data[i];
        uint8_t escape[3] = {'%', (uint8_t)hex[byte >> 4], (uint8_t)hex[byte & 15]};
        bool is_plain = byte >= 0x20 && byte <= 0x7e && byte != '%';
        int err = is_plain ? buf_append(out, &byte, 1) : buf_append(out, escape, sizeof(escape));

        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* Value of a hex digit, or −1. */
static int hex_value(uint8_t digit)
{
    if (is_digit(digit)) {
        return digit - '0';
    }
    if (digit >= 'A' && digit <= 'F') {
        return digit - 'A' + 10;
    }
    if (digit >= 'a' && digit <= 'f') {
        return digit - 'a' + 10;
    }
    return -1;
}

int grpc_percent_decode(struct slice text, struct buf *out)
{
    size_t i = 0;

    while (i < text.len) {
        uint8_t byte = text.data[i];
        int err;

        if (byte == '%' && text.len - i > 2 && hex_value(text.data[i + 1]) >= 0 &&
            hex_value(text.data[i + 2]) >= 0) {
            byte = (uint8_t)(hex_value(text.data[i + 1]) * 16 + hex_value(text.data[i + 2]));
            i += 2;
        }
        i++;
        err = buf_append(out, &byte, 1);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* ---- numbers, names, paths ---- */

int grpc_number_parse(struct slice text, int64_t *out)
{
    bool is_negative = text.len > 0 && text.data[0] == '-';
    int64_t value = 0;

    if (text.len == (is_negative ? 1 : 0)) {
        return ERR_INVALID;
    }
    for (size_t i = is_negative ? 1 : 0; i < text.len; i++) {
        if (!is_digit(text.data[i]) || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text.data[i] - '0', &value)) {
            return ERR_INVALID;
        }
    }
    *out = is_negative ? -value : value;
    return 0;
}

enum rpc_status grpc_status_parse(struct slice text)
{
    int64_t number;

    if (grpc_number_parse(text, &number) != 0 || number < 0 || number > RPC_UNAUTHENTICATED) {
        return RPC_UNKNOWN;
    }
    return (enum rpc_status)number;
}

bool grpc_is_content_type(struct slice text)
{
    static const char base[] = "application/grpc";
    static const char proto[] = "+proto";

    if (!starts_with(text, base)) {
        return false;
    }
    text = (struct slice){text.data + strlen(base), text.len - strlen(base)};
    if (starts_with(text, proto)) {
        text = (struct slice){text.data + strlen(proto), text.len - strlen(proto)};
    }
    return text.len == 0 || text.data[0] == ';';
}

bool grpc_is_path(struct slice path)
{
    const uint8_t *second;

    if (path.len < 4 || path.data[0] != '/') {
        return false;
    }
    second = memchr(path.data + 1, '/', path.len - 1);
    return second != NULL && second > path.data + 1 && second < path.data + path.len - 1 &&
           memchr(second + 1, '/', (size_t)(path.data + path.len - second - 1)) == NULL;
}

struct slice grpc_path_service(struct slice path)
{
    const uint8_t *second = memchr(path.data + 1, '/', path.len - 1);

    return (struct slice){path.data + 1, (size_t)(second - path.data - 1)};
}

bool grpc_is_binary_name(struct slice name)
{
    return name.len > 4 && memcmp(name.data + name.len - 4, "-bin", 4) == 0;
}

/* Names that the protocol or this library sets. */
static bool is_reserved(struct slice name)
{
    static const char *const reserved[] = {
        "te",         "content-type", "user-agent", "connection",       "transfer-encoding",
        "keep-alive", "host",         "upgrade",    "proxy-connection", "content-length"};

    for (size_t i = 0; i < ARRAY_COUNT(reserved); i++) {
        if (slice_equal(name, slice_of(reserved[i]))) {
            return true;
        }
    }
    return starts_with(name, "grpc-");
}

bool grpc_is_metadata_name(struct slice name)
{
    for (size_t i = 0; i < name.len; i++) {
        uint8_t byte = name.data[i];

        if (!is_digit(byte) && !(byte >= 'a' && byte <= 'z') && byte != '_' && byte != '.' &&
            byte != '-') {
            return false;
        }
    }
    return name.len > 0 && !is_reserved(name);
}

bool grpc_is_metadata_value(struct slice value)
{
    for (size_t i = 0; i < value.len; i++) {
        if (value.data[i] < 0x20 || value.data[i] > 0x7e) {
            return false;
        }
    }
    return value.len == 0 || (value.data[0] != ' ' && value.data[value.len - 1] != ' ');
}

/* ---- what others' failures mean ---- */

enum rpc_status grpc_status_of_http(int http_status)
{
    switch (http_status) {
    case 400:
        return RPC_INTERNAL;
    case 401:
        return RPC_UNAUTHENTICATED;
    case 403:
        return RPC_PERMISSION_DENIED;
    case 404:
        return RPC_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return RPC_UNAVAILABLE;
    default:
        return RPC_UNKNOWN;
    }
}

enum rpc_status grpc_status_of_reset(uint32_t code)
{
    switch (code) {
    case 7: // REFUSED_STREAM
        return RPC_UNAVAILABLE;
    case 8: // CANCEL
        return RPC_CANCELLED;
    case 11: // ENHANCE_YOUR_CALM
        return RPC_RESOURCE_EXHAUSTED;
    case 12: // INADEQUATE_SECURITY
        return RPC_PERMISSION_DENIED;
    default:
        return RPC_INTERNAL;
    }
}
