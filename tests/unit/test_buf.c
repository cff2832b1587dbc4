/* SPDX-License-Identifier: Apache-2.0
 *
 * What the byte buffer promises.
 */
#include "lib/base/buf.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <string.h>

Test(buf, never_holds_more_than_its_maximum)
{
    struct buf buf;

    buf_init(&buf, 4);
    cr_assert_eq(buf_append(&buf, "abcd", 4), 0);
    cr_assert_eq(buf_append(&buf, "e", 1), ERR_TOO_LARGE);
    cr_assert_eq(buf_len(&buf), 4);
    cr_assert(buf.failed);
    cr_assert_str_eq(buf_text(&buf), "abcd");
    buf_fini(&buf);
}

Test(buf, keeps_bytes_in_order_across_consume_and_growth)
{
    struct buf buf;
    uint8_t next_in = 0;
    uint8_t next_out = 0;

    buf_init(&buf, 4096);
    for (int round = 0; round < 2000; round++) {
        for (int i = 0; i < 7 && buf_len(&buf) < 4000; i++) {
            cr_assert_eq(buf_append(&buf, &next_in, 1), 0);
            next_in++;
        }
        for (int i = 0; i < 5; i++) {
            cr_assert_eq(buf_slice(&buf).data[0], next_out);
            next_out++;
            buf_consume(&buf, 1);
        }
    }
    buf_fini(&buf);
}

Test(buf, text_is_whole_when_the_buffer_is_full_behind_a_gap)
{
    struct buf buf;

    buf_init(&buf, 4);
    cr_assert_eq(buf_append(&buf, "abcd", 4), 0);
    buf_consume(&buf, 1);
    cr_assert_eq(buf_append(&buf, "e", 1), 0);
    cr_assert_str_eq(buf_text(&buf), "bcde");
    buf_fini(&buf);
}

Test(buf, printf_writes_long_lines_whole)
{
    struct buf buf;
    char line[600];

    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = '\0';
    buf_init(&buf, 1024);
    cr_assert_eq(buf_printf(&buf, "<%s>", line), 0);
    cr_assert_eq(buf_len(&buf), sizeof(line) + 1);
    buf_fini(&buf);
}
