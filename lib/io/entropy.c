/* SPDX-License-Identifier: Apache-2.0
 *
 * getrandom, whole or not at all.
 */
#include "lib/io/entropy.h"

#include "lib/base/check.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include <sys/random.h>

void entropy_fill(void *bytes, size_t len)
{
    uint8_t *rest = bytes;

    while (len > 0) {
        ssize_t got = getrandom(rest, len, 0);

        if (got < 0) {
            REQUIRE(errno == EINTR);
            continue;
        }
        rest += got;
        len -= (size_t)got;
    }
}

uint64_t entropy_u64(void)
{
    uint64_t value;

    entropy_fill(&value, sizeof(value));
    return value;
}

void entropy_name(char *out)
{
    (void)snprintf(out, ENTROPY_NAME_LEN + 1, "%016" PRIx64 "%016" PRIx64, entropy_u64(),
                   entropy_u64());
}
