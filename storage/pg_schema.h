/* SPDX-License-Identifier: Apache-2.0
 *
 * The schema steps of storage/schema/pg, in the binary. Filled in at build time.
 */
#ifndef FOLIOT_STORAGE_PG_SCHEMA_H
#define FOLIOT_STORAGE_PG_SCHEMA_H

#include <stddef.h>
#include <stdint.h>

struct embedded_file {
    const char *name;     /* "0001_base.sql" */
    const uint8_t *bytes; /* with a NUL behind */
    size_t len;           /* without it */
};

/* In the order in which they are applied. */
extern const struct embedded_file schema_pg_files[];
extern const size_t schema_pg_file_count;

#endif
