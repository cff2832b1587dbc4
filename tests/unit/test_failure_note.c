/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing targets are told at once, and then once per look with their count.
 */
#include "broker/failure_note.h"

#include <criterion/criterion.h>
#include <string.h>

struct book {
    struct failure_notes notes;
    struct failure_note a;
    struct failure_note b;
    uint32_t lines;
    struct failure_note last;
};

static void on_tell(void *ctx, struct failure_note *note)
{
    struct book *book = ctx;

    book->lines++;
    book->last = *note;
}

static void open_book(struct book *book)
{
    memset(book, 0, sizeof(*book));
    failure_notes_init(&book->notes, on_tell, book);
    failure_init(&book->a);
    failure_init(&book->b);
}

Test(failure_note, the_first_failure_is_told_at_once)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, slice_of("cannot connect"));
    cr_assert_eq(book.lines, 1);
    cr_assert_eq(book.last.counts[OUTCOME_RETRY], 1);
    cr_assert_str_eq(book.last.cause, "cannot connect");
}

Test(failure_note, the_following_ones_are_added_up_until_the_next_look)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, slice_of("one"));
    for (int i = 0; i < 1000; i++) {
        failure_add(&book.notes, &book.a, i % 2 == 0 ? OUTCOME_RETRY : OUTCOME_UNKNOWN,
                    slice_of("two"));
    }
    cr_assert_eq(book.lines, 1);
    cr_assert(failure_look(&book.notes));
    cr_assert_eq(book.lines, 2);
    cr_assert_eq(book.last.counts[OUTCOME_RETRY], 500);
    cr_assert_eq(book.last.counts[OUTCOME_UNKNOWN], 500);
    cr_assert_str_eq(book.last.cause, "two");
}

Test(failure_note, a_look_that_finds_nothing_new_ends_it)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_DEAD, slice_of("no"));
    cr_assert_not(failure_look(&book.notes), "nothing to look for");
    cr_assert_eq(book.lines, 1);
    failure_add(&book.notes, &book.a, OUTCOME_DEAD, slice_of("no"));
    cr_assert_eq(book.lines, 2, "after a silence the first one is told at once again");
}

Test(failure_note, a_success_is_no_failure)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_DONE, slice_of(""));
    failure_add(&book.notes, &book.a, OUTCOME_OBSOLETE, slice_of(""));
    cr_assert_eq(book.lines, 0);
    cr_assert_not(failure_look(&book.notes));
}

Test(failure_note, each_place_is_told_for_itself)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, slice_of("a"));
    failure_add(&book.notes, &book.b, OUTCOME_RETRY, slice_of("b"));
    cr_assert_eq(book.lines, 2);
    failure_add(&book.notes, &book.b, OUTCOME_RETRY, slice_of("b"));
    cr_assert(failure_look(&book.notes));
    cr_assert_eq(book.lines, 3);
    cr_assert_str_eq(book.last.cause, "b");
}

Test(failure_note, what_goes_away_leaves_its_last_count)
{
    struct book book;

    open_book(&book);
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, slice_of("a"));
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, slice_of("a"));
    failure_drop(&book.notes, &book.a);
    cr_assert_eq(book.lines, 2);
    failure_drop(&book.notes, &book.a);
    cr_assert_not(failure_look(&book.notes));
    cr_assert_eq(book.lines, 2);
}

Test(failure_note, a_long_cause_is_cut)
{
    struct book book;
    uint8_t text[1000];

    open_book(&book);
    memset(text, 'x', sizeof(text));
    failure_add(&book.notes, &book.a, OUTCOME_RETRY, (struct slice){text, sizeof(text)});
    cr_assert_eq(strlen(book.last.cause), FAILURE_CAUSE_BYTES_MAX);
}
