/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts of items.
 */
#include "client/lib/item_texts.h"

#include "lib/base/limits.h"

#include <stdio.h>
#include <string.h>

/* The texts of one item may not be longer than its fault. */
#define TEXTS_BYTES_MAX \
    ((size_t)BATCH_ITEM_COUNT_MAX * (FAULT_REASON_BYTES + FAULT_FIELD_BYTES + FAULT_MESSAGE_BYTES))

void item_texts_init(struct buf *texts)
{
    buf_init(texts, TEXTS_BYTES_MAX);
}

int64_t item_texts_keep(struct buf *texts, const struct fault *fault)
{
    int64_t place = (int64_t)buf_len(texts);

    (void)buf_append(texts, fault->reason, strlen(fault->reason) + 1);
    (void)buf_append(texts, fault->field, strlen(fault->field) + 1);
    (void)buf_append(texts, fault->message, strlen(fault->message) + 1);
    return place;
}

struct item_text item_texts_at(const struct buf *texts, int64_t place)
{
    struct item_text text;

    text.reason = (const char *)buf_slice(texts).data + place;
    text.field = text.reason + strlen(text.reason) + 1;
    text.message = text.field + strlen(text.field) + 1;
    return text;
}

void item_texts_number(struct fault *fault, size_t index)
{
    char field[FAULT_FIELD_BYTES];
    const char *rest = strchr(fault->field, ']');

    if (strncmp(fault->field, "items[", 6) == 0 && rest != NULL) {
        (void)snprintf(field, sizeof(field), "items[%zu%.60s", index, rest);
        memcpy(fault->field, field, sizeof(field));
    }
}

void item_texts_blame(struct fault *fault, size_t index)
{
    struct fault plain = *fault;

    fault_set(fault, plain.status, plain.reason, NULL, "items[%zu]: %s", index, plain.message);
    memcpy(fault->field, plain.field, sizeof(fault->field));
}

int item_texts_check_count(const void *items, size_t count, struct fault *fault)
{
    if (items != NULL && count > 0 && count <= BATCH_ITEM_COUNT_MAX) {
        return 0;
    }
    fault_set(fault, RPC_INVALID_ARGUMENT,
              items == NULL || count == 0 ? "BATCH_EMPTY" : "BATCH_TOO_LARGE", "items",
              "items: are %zu; send 1 to %d (BATCH_ITEM_COUNT_MAX)", items == NULL ? 0 : count,
              BATCH_ITEM_COUNT_MAX);
    return ERR_INVALID;
}
