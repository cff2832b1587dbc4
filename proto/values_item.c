/* SPDX-License-Identifier: Apache-2.0
 *
 * What batches and listings share: errors of items, page sizes and tokens.
 */
#include "lib/base/utf8.h"
#include "proto/codec_list.h"
#include "proto/values.h"

#include <stdio.h>
#include <string.h>

uint32_t read_page_size(uint32_t asked)
{
    if (asked == 0) {
        return LIST_PAGE_COUNT_DEFAULT;
    }
    return asked < LIST_PAGE_COUNT_MAX ? asked : LIST_PAGE_COUNT_MAX;
}

uint32_t read_count_max(uint32_t asked)
{
    return asked == 0 || asked > LIST_PAGE_COUNT_MAX ? LIST_PAGE_COUNT_MAX : asked;
}

int read_page_token(const char *token, struct fault *fault, struct page_mark *out)
{
    if (page_parse(token, out) != 0) {
        return refuse_value(&(struct place){"", "page_token", fault}, "TOKEN_INVALID",
                            "\"%.20s\" did not come from a page before; leave it empty to start "
                            "over",
                            token);
    }
    return 0;
}

void prefix_item_field(struct fault *fault, size_t index)
{
    char field[FAULT_FIELD_BYTES];

    (void)snprintf(field, sizeof(field), "items[%zu]%s%.60s", index,
                   fault->field[0] == '\0' ? "" : ".", fault->field);
    memcpy(fault->field, field, sizeof(field));
}

/* Cut at ITEM_MESSAGE_BYTES_MAX, at a character border. */
static char *cut_message(const char *message, char *cut)
{
    size_t len = strlen(message);

    if (len > ITEM_MESSAGE_BYTES_MAX) {
        len = utf8_cut((const uint8_t *)message, ITEM_MESSAGE_BYTES_MAX);
    }
    memcpy(cut, message, len);
    cut[len] = '\0';
    return cut;
}

Foliot__V1__ItemError *init_item_error(struct item_error_wire *wire, const struct fault *fault)
{
    foliot__v1__item_error__init(&wire->message);
    wire->message.code = (int32_t)fault->status;
    wire->message.reason = wire_text(fault->reason);
    wire->message.message = cut_message(fault->message, wire->text);
    wire->message.field = wire_text(fault->field);
    return &wire->message;
}

void read_item_error(const Foliot__V1__ItemError *error, struct fault *fault)
{
    int code = error->code;

    fault_set(fault,
              code > RPC_OK && code <= RPC_UNAUTHENTICATED ? (enum rpc_status)code : RPC_UNKNOWN,
              error->reason, error->field, "%s", error->message);
}
