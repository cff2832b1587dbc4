/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a binary array in a reply: refused, or every element is inside the value and the
 * array is the same when written again.
 */
#include "storage/pg_array.h"

#include "lib/base/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice value = {data, size};
    struct slice again;
    struct pg_i64_view view;
    struct pg_i64_view copy;
    struct pg_array array;

    if (pg_i64_view_read(value, &view) != 0) {
        return 0;
    }
    pg_array_init(&array, size + 64);
    for (size_t i = 0; i < view.count; i++) {
        pg_array_add_int(&array, pg_i64_view_get(&view, i));
    }
    REQUIRE(pg_array_value(&array, &again) == 0);
    REQUIRE(pg_i64_view_read(again, &copy) == 0);
    REQUIRE(copy.count == view.count);
    for (size_t i = 0; i < view.count; i++) {
        REQUIRE(pg_i64_view_get(&copy, i) == pg_i64_view_get(&view, i));
    }
    pg_array_fini(&array);
    return 0;
}
