/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of servers to addresses, before ZooKeeper's library sees them. Left to itself it looks
 * names up on the thread that sends heartbeats, in every pass while it is disconnected, and refuses
 * the whole list if one name does not resolve (Z-7, Z-14).
 */
#ifndef FOLIOT_COORDINATOR_COORD_ZK_HOSTS_H
#define FOLIOT_COORDINATOR_COORD_ZK_HOSTS_H

#include "lib/base/attr.h"

/*
 * Resolve "host:port,host:port" to "address:port,address:port", sorted, without repeats; names that
 * do not resolve are left out.
 *
 * shape:     hosts as of struct coord_zk_place; brackets around an address are allowed.
 * note:      blocks for as long as the resolver does: a helper thread's work.
 * ownership: *out is freed by mem_free().
 * errors:    ERR_INVALID an entry without a port; ERR_NOT_FOUND no name resolves; ERR_TOO_LARGE
 *            more than ZK_ADDRESS_COUNT_MAX addresses; ERR_NO_MEMORY.
 */
MUST_USE int zk_hosts_resolve(const char *hosts, char **out);

/* An ensemble has 3 to 7 servers; names may have several addresses. */
#define ZK_ADDRESS_COUNT_MAX 64

#endif
