/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema steps of storage/schema/pg, in the binary. Filled in at build time.
 */
#ifndef FOLIOT_STORAGE_PG_SCHEMA_H
#define FOLIOT_STORAGE_PG_SCHEMA_H

#include "storage/embedded.h"

/* In the order in which they are applied. */
extern const struct embedded_file schema_pg_files[];
extern const size_t schema_pg_file_count;

#endif
