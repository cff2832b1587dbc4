/* SPDX-License-Identifier: Apache-2.0
 *
 * Manual pages: text with the macros of man(7), written so that nothing in it is taken for a
 * request.
 */
#ifndef FOLIOT_LIB_BASE_ROFF_H
#define FOLIOT_LIB_BASE_ROFF_H

#include "lib/base/buf.h"

/* Begin a page. shape: name as "foliot-task", one phrase of what it is. */
void roff_begin(struct buf *out, const char *name, int section, const char *version,
                const char *phrase);

/* Headings, and a new paragraph. */
void roff_heading(struct buf *out, const char *text);
void roff_subheading(struct buf *out, const char *text);
void roff_paragraph(struct buf *out);

/* Plain and bold text; a space is the caller's business. */
void roff_text(struct buf *out, const char *text);
void roff_bold(struct buf *out, const char *text);

/* End the line. */
void roff_line(struct buf *out);

/*
 * An entry of a list: a bold word, what stands for its value, and the text that explains it.
 *
 * shape: value may be NULL.
 */
void roff_item(struct buf *out, const char *word, const char *value, const char *text);

/* Lines as they are. */
void roff_example(struct buf *out, const char *lines);

#endif
