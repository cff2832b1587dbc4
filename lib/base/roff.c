/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages.
 */
#include "lib/base/roff.h"

#include <string.h>

/* What roff would take for its own. source: man(7), groff_char(7) */
void roff_text(struct buf *out, const char *text)
{
    bool is_first = buf_len(out) == 0 || out->data[out->end - 1] == '\n';

    for (; *text != '\0'; text++) {
        if (is_first && (*text == '.' || *text == '\'')) {
            (void)buf_append_text(out, "\\&");
        }
        if (*text == '\\') {
            (void)buf_append_text(out, "\\e");
        } else if (*text == '-') {
            (void)buf_append_text(out, "\\-");
        } else {
            (void)buf_append(out, text, 1);
        }
        is_first = *text == '\n';
    }
}

void roff_bold(struct buf *out, const char *text)
{
    (void)buf_append_text(out, "\\fB");
    roff_text(out, text);
    (void)buf_append_text(out, "\\fR");
}

void roff_line(struct buf *out)
{
    (void)buf_append_text(out, "\n");
}

static void put_capitals(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        char c = *text >= 'a' && *text <= 'z' ? (char)(*text - 'a' + 'A') : *text;

        (void)buf_append_text(out, c == '-' ? "\\-" : (const char[]){c, '\0'});
    }
}

void roff_begin(struct buf *out, const char *name, int section, const char *version,
                const char *phrase)
{
    (void)buf_append_text(out, ".TH ");
    put_capitals(out, name);
    (void)buf_printf(out, " %d \"\" \"Foliot %s\" \"Foliot\"\n.SH NAME\n", section, version);
    roff_text(out, name);
    (void)buf_append_text(out, " \\- ");
    roff_text(out, phrase);
    roff_line(out);
}

void roff_heading(struct buf *out, const char *text)
{
    (void)buf_append_text(out, ".SH ");
    put_capitals(out, text);
    roff_line(out);
}

void roff_subheading(struct buf *out, const char *text)
{
    (void)buf_append_text(out, ".SS ");
    roff_text(out, text);
    roff_line(out);
}

void roff_paragraph(struct buf *out)
{
    (void)buf_append_text(out, ".PP\n");
}

void roff_item(struct buf *out, const char *word, const char *value, const char *text)
{
    (void)buf_append_text(out, ".TP\n");
    roff_bold(out, word);
    if (value != NULL) {
        (void)buf_append_text(out, " \\fI");
        roff_text(out, value);
        (void)buf_append_text(out, "\\fR");
    }
    roff_line(out);
    roff_text(out, text);
    roff_line(out);
}

void roff_example(struct buf *out, const char *lines)
{
    size_t len = strlen(lines);

    (void)buf_append_text(out, ".nf\n");
    roff_text(out, lines);
    if (len == 0 || lines[len - 1] != '\n') {
        roff_line(out);
    }
    (void)buf_append_text(out, ".fi\n");
}
