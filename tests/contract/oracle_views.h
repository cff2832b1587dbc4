/* SPDX-License-Identifier: Apache-2.0
 *
 * The views that people read in psql, held against the memory store, row by row.
 */
#ifndef FOLIOT_TESTS_CONTRACT_ORACLE_VIEWS_H
#define FOLIOT_TESTS_CONTRACT_ORACLE_VIEWS_H

#include "storage/store_mem.h"

#include <libpq-fe.h>

/* foliot.pending, foliot.dead and foliot.ended have what `mem` has, and nothing else; the case
 * fails if not. Returns the rows that were compared. */
size_t oracle_views_compare(PGconn *conn, const struct store_mem *mem, uint32_t shard_count);

#endif
