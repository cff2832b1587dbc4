/* SPDX-License-Identifier: Apache-2.0
 *
 * The runner of plain programs bites: whatever goes wrong in a case fails the program.
 */
#include "tests/lib/must.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

static void good(void)
{
    MUST(true);
    MUST_EQ(-1, -1);
    MUST_EQ_TEXT("a", "a");
    MUST_EQ_BYTES("a", "a", 2);
    MUST_OK(0);
    MUST_ERR(ERR_FENCED, ERR_FENCED);
    MUST_LE(1, 1);
    MUST_SOON(true, 0);
}

static void unequal(void)
{
    MUST_EQ(1, 2);
}

static void unequal_text(void)
{
    MUST_EQ_TEXT("a", "b");
}

static void null_text(void)
{
    MUST_EQ_TEXT(NULL, "b");
}

static void unequal_bytes(void)
{
    MUST_EQ_BYTES("ab", "ac", 2);
}

static void wrong_error(void)
{
    MUST_ERR(ERR_FENCED, ERR_FULL);
}

static void never_comes(void)
{
    MUST_SOON(false, 10);
}

static void crashes(void)
{
    (void)raise(SIGKILL);
}

static void hangs(void)
{
    (void)pause();
}

static int run(const struct must_case *cases, size_t count)
{
    char *argv[] = {(char[]){"test"}, NULL};

    return must_main(1, argv, cases, count);
}

Test(must, a_program_of_good_cases_succeeds)
{
    static const struct must_case cases[] = {MUST_CASE(good), MUST_CASE(good)};

    cr_assert_eq(run(cases, ARRAY_COUNT(cases)), 0);
}

Test(must, each_kind_of_failure_fails_the_program)
{
    static const struct must_case cases[] = {MUST_CASE(unequal),     MUST_CASE(unequal_text),
                                             MUST_CASE(null_text),   MUST_CASE(wrong_error),
                                             MUST_CASE(never_comes), MUST_CASE(unequal_bytes),
                                             MUST_CASE(crashes),     MUST_CASE_WITHIN(hangs, 1)};

    for (size_t i = 0; i < ARRAY_COUNT(cases); i++) {
        cr_assert_neq(run(&cases[i], 1), 0, "%s", cases[i].name);
    }
}

Test(must, one_bad_case_among_good_ones_fails_the_program)
{
    static const struct must_case cases[] = {MUST_CASE(good), MUST_CASE(unequal), MUST_CASE(good)};

    cr_assert_neq(run(cases, ARRAY_COUNT(cases)), 0);
}

Test(must, a_program_that_ran_nothing_does_not_succeed)
{
    static const struct must_case cases[] = {MUST_CASE(good)};
    char *argv[] = {(char[]){"test"}, (char[]){"no_such_case"}, NULL};

    cr_assert_neq(must_main(2, argv, cases, ARRAY_COUNT(cases)), 0);
}
