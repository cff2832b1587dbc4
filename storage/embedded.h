/* SPDX-License-Identifier: Apache-2.0
 *
 * A text file in the binary, as cmake/embed.cmake makes it.
 */
#ifndef FOLIOT_STORAGE_EMBEDDED_H
#define FOLIOT_STORAGE_EMBEDDED_H

#include <stddef.h>
#include <stdint.h>

struct embedded_file {
    const char *name;     /* "0001_base.sql" */
    const uint8_t *bytes; /* with a NUL behind */
    size_t len;           /* without it */
};

#endif
