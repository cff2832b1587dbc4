/* SPDX-License-Identifier: Apache-2.0
 *
 * What base64 promises.
 */
#include "lib/base/base64.h"
#include "lib/base/err.h"
#include "lib/base/prng.h"

#include <criterion/criterion.h>

Test(base64, round_trips_padded_or_not)
{
    struct prng prng;

    prng_init(&prng, 5);
    for (size_t len = 0; len < 70; len++) {
        uint8_t bytes[70];
        struct buf text;
        struct buf back;

        for (size_t i = 0; i < len; i++) {
            bytes[i] = (uint8_t)prng_next(&prng);
        }
        buf_init(&text, 200);
        buf_init(&back, 200);
        cr_assert_eq(base64_encode((struct slice){bytes, len}, false, &text), 0);
        cr_assert_eq(buf_len(&text), (len * 4 + 2) / 3);
        cr_assert_eq(base64_decode(buf_slice(&text), &back), 0);
        cr_assert(slice_equal(buf_slice(&back), (struct slice){bytes, len}));
        while (buf_len(&text) % 4 != 0) {
            cr_assert_eq(buf_append_text(&text, "="), 0);
        }
        buf_clear(&back);
        cr_assert_eq(base64_decode(buf_slice(&text), &back), 0);
        cr_assert(slice_equal(buf_slice(&back), (struct slice){bytes, len}));
        buf_fini(&text);
        buf_fini(&back);
    }
}

Test(base64, bad_text_is_refused)
{
    static const char *const bad[] = {"A", "AAAAA", "A===", "AA.A", "AA A", "=", "====", "A=AA"};

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        struct buf out;

        buf_init(&out, 100);
        cr_assert_eq(base64_decode(slice_of(bad[i]), &out), ERR_INVALID, "%s", bad[i]);
        buf_fini(&out);
    }
}

Test(base64, padding_is_written_when_asked_for)
{
    static const struct {
        const char *bytes;
        const char *text;
    } rows[] = {{"", ""}, {"x", "eA=="}, {"xy", "eHk="}, {"xyz", "eHl6"}, {"xyzx", "eHl6eA=="}};

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct buf out;

        buf_init(&out, 100);
        cr_assert_eq(base64_encode(slice_of(rows[i].bytes), true, &out), 0);
        cr_assert_str_eq(buf_text(&out), rows[i].text);
        buf_fini(&out);
    }
}

Test(base64, both_alphabets_are_read)
{
    struct buf standard;
    struct buf safe;

    buf_init(&standard, 100);
    buf_init(&safe, 100);
    cr_assert_eq(base64_decode(slice_of("-_-_"), &safe), 0);
    cr_assert_eq(base64_decode(slice_of("+/+/"), &standard), 0);
    cr_assert(slice_equal(buf_slice(&safe), buf_slice(&standard)));
    buf_fini(&standard);
    buf_fini(&safe);
}
