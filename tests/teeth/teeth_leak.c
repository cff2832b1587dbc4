/* SPDX-License-Identifier: Apache-2.0
 *
 * Leaks on purpose. Criterion lets it pass; tools/run-tests must not.
 */
#include "lib/base/mem.h"

#include <criterion/criterion.h>

Test(teeth, leaks)
{
    cr_assert(mem_new(1, 30) != NULL);
}
