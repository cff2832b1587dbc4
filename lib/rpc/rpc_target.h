/* SPDX-License-Identifier: Apache-2.0
 *
 * The address of a gRPC target as text: "host:port", "dns:///host:port", "ipv4:1.2.3.4:80",
 * "ipv6:[::1]:80". Pure.
 */
#ifndef FOLIOT_LIB_RPC_RPC_TARGET_H
#define FOLIOT_LIB_RPC_RPC_TARGET_H

#include "lib/base/attr.h"
#include "lib/base/limits.h"

#include <stdbool.h>
#include <stdint.h>

/* A host and its NUL. */
#define RPC_HOST_BYTES (HOST_BYTES_MAX + 1U)

/* "[host]:65535" and its NUL. */
#define RPC_AUTHORITY_BYTES (RPC_HOST_BYTES + 8U)

struct rpc_target {
    char host[RPC_HOST_BYTES];           /* without brackets */
    char authority[RPC_AUTHORITY_BYTES]; /* host:port, with brackets around IPv6 */
    uint16_t port;
    bool is_numeric;
};

/* Parse a target. errors: ERR_INVALID; out is written only on success. */
MUST_USE int rpc_target_parse(const char *text, struct rpc_target *out);

#endif
