/* SPDX-License-Identifier: Apache-2.0
 *
 * Defaults and validation of a queue, and the form of target addresses.
 */
#include "lib/model/queue.h"

#include "lib/base/err.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Whether a scheme wants TLS, and what it stands for. */
static const struct {
    const char *text;
    enum target_kind kind;
    bool uses_tls;
} SCHEMES[] = {
    {"grpc://", TARGET_GRPC_METHOD, false},
    {"grpcs://", TARGET_GRPC_METHOD, true},
    {"receiver://", TARGET_RECEIVER, false},
    {"receivers://", TARGET_RECEIVER, true},
};

void queue_init(struct queue *queue)
{
    memset(queue, 0, sizeof(*queue));
    queue->attempt_timeout_ms = ATTEMPT_TIMEOUT_MS_DEFAULT;
    queue->key_memory_ms = QUEUE_KEY_MEMORY_MS_DEFAULT;
    queue->concurrency_max = QUEUE_CONCURRENCY_DEFAULT;
    queue->retry.initial_ms = QUEUE_BACKOFF_INITIAL_MS;
    queue->retry.multiplier_permille = 2000;
    queue->retry.max_ms = QUEUE_BACKOFF_MAX_MS_DEFAULT;
    queue->retry.jitter_permille = 100;
    queue->retry.failures_max = QUEUE_FAILURES_DEFAULT;
    queue->retry.unknowns_max = QUEUE_UNKNOWNS_DEFAULT;
    queue->order_policy = ORDER_BLOCK;
    queue->order_failures = QUEUE_ORDER_FAILURES_DEFAULT;
}

static int refuse_target(const char *target, const char *why, char *errmsg, size_t errmsg_size)
{
    (void)snprintf(errmsg, errmsg_size,
                   "target \"%.200s\" %s; write grpc://host:port/package.Service/Method or "
                   "receiver://host:port, with TLS grpcs:// or receivers://",
                   target, why);
    return ERR_INVALID;
}

static bool is_digit(uint8_t byte)
{
    return byte >= '0' && byte <= '9';
}

static bool is_hex(uint8_t byte)
{
    return is_digit(byte) || (byte >= 'a' && byte <= 'f') || (byte >= 'A' && byte <= 'F');
}

/* Four numbers of 0 … 255 without leading zeros. */
static bool is_ipv4(struct slice text)
{
    uint32_t value = 0;
    size_t digits = 0;
    size_t dots = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] == '.' && digits > 0) {
            dots++;
            digits = 0;
            value = 0;
        } else if (is_digit(text.data[i]) && (digits == 0 || value > 0)) {
            digits++;
            value = value * 10 + text.data[i] - '0';
        } else {
            return false;
        }
        if (value > 255) {
            return false;
        }
    }
    return dots == 3 && digits > 0;
}

static size_t hex_len(struct slice text, size_t start)
{
    size_t end = start;

    while (end < text.len && is_hex(text.data[end])) {
        end++;
    }
    return end - start;
}

/* Eight groups of hex digits, of which one run may be left out and the last two be IPv4. */
static bool is_ipv6(struct slice text)
{
    const uint8_t *at = text.data;
    bool has_gap = false;
    size_t groups = 0;
    size_t i = 0;

    while (i < text.len) {
        size_t len = hex_len(text, i);

        if (at[i] == ':' && i + 1 < text.len && at[i + 1] == ':' && !has_gap) {
            has_gap = true;
            i += 2;
        } else if (at[i] == ':') { // Between two groups only.
            if (i == 0 || i + 1 == text.len || at[i - 1] == ':') {
                return false;
            }
            i++;
        } else if (i + len < text.len && at[i + len] == '.') {
            if (!is_ipv4((struct slice){at + i, text.len - i})) {
                return false;
            }
            groups += 2;
            i = text.len;
        } else if (len == 0 || len > 4) {
            return false;
        } else {
            groups++;
            i += len;
        }
    }
    return has_gap ? groups < 8 : groups == 8;
}

/* A name, an IPv4 address, or an IPv6 address in brackets. */
static bool is_host(struct slice host)
{
    if (host.len > 2 && host.data[0] == '[' && host.data[host.len - 1] == ']') {
        return is_ipv6((struct slice){host.data + 1, host.len - 2});
    }
    for (size_t i = 0; i < host.len; i++) {
        uint8_t c = host.data[i];

        if (!(is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
              c == '-' || c == '_')) {
            return false;
        }
    }
    return host.len > 0 && host.len <= HOST_BYTES_MAX;
}

static bool is_port(struct slice text)
{
    uint32_t port = 0;

    for (size_t i = 0; i < text.len && i < 6; i++) {
        if (!is_digit(text.data[i])) {
            return false;
        }
        port = port * 10 + (uint32_t)(text.data[i] - '0');
    }
    return text.len <= 5 && port >= 1 && port <= 65535;
}

/* host:port with a port of 1 … 65535; true if so. */
static bool is_authority(struct slice authority)
{
    size_t colon = authority.len;

    while (colon > 0 && authority.data[colon - 1] != ':') {
        colon--;
    }
    return colon > 0 && is_host((struct slice){authority.data, colon - 1}) &&
           is_port((struct slice){authority.data + colon, authority.len - colon});
}

/* /package.Service/Method: two parts of printable ASCII without spaces. */
static bool is_method_path(struct slice path)
{
    size_t slash_count = 0;

    for (size_t i = 0; i < path.len; i++) {
        if (path.data[i] <= 0x20 || path.data[i] >= 0x7f) {
            return false;
        }
        slash_count += path.data[i] == '/';
    }
    return path.len >= 4 && path.data[0] == '/' && path.data[1] != '/' && slash_count == 2 &&
           path.data[path.len - 1] != '/';
}

/* What follows the scheme; NULL if it is none of ours. */
static const char *take_scheme(const char *target, struct target_address *parts)
{
    for (size_t i = 0; i < ARRAY_COUNT(SCHEMES); i++) {
        size_t len = strlen(SCHEMES[i].text);

        if (strncmp(target, SCHEMES[i].text, len) == 0) {
            parts->kind = SCHEMES[i].kind;
            parts->uses_tls = SCHEMES[i].uses_tls;
            return target + len;
        }
    }
    return NULL;
}

int target_parse(const char *target, struct target_address *address, char *errmsg,
                 size_t errmsg_size)
{
    struct target_address parts = {.kind = TARGET_GRPC_METHOD};
    const char *rest = take_scheme(target, &parts);
    const char *slash;

    if (rest == NULL) {
        return refuse_target(target, "has no known scheme", errmsg, errmsg_size);
    }
    slash = strchr(rest, '/');
    parts.authority = slice_of(rest);
    if (slash != NULL) {
        parts.authority.len = (size_t)(slash - rest);
        parts.path = slice_of(slash);
    }
    if (!is_authority(parts.authority)) {
        return refuse_target(target, "has no host:port", errmsg, errmsg_size);
    }
    if (parts.kind == TARGET_GRPC_METHOD && !is_method_path(parts.path)) {
        return refuse_target(target, "has no /package.Service/Method", errmsg, errmsg_size);
    }
    if (parts.kind == TARGET_RECEIVER && parts.path.len > 1) {
        return refuse_target(target, "has a path, which a receiver does not take", errmsg,
                             errmsg_size);
    }
    *address = parts;
    return 0;
}

// strspn() fills a table of 256 bytes at each call, and each create has two names.
size_t queue_name_span(const char *text)
{
    size_t span = 0;

    while ((text[span] >= 'a' && text[span] <= 'z') || (text[span] >= '0' && text[span] <= '9') ||
           text[span] == '.' || text[span] == '_' || text[span] == '-') {
        span++;
    }
    return span;
}

static int check_name(const char *what, const char *name, char *errmsg, size_t errmsg_size)
{
    size_t len = strlen(name);
    size_t good = queue_name_span(name);

    if (len == 0 || len > NAME_BYTES_MAX || good != len) {
        (void)snprintf(errmsg, errmsg_size,
                       "%s \"%.63s\" must be 1 to %d bytes of a-z, 0-9, '.', '_' and '-'", what,
                       name, NAME_BYTES_MAX);
        return ERR_INVALID;
    }
    return 0;
}

static int check_range(const char *what, int64_t value, int64_t low, int64_t high, char *errmsg,
                       size_t errmsg_size)
{
    if (value < low || value > high) {
        (void)snprintf(errmsg, errmsg_size,
                       "%s is %" PRId64 ", must be between %" PRId64 " and %" PRId64, what, value,
                       low, high);
        return ERR_INVALID;
    }
    return 0;
}

int queue_check(struct queue *queue, char *errmsg, size_t errmsg_size)
{
    const struct retry_policy *retry = &queue->retry;
    const struct {
        const char *what;
        int64_t value;
        int64_t low;
        int64_t high;
    } ranges[] = {
        {"attempt_timeout (ms)", queue->attempt_timeout_ms, ATTEMPT_TIMEOUT_MS_MIN,
         ATTEMPT_TIMEOUT_MS_MAX},
        {"key_memory (ms)", queue->key_memory_ms, 0, QUEUE_KEY_MEMORY_MS_MAX},
        {"concurrency_max", queue->concurrency_max, 1, QUEUE_CONCURRENCY_MAX},
        {"retry.initial (ms)", retry->initial_ms, 0, QUEUE_BACKOFF_MS_MAX},
        {"retry.multiplier_permille", retry->multiplier_permille, 1000, 100000},
        {"retry.max (ms)", retry->max_ms, retry->initial_ms, QUEUE_BACKOFF_MS_MAX},
        {"retry.jitter_permille", retry->jitter_permille, 0, 1000},
        {"retry.failures_max", retry->failures_max, 1, QUEUE_FAILURES_MAX},
        {"retry.unknowns_max", retry->unknowns_max, 1, QUEUE_FAILURES_MAX},
        {"retry.age_max (ms)", retry->age_max_ms, 0, DELAY_MS_MAX},
        {"result_memory (ms)", queue->result_memory_ms, 0, QUEUE_RESULT_MEMORY_MS_MAX},
        {"expire_after (ms)", queue->expire_after_ms, 0, DELAY_MS_MAX},
        {"order.on_failure", (int64_t)queue->order_policy, ORDER_BLOCK, ORDER_DEAD},
        {"order.failures", queue->order_failures, 1, QUEUE_FAILURES_MAX},
    };
    struct target_address address;
    int err = check_name("namespace", queue->tenant, errmsg, errmsg_size);

    if (err == 0) {
        err = check_name("queue name", queue->name, errmsg, errmsg_size);
    }
    for (size_t i = 0; err == 0 && i < ARRAY_COUNT(ranges); i++) {
        err = check_range(ranges[i].what, ranges[i].value, ranges[i].low, ranges[i].high, errmsg,
                          errmsg_size);
    }
    if (err == 0) {
        err = target_parse(queue->target, &address, errmsg, errmsg_size);
    }
    if (err == 0) {
        queue->target_kind = address.kind;
    }
    return err;
}
