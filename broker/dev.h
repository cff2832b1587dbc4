/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot dev: a whole cluster in this process, without any server. The same broker as foliotd, on
 * SQLite and the standalone coordinator. It makes a queue named "default" whose target is this
 * process itself, so that one command is enough to see a task fire.
 */
#ifndef FOLIOT_BROKER_DEV_H
#define FOLIOT_BROKER_DEV_H

#include "lib/base/attr.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rpc_method;

/* Room for what dev_run() has to say. */
#define DEV_MESSAGE_LEN 512

/* The queue that is there from the start; its namespace is "default" too. */
#define DEV_QUEUE "default"

#define DEV_PORT_DEFAULT       7400
#define DEV_ADMIN_PORT_DEFAULT 7401

/* Most brokers; the ports of each are two above those of the one before. */
#define DEV_BROKERS_MAX 8

/* Room for the addresses of all, with commas. */
#define DEV_ADDRESSES_LEN 256

/* Where everything is, once it serves. Borrowed for the call. */
struct dev_place {
    const char *address;         /* host:port for calls, of the first broker */
    const char *addresses;       /* of all, with commas */
    const char *admin_address;   /* host:port, of the first */
    const char *admin_addresses; /* of all, with commas */
    const char *db_file;         /* NULL: in memory */
    bool is_default_ours;        /* DEV_QUEUE sends to `methods` of this process */
};

struct dev_options {
    const char *db_file; /* NULL: in memory */
    uint16_t port;       /* of the first broker, on 127.0.0.1; 0 takes any */
    uint16_t admin_port;
    uint32_t broker_count;  /* 1 … DEV_BROKERS_MAX */
    const char *log_level;  /* debug, info, warn or error */
    const char *log_format; /* text or json */
    const char *allow; /* patterns of host:port that queues may send to, with commas; NULL: this
                          machine */
    const struct rpc_method *methods; /* served beside those of the broker: the sample receiver */
    size_t method_count;
    void (*on_ready)(void *ctx, const struct dev_place *place);
    void *ctx; /* of on_ready */
};

/*
 * Run until SIGINT or SIGTERM.
 *
 * errors: with errmsg (DEV_MESSAGE_LEN bytes), one line: ERR_INVALID an option's value; ERR_EXISTS
 * a port is taken; of the database as store_sqlite_open(); ERR_IO it did not end in order. errmsg
 * is empty if the log has said it.
 */
MUST_USE int dev_run(const struct dev_options *options, char *errmsg);

#endif
