/* SPDX-License-Identifier: Apache-2.0
 *
 * Questions about a google.protobuf.FileDescriptorSet, asked of its bytes: which file has this
 * name, which declares this symbol, what does it import. Pure; a set is some tens of KiB and is
 * walked for each question.
 */
#ifndef FOLIOT_LIB_RPC_DESCRIPTORS_H
#define FOLIOT_LIB_RPC_DESCRIPTORS_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"

#include <stdbool.h>
#include <stddef.h>

/* Most files of a set whose imports are followed. */
#define DESCRIPTOR_FILES_MAX 64U

/* Next file of a set: start with the whole set; false at its end, or where it is damaged. */
bool descriptors_next_file(struct slice *rest, struct slice *file_out);

/* Name of a file, as in an import. */
struct slice descriptors_file_name(struct slice file);

/* The file of this name. False if there is none. */
bool descriptors_find_file(struct slice set, struct slice name, struct slice *file_out);

/*
 * The file that declares a symbol: the full name of a service, method, message, field, oneof, enum,
 * enum value or extension, without leading dot.
 */
bool descriptors_find_symbol(struct slice set, struct slice symbol, struct slice *file_out);

/* Is the symbol a message? */
bool descriptors_is_message(struct slice set, struct slice symbol);

/*
 * A file and everything that it imports, directly or not, each once, the file itself first.
 *
 * shape:  files has DESCRIPTOR_FILES_MAX entries; imports beyond them, or that the set does not
 *         have, are left away.
 * source: gRPC server-reflection.md, "may return the transitive closure".
 */
size_t descriptors_closure(struct slice set, struct slice file, struct slice *files);

/* Next service of a file: start with rest as the file; its short name, and the package. */
bool descriptors_next_service(struct slice *rest, struct slice *name_out);
struct slice descriptors_package(struct slice file);

#endif
