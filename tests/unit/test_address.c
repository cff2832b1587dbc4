/* SPDX-License-Identifier: Apache-2.0
 *
 * What addresses promise.
 */
#include "lib/base/err.h"
#include "lib/io/address.h"

#include <criterion/criterion.h>

Test(address, numeric_hosts_are_parsed_and_printed)
{
    struct address address;
    char text[ADDRESS_TEXT_BYTES];

    cr_assert_eq(address_parse("127.0.0.1", 80, &address), 0);
    address_format(&address, text);
    cr_assert_str_eq(text, "127.0.0.1:80");
    cr_assert_eq(address_parse("::1", 65535, &address), 0);
    address_format(&address, text);
    cr_assert_str_eq(text, "[::1]:65535");
    cr_assert_eq(address_port(&address), 65535);
}

Test(address, names_and_near_misses_are_refused)
{
    static const char *const bad[] = {"",      "localhost", "1.2.3",    "1.2.3.4.5", "256.1.1.1",
                                      "[::1]", ":::",       "1.2.3.4 ", "01.2.3.4x"};
    struct address address;

    for (size_t i = 0; i < ARRAY_COUNT(bad); i++) {
        cr_assert_eq(address_parse(bad[i], 1, &address), ERR_INVALID, "%s", bad[i]);
    }
}

Test(address, hosts_compare_without_their_port)
{
    struct address a;
    struct address b;

    cr_assert_eq(address_parse("10.0.0.1", 1, &a), 0);
    cr_assert_eq(address_parse("10.0.0.1", 2, &b), 0);
    cr_assert(address_same_host(&a, &b));
    cr_assert_not(address_equal(&a, &b));
    cr_assert_eq(address_parse("10.0.0.2", 1, &b), 0);
    cr_assert_not(address_same_host(&a, &b));
    cr_assert_eq(address_parse("::1", 1, &b), 0);
    cr_assert_not(address_same_host(&a, &b));
}
