/* SPDX-License-Identifier: Apache-2.0
 *
 * What the beat promises for every session timeout that ZooKeeper may grant.
 */
#include "lib/base/beat.h"

#include <criterion/criterion.h>

Test(beat, is_about_a_second_and_a_whole_part_of_a_check)
{
    for (span_ms timeout_ms = 1; timeout_ms <= 60000; timeout_ms++) {
        int64_t beat = beat_us(timeout_ms);
        int64_t check = beat * beat_per_check(timeout_ms);

        cr_assert_geq(beat, 1);
        cr_assert_leq(beat, BEAT_US_MAX);
        cr_assert_leq(3 * check, timeout_ms * US_PER_MS, "three checks in a session timeout");
        cr_assert(timeout_ms < 3000 || beat >= BEAT_US_MAX / 2, "seldom enough for an idle broker");
    }
}

Test(beat, comes_after_now_and_within_its_period)
{
    const boot_us moments[] = {0, 1, 999, 1000, 1001, 123456789};

    for (size_t i = 0; i < sizeof(moments) / sizeof(moments[0]); i++) {
        boot_us next = beat_after(moments[i], 1000);

        cr_assert_gt(next, moments[i]);
        cr_assert_leq(next - moments[i], 1000);
        cr_assert_eq(next % 1000, 0);
    }
}
