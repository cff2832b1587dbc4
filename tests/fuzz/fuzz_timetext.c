/* SPDX-License-Identifier: Apache-2.0
 *
 * Any text as a time that a person wrote: what is read is within bounds, and is written as a text
 * that is read as the same time.
 */
#include "client/cli/moment.h"
#include "client/cli/timetext.h"
#include "client/cli/zone.h"
#include "lib/base/check.h"
#include "lib/base/err.h"

#include <string.h>

#define TEXT_LEN_MAX 64

/* A moment, and years in which every zone can be written. */
#define NOW_MS       INT64_C(1767323045678)
#define YEAR_1_MS    INT64_C(-62135596800000)
#define YEAR_9998_MS INT64_C(253370764800000)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void try_moment(const char *text)
{
    char written[TIMETEXT_BYTES];
    struct when first;
    struct when second;

    if (timetext_read_when(text, &first) != 0) {
        return;
    }
    if (first.kind == WHEN_DELAY) {
        REQUIRE(first.delay_ms >= 0);
        return;
    }
    if (first.kind == WHEN_DUE && first.due_ms >= INT64_C(-62167219200000) &&
        first.due_ms <= INT64_C(253402300799999)) {
        timetext_write(first.due_ms, written);
        REQUIRE(timetext_read_when(written, &second) == 0);
        REQUIRE(second.due_ms == first.due_ms);
    }
}

/* In a zone that turns its clocks. */
static void try_local(const char *text)
{
    static bool has_zone;
    char written[TIMETEXT_BYTES];
    struct when first;
    struct when second;

    if (!has_zone) {
        REQUIRE(zone_use("Europe/Paris") == 0);
        has_zone = true;
    }
    if (moment_read(text, NOW_MS, &first) != 0 || first.kind != WHEN_DUE ||
        first.due_ms < YEAR_1_MS || first.due_ms > YEAR_9998_MS) {
        return;
    }
    moment_write(first.due_ms, written);
    REQUIRE(moment_read(written, NOW_MS, &second) == 0);
    REQUIRE(second.due_ms == first.due_ms);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_LEN_MAX + 1];
    char written[TIMETEXT_BYTES];
    span_ms first;
    span_ms second;
    size_t len = size < TEXT_LEN_MAX ? size : TEXT_LEN_MAX;

    if (len > 0) {
        memcpy(text, data, len);
    }
    text[len] = '\0';
    try_moment(text);
    try_local(text);
    if (timetext_read_span(text, &first) == 0) {
        REQUIRE(first >= 0);
        timetext_write_span(first, written);
        REQUIRE(strlen(written) < TIMETEXT_BYTES);
        REQUIRE(timetext_read_span(written, &second) == 0 && second == first);
    }
    return 0;
}
