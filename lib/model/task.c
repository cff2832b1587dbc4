/* SPDX-License-Identifier: Apache-2.0
 *
 * Text form of task ids, stored form of keys.
 */
#include "lib/model/task.h"

#include "lib/base/check.h"
#include "lib/base/err.h"

#include <string.h>

#define SLOT_DIGITS 3
#define SEQ_DIGITS  16

/* No byte of UTF-8. */
#define KEY_MARK 0xFF

static const char HEX[] = "0123456789abcdef";

static void put_hex(char *text, uint64_t value, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        text[i] = HEX[value & 15U];
        value >>= 4U;
    }
}

static int get_hex(const uint8_t *text, int digits, uint64_t *value)
{
    *value = 0;
    for (int i = 0; i < digits; i++) {
        uint8_t c = text[i];

        if (c >= '0' && c <= '9') {
            *value = (*value << 4U) | (uint64_t)(c - '0');
        } else if (c >= 'a' && c <= 'f') {
            *value = (*value << 4U) | (uint64_t)(c - 'a' + 10);
        } else {
            return ERR_INVALID;
        }
    }
    return 0;
}

void task_id_format(struct task_id id, char *text)
{
    put_hex(text, id.slot, SLOT_DIGITS);
    text[SLOT_DIGITS] = '-';
    put_hex(text + SLOT_DIGITS + 1, (uint64_t)id.seq, SEQ_DIGITS);
    text[TASK_ID_TEXT_LEN] = '\0';
}

int task_id_parse(struct slice text, struct task_id *id)
{
    uint64_t slot;
    uint64_t seq;

    if (text.len != TASK_ID_TEXT_LEN || text.data[SLOT_DIGITS] != '-') {
        return ERR_INVALID;
    }
    if (get_hex(text.data, SLOT_DIGITS, &slot) != 0 ||
        get_hex(text.data + SLOT_DIGITS + 1, SEQ_DIGITS, &seq) != 0) {
        return ERR_INVALID;
    }
    if (slot >= SLOT_COUNT || seq == 0 || seq > INT64_MAX) {
        return ERR_INVALID;
    }
    id->slot = (uint16_t)slot;
    id->seq = (int64_t)seq;
    return 0;
}

struct slice task_key_join(struct slice order_key, struct slice key, uint8_t *buf)
{
    if (order_key.len == 0 || key.len == 0) {
        return key;
    }
    REQUIRE(order_key.len <= ORDER_KEY_BYTES_MAX && key.len <= KEY_BYTES_MAX);
    buf[0] = KEY_MARK;
    memcpy(buf + 1, order_key.data, order_key.len);
    buf[1 + order_key.len] = KEY_MARK;
    memcpy(buf + 2 + order_key.len, key.data, key.len);
    return (struct slice){buf, order_key.len + key.len + 2};
}

struct slice task_key_own(struct slice stored)
{
    const uint8_t *mark;

    if (stored.len == 0 || stored.data[0] != KEY_MARK) {
        return stored;
    }
    mark = memchr(stored.data + 1, KEY_MARK, stored.len - 1);
    if (mark == NULL) {
        return stored;
    }
    return (struct slice){mark + 1, stored.len - (size_t)(mark + 1 - stored.data)};
}
