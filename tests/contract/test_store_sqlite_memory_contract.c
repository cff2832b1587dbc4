/* SPDX-License-Identifier: Apache-2.0
 *
 * The contract of every store, on SQLite in memory.
 */
#include "tests/contract/store_contract_sqlite.h"

int main(int argc, char **argv)
{
    return contract_sqlite_main(argc, argv, true);
}
