/* SPDX-License-Identifier: Apache-2.0
 *
 * The suite's host on SQLite, for two programs: in memory, and in files.
 */
#ifndef FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_SQLITE_H
#define FOLIOT_TESTS_CONTRACT_STORE_CONTRACT_SQLITE_H

#include <stdbool.h>

/* Run the suite; the exit status for main(). */
int contract_sqlite_main(int argc, char **argv, bool in_memory);

#endif
