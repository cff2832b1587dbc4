/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs of plain characters go in at once.
 */
#include "lib/base/json_text.h"

#include "lib/base/utf8.h"

/* Append one character that has to be written in another way, or garbage. */
static int put_escape(struct buf *out, uint8_t c)
{
    if (c == '"' || c == '\\') {
        return buf_printf(out, "\\%c", c);
    }
    if (c == '\n') {
        return buf_append_text(out, "\\n");
    }
    return buf_printf(out, "\\u%04x", c < 0x80 ? (unsigned)c : 0xfffdU);
}

static bool is_plain(uint8_t c)
{
    return c >= 0x20 && c != '"' && c != '\\' && c != 0x7f;
}

int json_text_put(struct buf *out, struct slice text)
{
    size_t start = 0;
    size_t i = 0;
    int err = 0;

    while (i < text.len && err == 0) {
        size_t len = utf8_char_len(text.data + i, text.len - i);

        if (len > 0 && is_plain(text.data[i])) {
            i += len;
            continue;
        }
        if (start < i) {
            (void)buf_append(out, text.data + start, i - start);
        }
        err = put_escape(out, text.data[i]);
        start = ++i;
    }
    return start < i ? buf_append(out, text.data + start, i - start) : err;
}
