/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of ZooKeeper servers, with a resolver that this program makes slow, wrong or broken: it
 * defines getaddrinfo() itself, for the library as well. source: RELIABILITY Z-7, Z-14
 */
#define _GNU_SOURCE // RTLD_NEXT
#include "coordinator/coord_zk_hosts.h"

#include "lib/base/mem.h"
#include "tests/contract/coord_world_zk.h"
#include "tests/lib/proxy.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdatomic.h>
#include <unistd.h>

#define HANG_S 10

static atomic_int lookup_count;  /* of names that are not addresses */
static atomic_bool is_hanging;   /* look-ups of zk.test take HANG_S */
static atomic_bool is_moved_off; /* zk.test is at an address where nobody listens */

static struct client a;
static struct client b;

typedef int (*getaddrinfo_fn)(const char *node, const char *service, const struct addrinfo *hints,
                              struct addrinfo **found);

/* Takes the place of libc's for the whole process. */
int fake_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                     struct addrinfo **found) __asm__("getaddrinfo");

int fake_getaddrinfo(const char *node, const char *service, const struct addrinfo *hints,
                     struct addrinfo **found)
{
    void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
    getaddrinfo_fn real;

    memcpy(&real, &symbol, sizeof(real)); // ISO C has no such conversion.
    if (strspn(node, "0123456789.:abcdef") == strlen(node)) {
        return real(node, service, hints, found);
    }
    (void)atomic_fetch_add(&lookup_count, 1);
    if (atomic_load(&is_hanging)) {
        (void)sleep(HANG_S);
    }
    if (strcmp(node, "zk.test") != 0) {
        return EAI_NONAME;
    }
    return real(atomic_load(&is_moved_off) ? "127.0.0.99" : "127.0.0.1", service, hints, found);
}

/* "zk.test:port" for the address of a proxy or server. */
static const char *named(const char *address, const char *others)
{
    static char hosts[128];

    (void)snprintf(hosts, sizeof(hosts), "%szk.test%s", others, strrchr(address, ':'));
    return hosts;
}

static void addresses_are_sorted_and_unresolvable_names_left_out(void)
{
    const struct {
        const char *hosts;
        int err;
        const char *addresses;
    } rows[] = {
        {"zk.test:1", 0, "127.0.0.1:1"},
        {"nobody.test:1,zk.test:2,127.0.0.1:1", 0, "127.0.0.1:1,127.0.0.1:2"},
        {"10.0.0.2:5, 10.0.0.1:5,10.0.0.2:5", 0, "10.0.0.1:5,10.0.0.2:5"},
        {"[::1]:2181", 0, "::1:2181"},
        {"nobody.test:1", ERR_NOT_FOUND, NULL},
        {"zk.test", ERR_INVALID, NULL},
        {"zk.test:", ERR_INVALID, NULL},
        {":2181", ERR_INVALID, NULL},
        {"zk.test:x", ERR_INVALID, NULL},
        {"zk.test:1,,zk.test:2", ERR_INVALID, NULL},
        {"zk.test:123456", ERR_INVALID, NULL},
        {"", ERR_NOT_FOUND, NULL},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        char *addresses = NULL;
        int err = zk_hosts_resolve(rows[i].hosts, &addresses);

        if (err != rows[i].err) {
            must_fail(MUST_HERE, "'%s': %s", rows[i].hosts, err_name(err));
        }
        if (err == 0) {
            MUST_EQ_TEXT(addresses, rows[i].addresses);
        }
        mem_free(addresses);
    }
}

static void a_connected_client_looks_up_no_name(void)
{
    world_open("lookups");
    world.hosts = named(world.fixture.zk_hosts, "nobody.test:1,");
    client_open(&a, "broker-a", 'a'); // One name of the list that does not resolve is no obstacle.
    atomic_store(&lookup_count, 0);
    for (int i = 0; i < 300; i++) {
        MUST_OK(ask_shard(&a, COORD_ACQUIRE, (uint32_t)i % WORLD_SHARD_COUNT, NULL));
    }
    MUST_EQ(atomic_load(&lookup_count), 0);
    client_close(&a);
    world_close();
}

static void a_hanging_resolver_costs_no_session(void)
{
    struct proxy *proxy;

    world_open("hanging");
    world.session_timeout_ms = 5000;
    client_open(&b, "broker-b", 'b');
    proxy = proxy_open(world.fixture.zk_hosts);
    world.hosts = named(proxy_address(proxy), "");
    client_open(&a, "broker-a", 'a');
    MUST_OK(ask_shard(&a, COORD_ACQUIRE, 0, NULL));
    MUST_ERR(ask_shard(&b, COORD_ACQUIRE, 0, NULL), ERR_EXISTS);
    atomic_store(&is_hanging, true);
    for (int64_t end_ms = must_now_ms() + 8000; must_now_ms() < end_ms;) { // More than a timeout.
        world_turn();
    }
    proxy_set(proxy, PROXY_CUT); // And a reconnect meanwhile.
    WORLD_UNTIL(client_is(&a, COORD_AWAY));
    proxy_set(proxy, PROXY_PASS);
    WORLD_UNTIL(client_is(&a, COORD_CONNECTED));
    MUST_OK(ask_shard(&a, COORD_STATE, 0, NULL));
    MUST_EQ(b.free_count[0], 0);
    client_close(&a);
    client_close(&b);
    proxy_close(proxy);
    world_close();
}

static void servers_that_move_are_found_under_their_names(void)
{
    struct proxy *proxy;
    int64_t begin_ms;

    world_open("moving");
    world.session_timeout_ms = 10000;
    atomic_store(&is_moved_off, true);
    proxy = proxy_open(world.fixture.zk_hosts);
    world.hosts = named(proxy_address(proxy), "");
    memset(&a, 0, sizeof(a));
    (void)snprintf(a.self.name, sizeof(a.self.name), "broker-a");
    (void)snprintf(a.self.instance, sizeof(a.self.instance), "aaaaaaaaaaaaaaaa");
    world_add(&a);
    for (int64_t end_ms = must_now_ms() + 1000; must_now_ms() < end_ms;) {
        world_turn();
    }
    atomic_store(&is_moved_off, false);
    begin_ms = must_now_ms();
    WORLD_UNTIL(client_is(&a, COORD_NEW));
    (void)printf("found %lld ms after the name pointed there\n",
                 (long long)(must_now_ms() - begin_ms));
    client_close(&a);
    proxy_close(proxy);
    world_close();
}

static void a_close_while_a_name_is_looked_up_waits_for_it(void)
{
    world_open("closing");
    world.hosts = "nobody.test:1";
    atomic_store(&is_hanging, true);
    memset(&a, 0, sizeof(a));
    (void)snprintf(a.self.name, sizeof(a.self.name), "broker-a");
    (void)snprintf(a.self.instance, sizeof(a.self.instance), "aaaaaaaaaaaaaaaa");
    world_add(&a);
    WORLD_UNTIL(atomic_load(&lookup_count) > 0);
    client_close(&a);
    world_close();
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(addresses_are_sorted_and_unresolvable_names_left_out),
        MUST_CASE(a_connected_client_looks_up_no_name),
        MUST_CASE(a_hanging_resolver_costs_no_session),
        MUST_CASE(servers_that_move_are_found_under_their_names),
        MUST_CASE(a_close_while_a_name_is_looked_up_waits_for_it),
    };

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
