/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML file as a flat list of dotted keys: mappings are flattened, values are scalars or lists of
 * scalars. Aliases, anchors, tags, duplicate keys and more than one document are refused. Knows
 * nothing of options.
 */
#ifndef FOLIOT_LIB_YAML_FLAT_YAML_H
#define FOLIOT_LIB_YAML_FLAT_YAML_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define YAML_KEY_BYTES_MAX  128
#define YAML_KEY_COUNT_MAX  256
#define YAML_ITEM_COUNT_MAX 256

/* One key and its value; all borrowed for the call. */
struct flat_entry {
    const char *key;           /* "zookeeper.hosts" */
    size_t line;               /* from 1 */
    const struct slice *items; /* one for a scalar */
    size_t item_count;
    bool is_list;
};

typedef void (*flat_entry_fn)(void *ctx, const struct flat_entry *entry);

/*
 * Parse a text and report each entry, in the order of the file.
 *
 * shape:  name is what the file is called in messages.
 * errors: ERR_INVALID with one line "name:line: …" appended to `errors`; entries before it have
 *         been reported. ERR_NO_MEMORY.
 */
MUST_USE int flat_yaml_parse(const char *name, struct slice text, flat_entry_fn entry, void *ctx,
                             struct buf *errors);

#endif
