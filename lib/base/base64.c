/* SPDX-License-Identifier: Apache-2.0
 *
 * Three bytes are four digits.
 */
#include "lib/base/base64.h"

#include "lib/base/err.h"

#include <string.h>

int base64_encode(struct slice bytes, bool is_padded, struct buf *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < bytes.len; i += 3) {
        size_t count = bytes.len - i < 3 ? bytes.len - i : 3;
        uint32_t group = (uint32_t)bytes.data[i] << 16;
        uint8_t text[4] = {'=', '=', '=', '='};
        int err;

        group |= count > 1 ? (uint32_t)bytes.data[i + 1] << 8 : 0;
        group |= count > 2 ? (uint32_t)bytes.data[i + 2] : 0;
        for (unsigned k = 0; k < count + 1; k++) {
            text[k] = (uint8_t)digits[(group >> (18 - 6 * k)) & 63];
        }
        err = buf_append(out, text, is_padded ? sizeof(text) : count + 1);
        if (err != 0) {
            return err;
        }
    }
    return 0;
}

/* Value of a digit, or −1. */
static int value_of(uint8_t digit)
{
    if (digit >= 'A' && digit <= 'Z') {
        return digit - 'A';
    }
    if (digit >= 'a' && digit <= 'z') {
        return digit - 'a' + 26;
    }
    if (digit >= '0' && digit <= '9') {
        return digit - '0' + 52;
    }
    if (digit == '+' || digit == '-') {
        return 62;
    }
    return digit == '/' || digit == '_' ? 63 : -1;
}

/* Decode 2 to 4 digits. */
static int decode_group(const uint8_t *text, size_t count, struct buf *out)
{
    uint32_t group = 0;
    uint8_t bytes[3];

    for (size_t i = 0; i < 4; i++) {
        int value = i < count ? value_of(text[i]) : 0;

        if (value < 0) {
            return ERR_INVALID;
        }
        group = group << 6 | (uint32_t)value;
    }
    bytes[0] = (uint8_t)(group >> 16);
    bytes[1] = (uint8_t)(group >> 8);
    bytes[2] = (uint8_t)group;
    return buf_append(out, bytes, count - 1);
}

int base64_decode(struct slice text, struct buf *out)
{
    if (text.len % 4 == 0 && text.len > 0 && text.data[text.len - 1] == '=') {
        text.len -= text.data[text.len - 2] == '=' ? 2 : 1;
    }
    if (text.len % 4 == 1) {
        return ERR_INVALID;
    }
    for (size_t i = 0; i < text.len; i += 4) {
        size_t count = text.len - i < 4 ? text.len - i : 4;
        int err = decode_group(text.data + i, count, out);

        if (err != 0) {
            return err;
        }
    }
    return 0;
}
