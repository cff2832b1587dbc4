/* SPDX-License-Identifier: Apache-2.0
 *
 * A walk over descriptors. Scopes are walked down by the parts of a name; every kind of scope says
 * in the table below where its members are.
 */
#include "lib/rpc/descriptors.h"

#include "lib/rpc/proto_wire.h"

#include <string.h>

/* Numbers of fields. source: google/protobuf/descriptor.proto */
enum {
    SET_FILE = 1,
    FILE_NAME = 1,
    FILE_PACKAGE = 2,
    FILE_DEPENDENCY = 3,
    FILE_SERVICE = 6,
    MEMBER_NAME = 1, /* of everything that has one */
    ENUM_VALUE = 2
};

enum scope {
    SCOPE_FILE,
    SCOPE_MESSAGE,
    SCOPE_SERVICE,
    SCOPE_ENUM, /* has no members: its values belong to the scope around it */
    SCOPE_LEAF
};

/* What a scope declares in which field. */
static const struct {
    enum scope scope;
    uint32_t number;
    enum scope member;
} MEMBERS[] = {
    {SCOPE_FILE, 4, SCOPE_MESSAGE}, {SCOPE_FILE, 5, SCOPE_ENUM},
    {SCOPE_FILE, 6, SCOPE_SERVICE}, {SCOPE_FILE, 7, SCOPE_LEAF},
    {SCOPE_MESSAGE, 2, SCOPE_LEAF}, {SCOPE_MESSAGE, 3, SCOPE_MESSAGE},
    {SCOPE_MESSAGE, 4, SCOPE_ENUM}, {SCOPE_MESSAGE, 6, SCOPE_LEAF},
    {SCOPE_MESSAGE, 8, SCOPE_LEAF}, {SCOPE_SERVICE, 2, SCOPE_LEAF},
};

/* A declaration. */
struct member {
    enum scope scope;
    struct slice bytes;
};

bool descriptors_next_file(struct slice *rest, struct slice *file_out)
{
    struct proto_field field;

    while (rest->len > 0 && proto_wire_next(rest, &field) == 0) {
        if (field.number == SET_FILE && field.type == PROTO_BYTES) {
            *file_out = field.bytes;
            return true;
        }
    }
    return false;
}

struct slice descriptors_file_name(struct slice file)
{
    return proto_wire_find(file, FILE_NAME);
}

struct slice descriptors_package(struct slice file)
{
    return proto_wire_find(file, FILE_PACKAGE);
}

bool descriptors_find_file(struct slice set, struct slice name, struct slice *file_out)
{
    struct slice file;

    while (descriptors_next_file(&set, &file)) {
        if (slice_equal(descriptors_file_name(file), name)) {
            *file_out = file;
            return true;
        }
    }
    return false;
}

bool descriptors_next_service(struct slice *rest, struct slice *name_out)
{
    struct proto_field field;

    while (rest->len > 0 && proto_wire_next(rest, &field) == 0) {
        if (field.number == FILE_SERVICE && field.type == PROTO_BYTES) {
            *name_out = proto_wire_find(field.bytes, MEMBER_NAME);
            return true;
        }
    }
    return false;
}

/* ---- symbols ---- */

/* Kind of the member that this field declares in a scope; SCOPE_FILE if it declares none. */
static enum scope member_of(enum scope scope, const struct proto_field *field)
{
    for (size_t i = 0; i < ARRAY_COUNT(MEMBERS); i++) {
        if (MEMBERS[i].scope == scope && MEMBERS[i].number == field->number &&
            field->type == PROTO_BYTES) {
            return MEMBERS[i].member;
        }
    }
    return SCOPE_FILE;
}

/* Has an enum a value of this name? */
static bool has_value(struct slice enumeration, struct slice name)
{
    struct proto_field field;

    while (enumeration.len > 0 && proto_wire_next(&enumeration, &field) == 0) {
        if (field.number == ENUM_VALUE && field.type == PROTO_BYTES &&
            slice_equal(proto_wire_find(field.bytes, MEMBER_NAME), name)) {
            return true;
        }
    }
    return false;
}

/* Go down to the member of this name. False if there is none. */
static bool enter(struct member *at, struct slice name)
{
    struct slice rest = at->bytes;
    struct proto_field field;

    while (rest.len > 0 && proto_wire_next(&rest, &field) == 0) {
        enum scope scope = member_of(at->scope, &field);

        if (scope == SCOPE_FILE) {
            continue;
        }
        if (slice_equal(proto_wire_find(field.bytes, MEMBER_NAME), name)) {
            *at = (struct member){scope, field.bytes};
            return true;
        }
        if (scope == SCOPE_ENUM && has_value(field.bytes, name)) {
            *at = (struct member){SCOPE_LEAF, field.bytes};
            return true;
        }
    }
    return false;
}

/* Take the part up to the next dot off the front. */
static struct slice take_part(struct slice *rest)
{
    const uint8_t *dot = memchr(rest->data, '.', rest->len);
    struct slice part = {rest->data, dot == NULL ? rest->len : (size_t)(dot - rest->data)};
    size_t taken = part.len + (dot != NULL);

    *rest = (struct slice){rest->data + taken, rest->len - taken};
    return part;
}

/* Take the file's package and its dot off a symbol. False if it is in another package. */
static bool skip_package(struct slice file, struct slice *symbol)
{
    struct slice package = descriptors_package(file);

    if (package.len == 0) {
        return symbol->len > 0;
    }
    if (symbol->len <= package.len + 1 || memcmp(symbol->data, package.data, package.len) != 0 ||
        symbol->data[package.len] != '.') {
        return false;
    }
    *symbol = (struct slice){symbol->data + package.len + 1, symbol->len - package.len - 1};
    return true;
}

static bool find_in_file(struct slice file, struct slice symbol, struct member *out)
{
    struct member at = {SCOPE_FILE, file};

    if (!skip_package(file, &symbol)) {
        return false;
    }
    while (symbol.len > 0) {
        if (!enter(&at, take_part(&symbol))) {
            return false;
        }
    }
    *out = at;
    return true;
}

static bool find_symbol(struct slice set, struct slice symbol, struct slice *file_out,
                        struct member *out)
{
    struct slice file;

    if (symbol.len == 0 || symbol.data[symbol.len - 1] == '.') {
        return false;
    }
    while (descriptors_next_file(&set, &file)) {
        if (find_in_file(file, symbol, out)) {
            *file_out = file;
            return true;
        }
    }
    return false;
}

bool descriptors_find_symbol(struct slice set, struct slice symbol, struct slice *file_out)
{
    struct member member;

    return find_symbol(set, symbol, file_out, &member);
}

bool descriptors_is_message(struct slice set, struct slice symbol)
{
    struct slice file;
    struct member member;

    return find_symbol(set, symbol, &file, &member) && member.scope == SCOPE_MESSAGE;
}

/* ---- imports ---- */

static bool is_among(const struct slice *files, size_t count, struct slice file)
{
    for (size_t i = 0; i < count; i++) {
        if (files[i].data == file.data) {
            return true;
        }
    }
    return false;
}

size_t descriptors_closure(struct slice set, struct slice file, struct slice *files)
{
    size_t count = 0;

    files[count++] = file;
    for (size_t i = 0; i < count; i++) { // The list grows while it is walked.
        struct slice rest = files[i];
        struct proto_field field;

        while (rest.len > 0 && proto_wire_next(&rest, &field) == 0) {
            struct slice found;

            if (field.number == FILE_DEPENDENCY && field.type == PROTO_BYTES &&
                count < DESCRIPTOR_FILES_MAX && descriptors_find_file(set, field.bytes, &found) &&
                !is_among(files, count, found)) {
                files[count++] = found;
            }
        }
    }
    return count;
}
