/* SPDX-License-Identifier: Apache-2.0
 *
 * Dividing batches, and joining their answers.
 */
#include "client/lib/parts.h"

#include "client/lib/client.h"
#include "lib/base/check.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <string.h>

/* Field 1 of a response, and the wire types of fields that a newer broker may send beside it. */
#define RESULTS_TAG 0x0aU
enum {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
};

/* ---- the request ---- */

int parts_init(struct client_call *call, size_t count)
{
    call->items = mem_new(count, sizeof(*call->items));
    return call->items == NULL ? ERR_NO_MEMORY : 0;
}

void parts_add(struct client_call *call, int32_t slot, enum repeat_kind kind)
{
    struct part_item *item = &call->items[call->item_count];
    size_t start = call->item_count == 0 ? 0 : (size_t)(item[-1].offset) + item[-1].len;

    *item = (struct part_item){.offset = (uint32_t)start,
                               .len = (uint32_t)(buf_len(&call->bytes) - start),
                               .slot = slot,
                               .kind = kind};
    call->item_count++;
}

void parts_fini(struct client_call *call)
{
    mem_free(call->items);
    mem_free(call->indices);
}

/* ---- dividing ---- */

/* Who owns which items. */
struct division {
    const struct broker_link *owners[MEMBER_COUNT_MAX];
    struct client_call *parts[MEMBER_COUNT_MAX];
    size_t count;
};

/* The part of an owner, by its place; a new one if it has none. Too many: the first. */
static size_t place_of(struct division *division, const struct broker_link *owner)
{
    for (size_t i = 0; i < division->count; i++) {
        if (division->owners[i] == owner) {
            return i;
        }
    }
    if (division->count == MEMBER_COUNT_MAX) {
        return 0;
    }
    division->owners[division->count] = owner;
    return division->count++;
}

/* Items without a known owner go along with the first part. */
static size_t place_of_item(struct division *division, const struct client_call *call, size_t index)
{
    const struct broker_link *owner = brokers_owner(call->client->brokers, call->items[index].slot);

    return owner == NULL ? 0 : place_of(division, owner);
}

static void join(struct client_call *call, const struct part_item *item)
{
    call->slot = call->slot == SLOT_ANY ? item->slot : call->slot;
    call->kind = item->kind == REPEAT_NEVER ? REPEAT_NEVER : call->kind;
}

/* One owner, or none that is known: nothing to divide. */
static void keep_whole(struct client_call *call)
{
    call->kind = REPEAT_SAFELY;
    for (size_t i = 0; i < call->item_count; i++) {
        join(call, &call->items[i]);
    }
}

static struct client_call *new_part(struct client_call *whole)
{
    struct client_call *part = client_call_new_part(whole);

    if (part == NULL) {
        return NULL;
    }
    part->indices = mem_new(whole->item_count, sizeof(*part->indices));
    if (part->indices == NULL) {
        client_call_free(part);
        return NULL;
    }
    part->kind = REPEAT_SAFELY;
    return part;
}

/* Give an item to a part. errors: ERR_NO_MEMORY. */
static int give(struct client_call *part, size_t index)
{
    const struct part_item *item;
    const uint8_t *bytes;

    REQUIRE(part != NULL);
    item = &part->whole->items[index];
    bytes = buf_slice(&part->whole->bytes).data + item->offset;
    join(part, item);
    part->indices[part->item_count++] = (uint32_t)index;
    return buf_append(&part->bytes, bytes, item->len) == 0 ? 0 : ERR_NO_MEMORY;
}

static int fill_parts(struct division *division, struct client_call *call)
{
    for (size_t i = 0; i < division->count; i++) {
        division->parts[i] = new_part(call);
        if (division->parts[i] == NULL) {
            return ERR_NO_MEMORY;
        }
    }
    for (size_t i = 0; i < call->item_count; i++) {
        if (give(division->parts[place_of_item(division, call, i)], i) != 0) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

bool parts_start(struct client_call *call)
{
    struct division division = {.count = 0};

    for (size_t i = 0; i < call->item_count; i++) {
        (void)place_of_item(&division, call, i);
    }
    keep_whole(call);
    if (division.count < 2) {
        return false;
    }
    if (fill_parts(&division, call) != 0) { // It goes as a whole; the broker divides it.
        for (size_t i = 0; i < division.count; i++) {
            client_call_free(division.parts[i]);
        }
        return false;
    }
    call->parts_left = (uint32_t)division.count;
    list_init(&call->ended_parts);
    for (size_t i = 0; i < division.count; i++) {
        client_call_begin(division.parts[i]);
    }
    return true;
}

/* ---- joining ---- */

static bool read_varint(struct slice bytes, size_t *at, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *at < bytes.len; shift += 7) {
        uint8_t byte = bytes.data[(*at)++];

        *out |= (uint64_t)(byte & 0x7fU) << shift;
        if (byte < 0x80) {
            return true;
        }
    }
    return false;
}

/* Length of a field's value behind its tag; false: it is cut short, or of a type that we do not
 * know. */
static bool read_len(struct slice bytes, size_t *at, unsigned type, uint64_t *len)
{
    size_t start = *at;

    if (type == WIRE_BYTES) {
        return read_varint(bytes, at, len) && *len <= bytes.len - *at;
    }
    if (type == WIRE_VARINT) {
        bool is_whole = read_varint(bytes, at, len);

        *len = *at - start;
        *at = start;
        return is_whole;
    }
    *len = type == WIRE_FIXED64 ? 8 : 4;
    return (type == WIRE_FIXED64 || type == WIRE_FIXED32) && *len <= bytes.len - *at;
}

bool parts_next_result(struct slice bytes, size_t *at, struct slice *out, bool *is_bad)
{
    while (*at < bytes.len) {
        size_t start = *at;
        uint64_t tag;
        uint64_t len;

        if (!read_varint(bytes, at, &tag) || !read_len(bytes, at, tag & 7U, &len)) {
            *is_bad = true;
            return false;
        }
        *at += len;
        if (tag == RESULTS_TAG) {
            *out = (struct slice){bytes.data + start, *at - start};
            return true;
        }
    }
    return false;
}

/* Put the results of a part where its items are. errors: ERR_PROTOCOL: not one for each item. */
static int place_results(const struct client_call *part, struct slice *results)
{
    struct slice bytes = buf_slice(&part->reply);
    struct slice result;
    bool is_bad = false;
    size_t count = 0;
    size_t at = 0;

    while (parts_next_result(bytes, &at, &result, &is_bad)) {
        if (count == part->item_count) {
            return ERR_PROTOCOL;
        }
        results[part->indices[count++]] = result;
    }
    return is_bad || count != part->item_count ? ERR_PROTOCOL : 0;
}

/* A part that failed answers so for each of its items. errors: ERR_NO_MEMORY. */
static int write_faults(struct client_call *part)
{
    buf_clear(&part->reply);
    for (size_t i = 0; i < part->item_count; i++) {
        if (part->method->write_fault(&part->fault, &part->reply) != 0) {
            return ERR_NO_MEMORY;
        }
    }
    return 0;
}

static int read_part(struct client_call *part, struct slice *results)
{
    if (part->fault.status == RPC_OK && place_results(part, results) == 0) {
        return 0;
    }
    if (part->fault.status == RPC_OK) {
        fault_set(&part->fault, RPC_UNKNOWN, "OUTCOME_UNKNOWN", NULL,
                  "%s: the answer of a broker cannot be read", part->method->what);
    }
    if (write_faults(part) != 0) {
        return ERR_NO_MEMORY;
    }
    return place_results(part, results);
}

/* errors: ERR_NO_MEMORY, ERR_TOO_LARGE. */
static int join_results(struct client_call *whole, struct slice *results)
{
    int err = 0;

    list_foreach (node, &whole->ended_parts) {
        err = err != 0 ? err : read_part(LIST_ENTRY(node, struct client_call, member), results);
    }
    for (size_t i = 0; i < whole->item_count && err == 0; i++) {
        err = buf_append(&whole->reply, results[i].data, results[i].len);
    }
    return err;
}

/* What is true of the whole: it went well if any part did, for then items tell. */
static void sum_up(struct client_call *whole)
{
    bool is_good = false;

    list_foreach (node, &whole->ended_parts) {
        const struct client_call *part = LIST_ENTRY(node, const struct client_call, member);

        is_good = is_good || part->fault.status == RPC_OK;
        whole->fault = part->fault;
        whole->is_unknown = whole->is_unknown || part->may_have_happened;
        whole->tries = part->tries > whole->tries ? part->tries : whole->tries;
        memcpy(whole->broker, part->broker, sizeof(whole->broker));
    }
    if (is_good) {
        whole->fault = (struct fault){.status = RPC_OK};
    }
}

static void finish_whole(struct client_call *whole)
{
    struct slice *results;
    int err;

    sum_up(whole);
    if (whole->fault.status == RPC_OK) {
        results = mem_new(whole->item_count, sizeof(*results));
        err = results == NULL ? ERR_NO_MEMORY : join_results(whole, results);
        mem_free(results);
        if (err != 0) {
            fault_set_err(&whole->fault, err, "cannot keep the results");
            whole->is_unknown = true;
        }
    }
}

struct client_call *parts_ended(struct client_call *part)
{
    struct client_call *whole = part->whole;
    struct list *first;

    REQUIRE(whole->parts_left > 0);
    list_add(&whole->ended_parts, &part->member);
    if (--whole->parts_left > 0) {
        return NULL;
    }
    finish_whole(whole);
    while ((first = list_take_first(&whole->ended_parts)) != NULL) {
        client_call_free(LIST_ENTRY(first, struct client_call, member));
    }
    return whole;
}
