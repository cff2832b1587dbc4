/* SPDX-License-Identifier: Apache-2.0
 *
 * The routing hash.
 */
#include "proto/route.h"

#include "lib/base/check.h"
#include "lib/base/limits.h"

#include <string.h>
#include <xxhash.h>

/* Slots of a queue, from its first one on. */
#define QUEUE_WIDTH SLOT_COUNT

uint16_t route_queue_slot(const char *tenant, const char *queue)
{
    char text[2 * NAME_BYTES_MAX + 1];
    size_t tenant_len = strlen(tenant);
    size_t queue_len = strlen(queue);

    REQUIRE(tenant_len <= NAME_BYTES_MAX && queue_len <= NAME_BYTES_MAX);
    memcpy(text, tenant, tenant_len);
    text[tenant_len] = '\0';
    memcpy(text + tenant_len + 1, queue, queue_len);
    return (uint16_t)(XXH64(text, tenant_len + 1 + queue_len, ROUTE_SEED) % SLOT_COUNT);
}

uint16_t route_key_slot(const char *tenant, const char *queue, struct slice key)
{
    uint64_t offset;

    REQUIRE(key.len > 0);
    offset = XXH64(key.data, key.len, ROUTE_SEED) % QUEUE_WIDTH;
    return (uint16_t)((route_queue_slot(tenant, queue) + offset) % SLOT_COUNT);
}
