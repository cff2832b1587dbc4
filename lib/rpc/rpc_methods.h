/* SPDX-License-Identifier: Apache-2.0
 *
 * The methods that a server serves, by path.
 */
#ifndef FOLIOT_LIB_RPC_RPC_METHODS_H
#define FOLIOT_LIB_RPC_RPC_METHODS_H

#include "lib/base/attr.h"
#include "lib/rpc/rpc_method.h"

#include <stdbool.h>
#include <stddef.h>

/* Methods of one server: every service of the product several times over. */
#define RPC_METHODS_MAX 256U

struct rpc_methods {
    const struct rpc_method *rows[RPC_METHODS_MAX]; /* sorted by path */
    size_t count;
    const struct rpc_method *any; /* of RPC_PATH_ANY, or NULL */
};

/* Add a method; borrowed. errors: ERR_INVALID (path), ERR_EXISTS, ERR_FULL. */
MUST_USE int rpc_methods_add(struct rpc_methods *methods, const struct rpc_method *method);

/* The method of a path, else the one of RPC_PATH_ANY, else NULL. */
const struct rpc_method *rpc_methods_find(const struct rpc_methods *methods, struct slice path);

/* Is there a method of "package.Service"? */
bool rpc_methods_has_service(const struct rpc_methods *methods, struct slice service);

#endif
