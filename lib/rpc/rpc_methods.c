/* SPDX-License-Identifier: Apache-2.0
 *
 * A sorted table of methods: few of them, many look-ups.
 */
#include "lib/rpc/rpc_methods.h"

#include "lib/base/err.h"
#include "lib/rpc/grpc_header.h"

#include <string.h>

/* Order of two byte strings: by their common part, then the shorter one first. */
static int compare(struct slice a, struct slice b)
{
    int order = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);

    if (order != 0) {
        return order;
    }
    return a.len < b.len ? -1 : a.len > b.len;
}

/* Index of the first row that is not before `path`. */
static size_t lower_bound(const struct rpc_methods *methods, struct slice path)
{
    size_t low = 0;
    size_t high = methods->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (compare(slice_of(methods->rows[middle]->path), path) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

/* The method of exactly this path, or NULL. */
static const struct rpc_method *find_row(const struct rpc_methods *methods, struct slice path)
{
    size_t index = lower_bound(methods, path);

    if (index == methods->count || !slice_equal(slice_of(methods->rows[index]->path), path)) {
        return NULL;
    }
    return methods->rows[index];
}

int rpc_methods_add(struct rpc_methods *methods, const struct rpc_method *method)
{
    struct slice path = slice_of(method->path);
    size_t index = lower_bound(methods, path);

    if (slice_equal(path, slice_of(RPC_PATH_ANY))) {
        if (methods->any != NULL) {
            return ERR_EXISTS;
        }
        methods->any = method;
        return 0;
    }
    if (!grpc_is_path(path)) {
        return ERR_INVALID;
    }
    if (find_row(methods, path) != NULL) {
        return ERR_EXISTS;
    }
    if (methods->count == RPC_METHODS_MAX) {
        return ERR_FULL;
    }
    for (size_t i = methods->count; i > index; i--) {
        methods->rows[i] = methods->rows[i - 1];
    }
    methods->rows[index] = method;
    methods->count++;
    return 0;
}

const struct rpc_method *rpc_methods_find(const struct rpc_methods *methods, struct slice path)
{
    const struct rpc_method *row = find_row(methods, path);

    return row == NULL && grpc_is_path(path) ? methods->any : row;
}

bool rpc_methods_has_service(const struct rpc_methods *methods, struct slice service)
{
    for (size_t i = 0; i < methods->count; i++) {
        if (slice_equal(grpc_path_service(slice_of(methods->rows[i]->path)), service)) {
            return true;
        }
    }
    return false;
}
