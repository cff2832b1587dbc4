/* SPDX-License-Identifier: Apache-2.0
 *
 * A name server for tests, on a UDP socket of the test's own loop: every name has the addresses it
 * is told, or none, or it does not answer.
 */
#ifndef FOLIOT_TESTS_LIB_FAKE_DNS_H
#define FOLIOT_TESTS_LIB_FAKE_DNS_H

#include "lib/io/loop.h"

#include <stddef.h>
#include <stdint.h>

#define FAKE_DNS_HOSTS_MAX 4U

enum fake_dns_mood {
    FAKE_DNS_ANSWERS, /* with the hosts */
    FAKE_DNS_DENIES,  /* no such name */
    FAKE_DNS_IS_SILENT
};

/* Owned by the test; must not move while open. Mood and hosts may be changed at any time. */
struct fake_dns {
    struct loop_fd watcher;
    enum fake_dns_mood mood;
    uint32_t hosts[FAKE_DNS_HOSTS_MAX]; /* IPv4, in host order */
    size_t host_count;
    int query_count;  /* for addresses of version 4 */
    char servers[32]; /* for struct resolver_options */
};

/* Bind and serve. Zero on success; the test fails otherwise. */
MUST_USE int fake_dns_open(struct fake_dns *dns, struct loop *loop, enum fake_dns_mood mood);

void fake_dns_close(struct fake_dns *dns);

#endif
