/* SPDX-License-Identifier: Apache-2.0
 *
 * Relations between settings: addresses, names, patterns.
 */
#include "broker/config_check.h"

#include "broker/config_table.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

/* Pings of ours more often than this are taken for an attack. source: RELIABILITY N-7 */
#define KEEPALIVE_MS_MIN 10000

#define HOST_SIZE     256
#define NAME_LETTERS  "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-[]"
#define PLAIN_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"

/* ---- parts of values ---- */

/* A port of 1 to 5 digits up to 65535; false otherwise. */
static bool read_port(const char *text, uint16_t *port)
{
    uint32_t value = 0;
    size_t len = strspn(text, "0123456789");

    if (len == 0 || len > 5 || text[len] != '\0') {
        return false;
    }
    for (; *text != '\0'; text++) {
        value = value * 10 + (uint32_t)(*text - '0');
    }
    *port = (uint16_t)value;
    return value <= UINT16_MAX;
}

int config_split_address(const char *text, char *host, size_t host_size, uint16_t *port)
{
    const char *colon = strrchr(text, ':');
    const char *start = text;
    const char *end = colon;

    if (colon == NULL || !read_port(colon + 1, port)) {
        return ERR_INVALID;
    }
    if (text[0] == '[') {
        start = text + 1;
        end = colon - 1;
        if (end <= start || *end != ']') {
            return ERR_INVALID;
        }
    } else if (memchr(text, ':', (size_t)(colon - text)) != NULL) {
        return ERR_INVALID;
    }
    if (end <= start || (size_t)(end - start) >= host_size) {
        return ERR_INVALID;
    }
    memcpy(host, start, (size_t)(end - start));
    host[end - start] = '\0';
    return 0;
}

bool config_pattern_matches(const char *pattern, struct slice text)
{
    const char *star = NULL;
    size_t star_at = 0;
    size_t at = 0;

    while (at < text.len) {
        if (*pattern == '*') {
            star = pattern++;
            star_at = at;
        } else if (*pattern != '\0' && (uint8_t)*pattern == text.data[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star + 1;
            at = ++star_at;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return *pattern == '\0';
}

/* host:port with a port above 0 and a host of letters that a name or an address may have. */
static bool is_peer_address(const char *text)
{
    char host[HOST_SIZE];
    uint16_t port;

    return config_split_address(text, host, sizeof(host), &port) == 0 && port != 0 &&
           strspn(host, NAME_LETTERS) == strlen(host);
}

static bool is_numeric_host(const char *host, bool *is_wildcard)
{
    struct in_addr v4;
    struct in6_addr v6;

    if (inet_pton(AF_INET, host, &v4) == 1) {
        *is_wildcard = v4.s_addr == htonl(INADDR_ANY);
        return true;
    }
    if (inet_pton(AF_INET6, host, &v6) == 1) {
        *is_wildcard = IN6_IS_ADDR_UNSPECIFIED(&v6);
        return true;
    }
    return false;
}

size_t config_database_count(const struct config *config)
{
    return config->databases.count;
}

const char *config_database(const struct config *config, size_t index, char *name)
{
    const char *item = config->databases.items[index];
    size_t len = strcspn(item, "=");

    (void)snprintf(name, NAME_BYTES_MAX + 1, "%.*s", (int)len, item);
    return item[len] == '=' ? item + len + 1 : item + len;
}

/* ---- checks ---- */

static void wrong(struct buf *errors, const struct config *config, const char *key, const char *why)
{
    size_t index = config_option_find(key);

    (void)buf_printf(errors, "%s: %s %s\n", config->origins[index].where, key, why);
}

static void check_listen(const struct config *config, const char *key, const char *text,
                         struct buf *errors)
{
    char host[HOST_SIZE];
    bool is_wildcard;
    uint16_t port;

    if (config_split_address(text, host, sizeof(host), &port) != 0 ||
        !is_numeric_host(host, &is_wildcard)) {
        wrong(errors, config, key,
              "must be a numeric address with its port, as 127.0.0.1:7400 or [::1]:7400");
    }
}

static void check_advertise(const struct config *config, struct buf *errors)
{
    char host[HOST_SIZE];
    bool is_wildcard = false;
    uint16_t port;

    if (config->advertise[0] != '\0') {
        if (!is_peer_address(config->advertise)) {
            wrong(errors, config, "advertise", "must be host:port with a port above 0");
        }
        return;
    }
    if (config_split_address(config->listen, host, sizeof(host), &port) == 0 &&
        is_numeric_host(host, &is_wildcard) && is_wildcard) {
        wrong(errors, config, "advertise",
              "must be set when listen is a wildcard: others cannot call that address");
    }
}

/* As ZooKeeper's paths and PostgreSQL's rows want it. shape: of a length that has been checked. */
static bool is_plain_name(const char *text, size_t len)
{
    return strspn(text, PLAIN_LETTERS) >= len && strchr("._-", text[0]) == NULL;
}

static void check_name(const struct config *config, struct buf *errors)
{
    if (strspn(config->name, NAME_LETTERS) != strlen(config->name)) {
        wrong(errors, config, "name", "must be of letters, digits and . _ : - [ ]");
    }
    if (!is_plain_name(config->cluster_name, strlen(config->cluster_name))) {
        wrong(errors, config, "cluster.name",
              "must be of a-z, 0-9 and . _ -, and begin with a letter or digit");
    }
}

static void check_zookeeper(const struct config *config, struct buf *errors)
{
    const char *root = config->zookeeper_root;
    const char *rest = config->zookeeper_hosts;
    size_t len = strlen(root);

    if (root[0] != '/' || root[len - 1] == '/' || strstr(root, "//") != NULL ||
        strstr(root, "/.") != NULL) {
        wrong(errors, config, "zookeeper.root",
              "must be a path as /foliot, without a slash at its end");
    }
    if (config->zookeeper_auth[0] != '\0' &&
        (config->zookeeper_auth[0] == ':' || strchr(config->zookeeper_auth, ':') == NULL)) {
        wrong(errors, config, "zookeeper.auth", "must be USER:PASSWORD");
    }
    for (;;) {
        char item[HOST_SIZE];
        size_t item_len = strcspn(rest, ",");

        (void)snprintf(item, sizeof(item), "%.*s", (int)item_len, rest);
        if (item_len >= sizeof(item) || !is_peer_address(item)) {
            wrong(errors, config, "zookeeper.hosts",
                  "must be host:port, several parted by commas, without spaces or a path");
            return;
        }
        if (rest[item_len] == '\0') {
            return;
        }
        rest += item_len + 1;
    }
}

/* Begins as "key=value …" or as an address. */
static bool is_conninfo(const char *text)
{
    size_t len;

    text += strspn(text, " ");
    len = strspn(text, "abcdefghijklmnopqrstuvwxyz_");
    return (len > 0 && text[len + strspn(text + len, " ")] == '=') ||
           strncmp(text, "postgresql://", 13) == 0 || strncmp(text, "postgres://", 11) == 0;
}

static void check_databases(const struct config *config, struct buf *errors)
{
    char name[NAME_BYTES_MAX + 1];
    char other[NAME_BYTES_MAX + 1];

    if (config->databases.count == 0) {
        wrong(errors, config, "databases",
              "must name at least one, as db0=host=127.0.0.1 dbname=foliot");
    }
    for (size_t i = 0; i < config->databases.count; i++) {
        const char *item = config->databases.items[i];
        size_t len = strcspn(item, "=");

        if (item[len] != '=' || len == 0 || len > NAME_BYTES_MAX || !is_plain_name(item, len) ||
            !is_conninfo(item + len + 1)) {
            wrong(errors, config, "databases",
                  "must be name=conninfo each, as db0=host=127.0.0.1 dbname=foliot, with a name of "
                  "1 to 63 of a-z, 0-9 and . _ -");
            return;
        }
        (void)config_database(config, i, name);
        for (size_t j = 0; j < i; j++) {
            (void)config_database(config, j, other);
            if (strcmp(name, other) == 0) {
                wrong(errors, config, "databases", "must not use a name twice");
                return;
            }
        }
    }
}

static void check_patterns(const struct config *config, struct buf *errors)
{
    for (size_t i = 0; i < config->targets_allow.count; i++) {
        const char *pattern = config->targets_allow.items[i];

        // Without a port, or a star that may stand for one, it would fit no target.
        if (strlen(pattern) > 255 || strspn(pattern, NAME_LETTERS "*") != strlen(pattern) ||
            strpbrk(pattern, ":*") == NULL) {
            wrong(errors, config, "targets.allow",
                  "must be patterns of host:port, as *.example.com:443");
            return;
        }
    }
}

/* A certificate and its key, each under its key in the table. */
static void check_pair(const struct config *config, const char *cert_key, const char *key_key,
                       bool is_complete, struct buf *errors)
{
    char why[96];

    if (!is_complete) {
        (void)snprintf(why, sizeof(why), "must be set together with %s", cert_key);
        wrong(errors, config, key_key, why);
    }
}

static void check_tls(const struct config *config, struct buf *errors)
{
    check_pair(config, "tls.cert", "tls.key",
               (config->tls_cert[0] == '\0') == (config->tls_key[0] == '\0'), errors);
    check_pair(config, "targets.tls_cert", "targets.tls_key",
               (config->targets_tls_cert[0] == '\0') == (config->targets_tls_key[0] == '\0'),
               errors);
    if (config->tls_clients != CONFIG_OFF &&
        (config->tls_cert[0] == '\0' || config->tls_ca[0] == '\0')) {
        wrong(errors, config, "tls.client_certificates",
              "needs tls.cert, tls.key and, to check them by, tls.ca");
    }
    if (config->targets_keepalive_ms > 0 && config->targets_keepalive_ms < KEEPALIVE_MS_MIN) {
        wrong(errors, config, "targets.keepalive", "must be 0 for never, or at least 10s");
    }
}

void config_check(const struct config *config, struct buf *errors)
{
    check_listen(config, "listen", config->listen, errors);
    if (strcmp(config->admin_listen, "off") != 0) {
        check_listen(config, "admin.listen", config->admin_listen, errors);
    }
    check_advertise(config, errors);
    check_name(config, errors);
    check_zookeeper(config, errors);
    check_databases(config, errors);
    check_patterns(config, errors);
    check_tls(config, errors);
}

static int fill_in(char **field, const char *from)
{
    char *copy;

    if ((*field)[0] != '\0') {
        return 0;
    }
    copy = mem_copy(from, strlen(from));
    if (copy == NULL) {
        return ERR_NO_MEMORY;
    }
    mem_free(*field);
    *field = copy;
    return 0;
}

int config_derive(struct config *config)
{
    int err = fill_in(&config->advertise, config->listen);

    return err != 0 ? err : fill_in(&config->name, config->advertise);
}
