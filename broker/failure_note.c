/* SPDX-License-Identifier: Apache-2.0
 *
 * A note is in the list from its first failure until a look finds nothing new in it.
 */
#include "broker/failure_note.h"

#include <string.h>

void failure_notes_init(struct failure_notes *notes, failure_tell_fn tell, void *ctx)
{
    list_init(&notes->notes);
    notes->tell = tell;
    notes->ctx = ctx;
}

void failure_init(struct failure_note *note)
{
    list_init(&note->link);
}

static bool is_failure(enum outcome outcome)
{
    return outcome != OUTCOME_DONE && outcome != OUTCOME_OBSOLETE;
}

/* Tell what there is; false if there is nothing. */
static bool tell(struct failure_notes *notes, struct failure_note *note)
{
    uint64_t total = 0;

    for (size_t i = 0; i < ARRAY_COUNT(note->counts); i++) {
        total += note->counts[i];
    }
    if (total > 0) {
        notes->tell(notes->ctx, note);
        memset(note->counts, 0, sizeof(note->counts));
    }
    return total > 0;
}

void failure_add(struct failure_notes *notes, struct failure_note *note, enum outcome outcome,
                 struct slice cause)
{
    size_t len = cause.len < FAILURE_CAUSE_BYTES_MAX ? cause.len : FAILURE_CAUSE_BYTES_MAX;

    if (!is_failure(outcome)) {
        return;
    }
    note->counts[outcome]++;
    if (len > 0) {
        memcpy(note->cause, cause.data, len);
    }
    note->cause[len] = '\0';
    if (list_is_empty(&note->link)) {
        list_add(&notes->notes, &note->link);
        (void)tell(notes, note);
    }
}

bool failure_look(struct failure_notes *notes)
{
    list_foreach_safe (link, after, &notes->notes) {
        struct failure_note *note = LIST_ENTRY(link, struct failure_note, link);

        if (!tell(notes, note)) {
            list_del(link);
            list_init(link);
        }
    }
    return !list_is_empty(&notes->notes);
}

void failure_drop(struct failure_notes *notes, struct failure_note *note)
{
    (void)tell(notes, note);
    if (!list_is_empty(&note->link)) {
        list_del(&note->link);
        list_init(&note->link);
    }
}
