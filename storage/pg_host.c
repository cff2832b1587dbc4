/* SPDX-License-Identifier: Apache-2.0
 *
 * Look-ups of the names in a conninfo, side by side.
 */
#include "storage/pg_host.h"

#include "lib/base/err.h"

#include <stdio.h>
#include <string.h>

void pg_hosts_init(struct pg_hosts *hosts, struct resolver *resolver, pg_hosts_cb cb, void *ctx)
{
    memset(hosts, 0, sizeof(*hosts));
    hosts->resolver = resolver;
    hosts->cb = cb;
    hosts->ctx = ctx;
}

/* Address in the form of libpq: an empty place keeps the name. */
static void write_hostaddr(struct pg_hosts *hosts)
{
    size_t len = 0;

    for (uint32_t i = 0; i < hosts->count && len < sizeof(hosts->hostaddr); i++) {
        len += (size_t)snprintf(hosts->hostaddr + len, sizeof(hosts->hostaddr) - len, "%s%s",
                                i == 0 ? "" : ",", hosts->all[i].address);
    }
}

/* "1.2.3.4:0" and "[::1]:0" without the port and the brackets. */
static void put_address(struct pg_hosts_one *one, const struct address *address)
{
    char text[ADDRESS_TEXT_BYTES];
    char *start = text;

    address_format(address, text);
    *strrchr(text, ':') = '\0';
    if (text[0] == '[') {
        start++;
        text[strlen(text) - 1] = '\0';
    }
    memcpy(one->address, start, strlen(start) + 1);
}

static void on_found(struct resolve_request *request, int err, const struct address *addresses,
                     size_t count, void *ctx)
{
    struct pg_hosts_one *one = ctx;
    struct pg_hosts *hosts = one->hosts;

    (void)request;
    one->is_pending = false;
    if (err == 0 && count > 0) {
        put_address(one, &addresses[0]);
    } else if (hosts->err == 0) {
        hosts->err = err == 0 ? ERR_NOT_FOUND : err;
    }
    hosts->pending--;
    if (hosts->pending == 0) {
        write_hostaddr(hosts);
        hosts->cb(hosts, hosts->err, hosts->ctx);
    }
}

/* True if libpq needs no look-up for it: a path, an abstract socket, an address. */
static bool is_plain(const char *name)
{
    struct address address;

    return name[0] == '\0' || name[0] == '/' || name[0] == '@' ||
           address_parse(name, 0, &address) == 0;
}

static int add_host(struct pg_hosts *hosts, const char *name, size_t len)
{
    struct pg_hosts_one *one = &hosts->all[hosts->count];
    struct address address;

    if (hosts->count == PG_HOST_COUNT_MAX || len >= sizeof(one->name)) {
        return ERR_TOO_LARGE;
    }
    memset(one, 0, sizeof(*one));
    one->hosts = hosts;
    memcpy(one->name, name, len);
    one->is_looked_up = !is_plain(one->name);
    if (!one->is_looked_up && address_parse(one->name, 0, &address) == 0) {
        put_address(one, &address);
    }
    hosts->count++;
    return 0;
}

static int start(struct pg_hosts *hosts, struct pg_hosts_one *one)
{
    int err;

    one->request =
        (struct resolve_request){.host = one->name, .is_fresh = true, .cb = on_found, .ctx = one};
    err = resolver_find(hosts->resolver, &one->request);
    one->is_pending = err == 0;
    hosts->pending += err == 0;
    return err;
}

int pg_hosts_find(struct pg_hosts *hosts, const char *list, bool *started)
{
    int err = 0;

    hosts->count = 0;
    hosts->err = 0;
    *started = false;
    for (const char *name = list; name != NULL && err == 0;) {
        size_t len = strcspn(name, ",");

        err = add_host(hosts, name, len);
        name = name[len] == ',' ? name + len + 1 : NULL;
    }
    for (uint32_t i = 0; i < hosts->count && err == 0; i++) {
        if (hosts->all[i].is_looked_up) {
            err = start(hosts, &hosts->all[i]);
        }
    }
    if (hosts->pending > 0) {
        // Those that were started will call back, with this error among their results.
        hosts->err = err;
        *started = true;
        return 0;
    }
    return err;
}

void pg_hosts_cancel(struct pg_hosts *hosts)
{
    for (uint32_t i = 0; i < hosts->count; i++) {
        if (hosts->all[i].is_pending) {
            resolver_cancel(hosts->resolver, &hosts->all[i].request);
        }
    }
}
