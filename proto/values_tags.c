/* SPDX-License-Identifier: Apache-2.0
 *
 * Maps of tags to their canonical text and back.
 */
#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/v1/queue.pb-c.h>
#include <foliot/v1/receiver.pb-c.h>
#include <string.h>

#define SAME_SHAPE(type)                                                                     \
    (sizeof(type) == sizeof(tag_entry) && offsetof(type, key) == offsetof(tag_entry, key) && \
     offsetof(type, value) == offsetof(tag_entry, value))

_Static_assert(SAME_SHAPE(Foliot__V1__CreateTaskRequest__TagsEntry) &&
                   SAME_SHAPE(Foliot__V1__ListTasksRequest__TagsEntry) &&
                   SAME_SHAPE(Foliot__V1__DeadLetter__TagsEntry) &&
                   SAME_SHAPE(Foliot__V1__Attempt__TagsEntry),
               "entries of all maps of tags look alike");

NEVER_INLINE static int read_some_tags(tag_entry *const *entries, size_t count, struct arena *arena,
                                       struct place place, struct slice *out)
{
    struct tag tags[TAG_COUNT_MAX];
    char text[TAGS_BYTES_MAX];
    char errmsg[FAULT_MESSAGE_BYTES];
    size_t len;
    uint8_t *copy;

    for (size_t i = 0; i < count && i < TAG_COUNT_MAX; i++) {
        tags[i] = (struct tag){slice_of(entries[i]->key), slice_of(entries[i]->value)};
    }
    if (tags_write(tags, count, text, &len, errmsg, sizeof(errmsg)) != 0) {
        return refuse_value(&place, "TAGS_INVALID", "%s", errmsg);
    }
    // The text is no longer than the entries were on the wire, so a message's size bounds it.
    arena_allow(arena, arena->used + len + MESSAGE_ELEMENT_BYTES);
    copy = arena_new(arena, len);
    if (copy == NULL) {
        fault_set_err(place.fault, ERR_NO_MEMORY, "cannot read the tags");
        return ERR_NO_MEMORY;
    }
    memcpy(copy, text, len);
    *out = (struct slice){copy, len};
    return 0;
}

int read_tags(tag_entry *const *entries, size_t count, struct arena *arena, struct place place,
              struct slice *out)
{
    *out = (struct slice){NULL, 0};
    return count == 0 ? 0 : read_some_tags(entries, count, arena, place, out);
}

struct slice read_reply_tags(tag_entry *const *entries, size_t count, struct arena *arena)
{
    struct fault ignored;
    struct slice text;

    if (read_tags(entries, count, arena, (struct place){"", "tags", &ignored}, &text) != 0) {
        return (struct slice){NULL, 0};
    }
    return text;
}

/* Copy with a NUL behind it, as generated structs want. */
static char *copy_text(struct slice from, char **at)
{
    char *text = *at;

    if (from.len > 0) {
        memcpy(text, from.data, from.len);
    }
    text[from.len] = '\0';
    *at += from.len + 1;
    return text;
}

void write_tags(struct slice text, const ProtobufCMessageDescriptor *descriptor,
                struct tags_wire *wire)
{
    char *end = wire->text;
    struct tag tag;
    size_t at = 0;

    REQUIRE(text.len <= TAGS_BYTES_MAX);
    wire->count = 0;
    while (wire->count < TAG_COUNT_MAX && tags_next(text, &at, &tag)) {
        tag_entry *entry = &wire->entries[wire->count];

        protobuf_c_message_init(descriptor, entry);
        entry->key = copy_text(tag.name, &end);
        entry->value = copy_text(tag.value, &end);
        wire->list[wire->count++] = entry;
    }
}
