/* SPDX-License-Identifier: Apache-2.0
 *
 * Raw calls.
 */
#include "client/lib/raw_call.h"

#include "client/lib/client.h"

static int decode_raw(struct slice bytes, void *result, struct fault *fault)
{
    struct buf *reply = result;
    int err = buf_append(reply, bytes.data, bytes.len);

    if (err != 0) {
        fault_set_err(fault, err, "cannot keep the answer");
    }
    return err;
}

int raw_call(struct foliot_client *client, const struct raw_call *raw, struct buf *reply,
             struct foliot_error *error)
{
    const struct client_method method = {
        .path = raw->path, .what = raw->what, .kind = raw->kind, .decode = decode_raw};
    int code;
    struct client_call *call = client_call_new(client, &method, NULL, &code, error);
    int err;

    if (call == NULL) {
        return code;
    }
    call->slot = raw->slot;
    err = buf_append(&call->bytes, raw->request.data, raw->request.len);
    if (err != 0) {
        fault_set_err(&call->fault, err, raw->what);
        (void)client_call_refuse(call, &code, error);
        return code;
    }
    return client_call_wait(call, reply, error);
}
