/* SPDX-License-Identifier: Apache-2.0
 *
 * The metadata of one call in one block of memory: names and values, in order, duplicates kept,
 * binary values decoded.
 */
#ifndef FOLIOT_LIB_RPC_RPC_FIELDS_H
#define FOLIOT_LIB_RPC_RPC_FIELDS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

struct rpc_fields {
    struct buf bytes; /* records: two 32-bit lengths, name, value */
};

/* Start empty. shape: bytes_max bounds names, values and eight bytes for each field. */
void rpc_fields_init(struct rpc_fields *fields, size_t bytes_max);

void rpc_fields_fini(struct rpc_fields *fields);

/*
 * Add a header as it came in. Values of names that end in "-bin" are split at commas and decoded;
 * one that is no base64 is kept as it is, because a call must not fail over it.
 *
 * errors: ERR_TOO_LARGE, ERR_NO_MEMORY.
 */
MUST_USE int rpc_fields_add(struct rpc_fields *fields, struct slice name, struct slice value);

/* First value of a name, borrowed until the next add or fini; data is NULL if there is none. */
struct slice rpc_fields_find(const struct rpc_fields *fields, struct slice name);

/*
 * Walk: start with *position 0; false at the end.
 */
bool rpc_fields_next(const struct rpc_fields *fields, size_t *position, struct slice *name,
                     struct slice *value);

#endif
