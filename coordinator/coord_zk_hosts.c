/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of servers to addresses.
 */
#include "coordinator/coord_zk_hosts.h"

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

/* Longest host name, and an address with its port. */
#define HOST_BYTES_MAX    255
#define ADDRESS_BYTES_MAX 64
#define PORT_BYTES_MAX    5

struct address {
    char text[ADDRESS_BYTES_MAX];
};

struct addresses {
    struct address list[ZK_ADDRESS_COUNT_MAX];
    size_t count;
};

/* One entry of the list: a host and a port. */
struct entry {
    char host[HOST_BYTES_MAX + 1];
    char port[PORT_BYTES_MAX + 1];
};

static int split(const char *text, size_t len, struct entry *out)
{
    size_t host_len = len;
    size_t port_len;

    while (host_len > 0 && text[host_len - 1] != ':') {
        host_len--;
    }
    if (host_len < 2) { // No colon, or no host in front of it.
        return ERR_INVALID;
    }
    port_len = len - host_len;
    host_len--;
    if (host_len > 2 && text[0] == '[' && text[host_len - 1] == ']') {
        text++;
        host_len -= 2;
        memcpy(out->port, text + host_len + 2, port_len < sizeof(out->port) ? port_len : 0);
    } else {
        memcpy(out->port, text + host_len + 1, port_len < sizeof(out->port) ? port_len : 0);
    }
    if (port_len < 1 || port_len > PORT_BYTES_MAX || host_len > HOST_BYTES_MAX) {
        return ERR_INVALID;
    }
    out->port[port_len] = '\0';
    memcpy(out->host, text, host_len);
    out->host[host_len] = '\0';
    return strspn(out->port, "0123456789") == port_len ? 0 : ERR_INVALID;
}

/* "address:port", as the library wants it: without brackets, split at the last colon. */
static int add(struct addresses *addresses, const struct addrinfo *info, const char *port)
{
    struct address *address = &addresses->list[addresses->count];
    size_t len;

    if (addresses->count == ZK_ADDRESS_COUNT_MAX) {
        return ERR_TOO_LARGE;
    }
    if (getnameinfo(info->ai_addr, info->ai_addrlen, address->text,
                    (socklen_t)sizeof(address->text) - PORT_BYTES_MAX - 1, NULL, 0,
                    NI_NUMERICHOST) != 0) {
        return 0; // An address of a kind that has no text: left out.
    }
    len = strlen(address->text);
    address->text[len] = ':';
    memcpy(address->text + len + 1, port, strlen(port) + 1);
    addresses->count++;
    return 0;
}

static int resolve_one(struct addresses *addresses, const struct entry *entry)
{
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int err = 0;

    if (getaddrinfo(entry->host, entry->port, &hints, &found) != 0) {
        return 0; // Left out: the others may do.
    }
    for (const struct addrinfo *info = found; info != NULL && err == 0; info = info->ai_next) {
        err = add(addresses, info, entry->port);
    }
    freeaddrinfo(found);
    return err;
}

static int compare(const void *left, const void *right)
{
    const struct address *const a = left;
    const struct address *const b = right;

    return strcmp(a->text, b->text);
}

/* Sorted, so that an unchanged answer in another order is the same text. */
static int write_list(struct addresses *addresses, char **out)
{
    struct buf text;
    const char *last = "";

    qsort(addresses->list, addresses->count, sizeof(addresses->list[0]), compare);
    buf_init(&text, sizeof(addresses->list) + 1);
    for (size_t i = 0; i < addresses->count; i++) {
        const char *one = addresses->list[i].text;

        if (strcmp(one, last) != 0) {
            (void)buf_printf(&text, "%s%s", buf_len(&text) > 0 ? "," : "", one);
        }
        last = one;
    }
    *out = text.failed ? NULL : mem_copy(buf_text(&text), buf_len(&text));
    buf_fini(&text);
    return *out == NULL ? ERR_NO_MEMORY : 0;
}

static int resolve_all(const char *hosts, struct addresses *addresses)
{
    int err = 0;

    while (*hosts != '\0' && err == 0) {
        struct entry entry;
        size_t len;

        hosts += strspn(hosts, " ");
        len = strcspn(hosts, ",");
        err = split(hosts, len, &entry);
        if (err == 0) {
            err = resolve_one(addresses, &entry);
        }
        hosts += len;
        hosts += *hosts == ',' ? 1 : 0;
    }
    return err;
}

int zk_hosts_resolve(const char *hosts, char **out)
{
    struct addresses *addresses = mem_new(1, sizeof(*addresses));
    int err;

    if (addresses == NULL) {
        return ERR_NO_MEMORY;
    }
    err = resolve_all(hosts, addresses);
    if (err == 0 && addresses->count == 0) {
        err = ERR_NOT_FOUND;
    }
    if (err == 0) {
        err = write_list(addresses, out);
    }
    mem_free(addresses);
    return err;
}
