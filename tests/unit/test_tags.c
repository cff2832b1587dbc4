/* SPDX-License-Identifier: Apache-2.0
 *
 * The canonical text of tags: one text for one set, and a filter that is exact.
 */
#include "lib/base/err.h"
#include "lib/model/tags.h"

#include <criterion/criterion.h>
#include <string.h>

static char text[TAGS_BYTES_MAX + 1];
static char errmsg[256];

static struct tag tag_of(const char *name, const char *value)
{
    return (struct tag){slice_of(name), slice_of(value)};
}

static int write_tags(struct tag *tags, size_t count)
{
    size_t len = 0;
    int err = tags_write(tags, count, text, &len, errmsg, sizeof(errmsg));

    text[err == 0 ? len : 0] = '\0';
    return err;
}

static bool matches(const char *have, const char *wanted)
{
    return tags_match(slice_of(have), slice_of(wanted));
}

Test(tags, text_is_sorted_by_name_whatever_the_order)
{
    struct tag tags[] = {tag_of("size", "9"), tag_of("colour", "r=d"), tag_of("a", "")};

    cr_assert_eq(write_tags(tags, 3), 0);
    cr_assert_str_eq(text, "a=\ncolour=r=d\nsize=9\n");
}

Test(tags, nothing_is_the_empty_text)
{
    cr_assert_eq(write_tags(NULL, 0), 0);
    cr_assert_str_eq(text, "");
}

Test(tags, a_walk_gives_back_what_was_written)
{
    struct slice bytes = slice_of("a=\nb=x=y\n");
    struct tag tag;
    size_t at = 0;

    cr_assert(tags_next(bytes, &at, &tag));
    cr_assert(slice_equal(tag.name, slice_of("a")) && tag.value.len == 0);
    cr_assert(tags_next(bytes, &at, &tag));
    cr_assert(slice_equal(tag.name, slice_of("b")) && slice_equal(tag.value, slice_of("x=y")));
    cr_assert_not(tags_next(bytes, &at, &tag));
}

Test(tags, bad_names_and_values_are_refused_with_their_limit)
{
    static char long_text[TAG_VALUE_BYTES_MAX + 2];
    const struct {
        const char *name;
        const char *value;
        const char *says;
    } bad[] = {
        {"", "x", "TAG_NAME_BYTES_MAX"},        {"a b", "x", "TAG_NAME_BYTES_MAX"},
        {"a=b", "x", "TAG_NAME_BYTES_MAX"},     {"a\n", "x", "TAG_NAME_BYTES_MAX"},
        {"a", "x\ny", "TAG_VALUE_BYTES_MAX"},   {"a", "\x7f", "TAG_VALUE_BYTES_MAX"},
        {"a", "\xc3", "TAG_VALUE_BYTES_MAX"},   {"a", long_text, "TAG_VALUE_BYTES_MAX"},
        {long_text, "x", "TAG_NAME_BYTES_MAX"},
    };

    memset(long_text, 'v', sizeof(long_text) - 1);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct tag tag = tag_of(bad[i].name, bad[i].value);

        cr_assert_eq(write_tags(&tag, 1), ERR_INVALID, "row %zu", i);
        cr_assert_not_null(strstr(errmsg, bad[i].says), "row %zu: %s", i, errmsg);
    }
}

Test(tags, the_largest_ones_fit_and_one_more_is_refused)
{
    static char names[TAG_COUNT_MAX + 1][TAG_NAME_BYTES_MAX + 1];
    static char value[TAG_VALUE_BYTES_MAX + 1];
    struct tag tags[TAG_COUNT_MAX + 1];

    memset(value, 'v', TAG_VALUE_BYTES_MAX);
    for (size_t i = 0; i <= TAG_COUNT_MAX; i++) {
        memset(names[i], 'a' + (int)i, TAG_NAME_BYTES_MAX);
        tags[i] = tag_of(names[i], value);
    }
    cr_assert_eq(write_tags(tags, TAG_COUNT_MAX), 0);
    cr_assert_eq(strlen(text), TAGS_BYTES_MAX);
    cr_assert_eq(write_tags(tags, TAG_COUNT_MAX + 1), ERR_INVALID);
    cr_assert_not_null(strstr(errmsg, "TAG_COUNT_MAX"));
}

Test(tags, a_name_twice_is_refused)
{
    struct tag tags[] = {tag_of("b", "1"), tag_of("a", "1"), tag_of("b", "2")};

    cr_assert_eq(write_tags(tags, 3), ERR_INVALID);
    cr_assert_not_null(strstr(errmsg, "twice"));
}

Test(tags, a_filter_wants_every_name_with_its_value)
{
    cr_assert(matches("a=1\nb=2\nc=3\n", ""));
    cr_assert(matches("a=1\nb=2\nc=3\n", "b=2\n"));
    cr_assert(matches("a=1\nb=2\nc=3\n", "a=1\nc=3\n"));
    cr_assert_not(matches("a=1\nb=2\nc=3\n", "b=3\n"));
    cr_assert_not(matches("a=1\nb=2\n", "a=1\nc=3\n"));
    cr_assert_not(matches("ab=1\n", "a=1\n"));
    cr_assert_not(matches("", "a=1\n"));
}
