/* SPDX-License-Identifier: Apache-2.0
 *
 * What the table of methods promises.
 */
#include "lib/rpc/rpc_methods.h"

#include "lib/base/err.h"

#include <criterion/criterion.h>

static const struct rpc_method ROWS[] = {
    {.path = "/b.Service/Two"},
    {.path = "/a.Service/One"},
    {.path = "/b.Service/One"},
};

static void add_rows(struct rpc_methods *methods)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        cr_assert_eq(rpc_methods_add(methods, &ROWS[i]), 0);
    }
}

Test(rpc_methods, finds_exactly_what_was_added)
{
    struct rpc_methods methods = {.count = 0};

    add_rows(&methods);
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        cr_assert_eq(rpc_methods_find(&methods, slice_of(ROWS[i].path)), &ROWS[i]);
        cr_assert_eq(rpc_methods_add(&methods, &ROWS[i]), ERR_EXISTS);
    }
    cr_assert_eq(rpc_methods_find(&methods, slice_of("/a.Service/Two")), NULL);
    cr_assert_eq(rpc_methods_find(&methods, slice_of("/a.Service/one")), NULL);
    cr_assert(rpc_methods_has_service(&methods, slice_of("b.Service")));
    cr_assert(!rpc_methods_has_service(&methods, slice_of("c.Service")));
}

Test(rpc_methods, a_row_for_any_path_takes_only_what_no_other_does)
{
    static const struct rpc_method any = {.path = RPC_PATH_ANY};
    struct rpc_methods methods = {.count = 0};

    add_rows(&methods);
    cr_assert_eq(rpc_methods_add(&methods, &any), 0);
    cr_assert_eq(rpc_methods_add(&methods, &any), ERR_EXISTS);
    cr_assert_eq(rpc_methods_find(&methods, slice_of(ROWS[1].path)), &ROWS[1]);
    cr_assert_eq(rpc_methods_find(&methods, slice_of("/x.Other/Method")), &any);
    cr_assert_eq(rpc_methods_find(&methods, slice_of("no path")), NULL);
    cr_assert_eq(rpc_methods_find(&methods, slice_of("*")), NULL);
    cr_assert(!rpc_methods_has_service(&methods, slice_of("x.Other")));
}

Test(rpc_methods, refuses_what_is_no_path)
{
    const struct rpc_method bad[] = {
        {.path = ""}, {.path = "a/b"}, {.path = "/a"}, {.path = "/a/"}};
    struct rpc_methods methods = {.count = 0};

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        cr_assert_eq(rpc_methods_add(&methods, &bad[i]), ERR_INVALID, "%s", bad[i].path);
    }
}
