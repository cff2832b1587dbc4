/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing targets, told to people without flooding them: the first failure of a place at once, the
 * following ones added up until the next look, and silence after a look that found nothing new.
 * Pure: when to look is the caller's.
 */
#ifndef FOLIOT_BROKER_FAILURE_NOTE_H
#define FOLIOT_BROKER_FAILURE_NOTE_H

#include "broker/core/env.h"
#include "lib/base/buf.h"
#include "lib/base/list.h"

/* Longest cause that is kept; the rest is cut off. */
#define FAILURE_CAUSE_BYTES_MAX 200

/* Failures of one place that have not been told. Embedded in it; zeroed, then failure_init(). */
struct failure_note {
    struct list link; /* in the notes while there may be something to tell */
    uint64_t counts[OUTCOME_NOT_STARTED + 1];
    char cause[FAILURE_CAUSE_BYTES_MAX + 1]; /* of the last one */
};

/* Tell one line; note->counts are zeroed after it. */
typedef void (*failure_tell_fn)(void *ctx, struct failure_note *note);

struct failure_notes {
    struct list notes;
    failure_tell_fn tell;
    void *ctx;
};

void failure_notes_init(struct failure_notes *notes, failure_tell_fn tell, void *ctx);

void failure_init(struct failure_note *note);

/*
 * Count how an attempt ended; successes and obsolete ones are nobody's failure.
 *
 * shape: cause may hold any bytes; the log makes them harmless.
 */
void failure_add(struct failure_notes *notes, struct failure_note *note, enum outcome outcome,
                 struct slice cause);

/* Tell what has come since the last look. False: nothing is left to look for. */
bool failure_look(struct failure_notes *notes);

/* The place goes away: tell what is left, and forget it. */
void failure_drop(struct failure_notes *notes, struct failure_note *note);

#endif
