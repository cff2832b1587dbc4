/* SPDX-License-Identifier: Apache-2.0
 *
 * What routing promises: it is the same for ever and in every language. The rows are those of
 * proto/README.md; a change here loses every key in every cluster.
 */
#include "proto/route.h"

#include "lib/base/limits.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(route, is_the_same_for_ever)
{
    const struct {
        const char *tenant;
        const char *queue;
        const char *key;
        uint16_t slot;
    } rows[] = {
        {"default", "mail", "order-1", 1590}, {"default", "mail", "\xc3\xa4", 3645},
        {"default", "mail", "x", 3816},       {"shop", "orders", "order-1", 2861},
        {"shop", "orders", "\xc3\xa4", 820},  {"shop", "orders", "x", 991},
    };

    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        cr_assert_eq(route_key_slot(rows[i].tenant, rows[i].queue, slice_of(rows[i].key)),
                     rows[i].slot);
    }
    cr_assert_eq(route_queue_slot("default", "mail"), 4013);
}

Test(route, namespace_and_queue_are_not_run_together)
{
    cr_assert_neq(route_queue_slot("ab", "c"), route_queue_slot("a", "bc"));
}

Test(route, spreads_keys_over_all_slots)
{
    static uint32_t counts[SLOT_COUNT];
    uint32_t most = 0;

    for (int i = 0; i < 40 * SLOT_COUNT; i++) {
        char key[32];
        uint16_t slot;

        (void)snprintf(key, sizeof(key), "order-%d", i);
        slot = route_key_slot("default", "mail", slice_of(key));
        cr_assert_lt(slot, SLOT_COUNT);
        counts[slot]++;
    }
    for (size_t i = 0; i < SLOT_COUNT; i++) {
        most = counts[i] > most ? counts[i] : most;
        cr_assert_gt(counts[i], 10);
    }
    cr_assert_lt(most, 80);
}
