/* SPDX-License-Identifier: Apache-2.0
 *
 * What the seeded generator promises.
 */
#include "lib/base/prng.h"

#include <criterion/criterion.h>

Test(prng, equal_seeds_give_equal_sequences)
{
    struct prng a;
    struct prng b;

    prng_init_named(&a, 42, "load");
    prng_init_named(&b, 42, "load");
    for (int i = 0; i < 1000; i++) {
        cr_assert_eq(prng_next(&a), prng_next(&b));
    }
}

Test(prng, streams_of_one_seed_differ_by_name)
{
    struct prng a;
    struct prng b;
    int equal_count = 0;

    prng_init_named(&a, 42, "load");
    prng_init_named(&b, 42, "net");
    for (int i = 0; i < 1000; i++) {
        equal_count += prng_next(&a) == prng_next(&b);
    }
    cr_assert_eq(equal_count, 0);
}

Test(prng, draws_stay_in_their_bounds_and_reach_both_ends)
{
    struct prng prng;
    bool low = false;
    bool high = false;

    prng_init(&prng, 7);
    for (int i = 0; i < 10000; i++) {
        int64_t draw = prng_between(&prng, -3, 3);

        cr_assert(draw >= -3 && draw <= 3);
        low = low || draw == -3;
        high = high || draw == 3;
    }
    cr_assert(low && high);
}
