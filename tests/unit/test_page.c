/* SPDX-License-Identifier: Apache-2.0
 *
 * Page tokens: what goes out comes back, and nothing else is let in.
 */
#include "lib/base/err.h"
#include "proto/page.h"

#include <criterion/criterion.h>
#include <string.h>

static void check_round(struct page_mark mark)
{
    char token[PAGE_TOKEN_BYTES_MAX + 1];
    struct page_mark back;

    cr_assert_eq(page_parse(page_format(mark, SHARD_COUNT_MAX, token), &back), 0, "%s", token);
    cr_assert_eq(back.shard, mark.shard);
    cr_assert_eq(back.bucket, mark.bucket);
    cr_assert_eq(back.seq, mark.seq);
    cr_assert_eq(back.count, mark.count);
}

Test(page, a_token_gives_its_mark_back)
{
    check_round(page_start());
    check_round((struct page_mark){7, 25000000, INT64_MAX, 12});
    check_round((struct page_mark){SHARD_COUNT_MAX - 1, INT64_MAX - 1, INT64_MAX, UINT64_MAX});
}

Test(page, the_end_is_the_empty_token_and_that_is_the_start_again)
{
    char token[PAGE_TOKEN_BYTES_MAX + 1];
    struct page_mark mark = {.shard = 16};

    cr_assert_str_eq(page_format(mark, 16, token), "");
    cr_assert_eq(page_parse("", &mark), 0);
    cr_assert_eq(mark.shard, 0);
    cr_assert_eq(mark.bucket, -1);
}

Test(page, what_no_page_gave_is_refused)
{
    static const char *const bad[] = {
        "1",
        "1.2.3",
        "1.2.3.4.5",
        "1.2.3.",
        ".1.2.3",
        "1..2.3",
        "1.2.3.4 ",
        "1.2.3.G",
        "1000.0.0.0",
        "1.2.3.A",
        "-1.0.0.0",
        "0.8000000000000000.0.0",
        "0.0.ffffffffffffffff.0",
        "0.0.0.10000000000000000",
    };

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct page_mark mark;

        cr_assert_eq(page_parse(bad[i], &mark), ERR_INVALID, "%s", bad[i]);
    }
}
