/* SPDX-License-Identifier: Apache-2.0
 *
 * The embedded descriptor set.
 */
#include "proto/descriptor_set.h"

struct slice descriptor_set(void)
{
    return (struct slice){api_descriptors_files[0].bytes, api_descriptors_files[0].len};
}
