/* SPDX-License-Identifier: Apache-2.0
 *
 * The descriptors of everything that may be called at a broker from outside: our API, health and
 * reflection, with all imports, as protoc made them when this was built. For the reflection
 * service.
 */
#ifndef FOLIOT_PROTO_DESCRIPTOR_SET_H
#define FOLIOT_PROTO_DESCRIPTOR_SET_H

#include "lib/base/buf.h"

#include <stddef.h>
#include <stdint.h>

/* A serialized google.protobuf.FileDescriptorSet; static. */
struct slice descriptor_set(void);

/* Made by cmake/embed.cmake; of one file. */
struct embedded_file {
    const char *name;
    const uint8_t *bytes; /* and a NUL behind them */
    size_t len;           /* without the NUL */
};

extern const struct embedded_file api_descriptors_files[];
extern const size_t api_descriptors_file_count;

#endif
