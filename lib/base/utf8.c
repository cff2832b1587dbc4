/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 decoding by ranges. source: RFC 3629 section 4
 */
#include "lib/base/utf8.h"

#include <string.h>

static bool is_in(uint8_t byte, uint8_t low, uint8_t high)
{
    return byte >= low && byte <= high;
}

static bool is_tail(uint8_t byte)
{
    return is_in(byte, 0x80, 0xbf);
}

/* Whether the second byte fits the first: excludes long forms, surrogates and too large numbers. */
static bool is_second(uint8_t first, uint8_t second)
{
    switch (first) {
    case 0xe0:
        return is_in(second, 0xa0, 0xbf);
    case 0xed:
        return is_in(second, 0x80, 0x9f);
    case 0xf0:
        return is_in(second, 0x90, 0xbf);
    case 0xf4:
        return is_in(second, 0x80, 0x8f);
    default:
        return is_tail(second);
    }
}

static size_t len_by_first(uint8_t first)
{
    if (first < 0x80) {
        return 1;
    }
    if (is_in(first, 0xc2, 0xdf)) {
        return 2;
    }
    if (is_in(first, 0xe0, 0xef)) {
        return 3;
    }
    return is_in(first, 0xf0, 0xf4) ? 4 : 0;
}

size_t utf8_char_len(const uint8_t *bytes, size_t len)
{
    size_t char_len = len == 0 ? 0 : len_by_first(bytes[0]);

    if (char_len > len) {
        return 0;
    }
    if (char_len >= 2 && !is_second(bytes[0], bytes[1])) {
        return 0;
    }
    for (size_t i = 2; i < char_len; i++) {
        if (!is_tail(bytes[i])) {
            return 0;
        }
    }
    return char_len;
}

/* Bytes at the beginning that are ASCII, as far as they come eight at a time. */
static size_t ascii_span(const uint8_t *bytes, size_t len)
{
    size_t span = 0;
    uint64_t eight;

    for (; len - span >= sizeof(eight); span += sizeof(eight)) {
        memcpy(&eight, bytes + span, sizeof(eight));
        if ((eight & UINT64_C(0x8080808080808080)) != 0) {
            break;
        }
    }
    return span;
}

bool utf8_is_valid(struct slice text)
{
    size_t i = ascii_span(text.data, text.len);

    while (i < text.len) {
        size_t len = utf8_char_len(text.data + i, text.len - i);

        if (len == 0) {
            return false;
        }
        i += len;
    }
    return true;
}

size_t utf8_cut(const uint8_t *bytes, size_t max)
{
    size_t cut = max;

    for (int back = 0; back < 3 && cut > 0 && is_tail(bytes[cut]); back++) {
        cut--;
    }
    return is_tail(bytes[cut]) ? max : cut;
}
