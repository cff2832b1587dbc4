/* SPDX-License-Identifier: Apache-2.0
 *
 * What the tasks of a benchmark promise: delays of the distribution that was asked for, and the
 * same task each time that it is asked for by its number.
 */
#include "client/cli/bench_mix.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <string.h>

#define TASK_COUNT 20000

static const struct mix EMPTY = {.queue = {"default", "q"}, .seed = 4};

static span_ms delay_of(const struct mix *mix, uint32_t number)
{
    struct create_request request;
    char key[MIX_KEY_BYTES];

    mix_describe(mix, number, key, &request);
    cr_assert_eq(request.when.kind, WHEN_DELAY);
    return request.when.delay_ms;
}

Test(bench_mix, an_even_delay_fills_its_range)
{
    struct mix mix = EMPTY;
    span_ms least = INT64_MAX;
    span_ms most = 0;
    int64_t sum = 0;

    cr_assert_eq(delays_parse("1s..3s", &mix.delays), 0);
    for (uint32_t i = 0; i < TASK_COUNT; i++) {
        span_ms delay = delay_of(&mix, i);

        least = time_min(least, delay);
        most = time_max(most, delay);
        sum += delay;
        cr_assert_eq(delay, delay_of(&mix, i));
    }
    cr_assert(least >= 1000 && least < 1010 && most <= 3000 && most > 2990);
    cr_assert(sum / TASK_COUNT > 1960 && sum / TASK_COUNT < 2040);
    cr_assert_eq(delays_max(&mix.delays), 3000);
}

Test(bench_mix, an_exponential_delay_has_its_mean_and_its_tail)
{
    struct mix mix = EMPTY;
    int64_t sum = 0;
    int beyond = 0;

    cr_assert_eq(delays_parse("exp:10s", &mix.delays), 0);
    for (uint32_t i = 0; i < TASK_COUNT; i++) {
        span_ms delay = delay_of(&mix, i);

        sum += delay;
        beyond += delay > 20000;
        cr_assert(delay >= 0 && delay <= delays_max(&mix.delays));
    }
    cr_assert(sum / TASK_COUNT > 9700 && sum / TASK_COUNT < 10300, "%lld",
              (long long)(sum / TASK_COUNT));
    cr_assert(beyond > TASK_COUNT * 12 / 100 && beyond < TASK_COUNT * 15 / 100, "%d",
              beyond); // e^-2
}

Test(bench_mix, parts_are_drawn_equally_often)
{
    struct mix mix = EMPTY;
    int far = 0;

    cr_assert_eq(delays_parse("0s..1h,1d", &mix.delays), 0);
    for (uint32_t i = 0; i < TASK_COUNT; i++) {
        far += delay_of(&mix, i) == 86400000;
    }
    cr_assert(far > TASK_COUNT * 48 / 100 && far < TASK_COUNT * 52 / 100, "%d", far);
}

Test(bench_mix, a_share_of_the_tasks_has_a_key_of_its_own)
{
    struct mix mix = EMPTY;
    struct create_request request;
    char key[MIX_KEY_BYTES];
    int keyed = 0;

    mix.keyed_permille = 300;
    for (uint32_t i = 0; i < TASK_COUNT; i++) {
        mix_describe(&mix, i, key, &request);
        cr_assert_eq(request.key.len > 0, mix_is_keyed(&mix, i));
        keyed += request.key.len > 0;
    }
    cr_assert(keyed > TASK_COUNT * 28 / 100 && keyed < TASK_COUNT * 32 / 100, "%d", keyed);
    mix.keyed_permille = 1000;
    mix_describe(&mix, UINT32_MAX, key, &request);
    cr_assert_str_eq(key, "bench-0000000000000004-4294967295");
}

Test(bench_mix, all_may_be_due_at_one_instant)
{
    struct mix mix = EMPTY;
    struct create_request request;
    char key[MIX_KEY_BYTES];

    mix.at = (struct when){.kind = WHEN_DUE, .due_ms = 77};
    mix_describe(&mix, 5, key, &request);
    cr_assert(request.when.kind == WHEN_DUE && request.when.due_ms == 77 && request.key.len == 0);
}

Test(bench_mix, refuses_what_is_no_delay)
{
    static const char *const texts[] = {"",
                                        "5",
                                        "1s..",
                                        "..1s",
                                        "2s..1s",
                                        "1s,,2s",
                                        "exp:",
                                        "exp:x",
                                        "1s,",
                                        "1s..2s..3s",
                                        "200y",
                                        "exp:200w",
                                        "1s,2s,3s,4s,5s,6s,7s,8s,9s"};
    struct delays delays = {.count = 1};

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        cr_assert_eq(delays_parse(texts[i], &delays), ERR_INVALID, "%s", texts[i]);
    }
    cr_assert_eq(delays_parse("1s,2s,3s,4s,5s,6s,7s,8s", &delays), 0);
    cr_assert_eq(delays.count, 8U);
}
