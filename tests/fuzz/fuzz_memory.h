/* SPDX-License-Identifier: Apache-2.0
 *
 * A word between the fuzz targets and test_fuzz_memory.c, which runs them while memory runs out.
 */
#ifndef FOLIOT_TESTS_FUZZ_FUZZ_MEMORY_H
#define FOLIOT_TESTS_FUZZ_FUZZ_MEMORY_H

#include "lib/base/check.h"

#include <stdbool.h>

/* An allocation has failed: what needs memory may be refused. Never when fuzzing. */
#ifdef FUZZ_CORPUS
extern bool fuzz_lacks_memory;
#else
#define fuzz_lacks_memory false
#endif

/* What holds as long as there is memory. */
#define REQUIRE_MEMORY(condition) REQUIRE((condition) || fuzz_lacks_memory)

#endif
