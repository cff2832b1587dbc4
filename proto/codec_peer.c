/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes on their way to the owner of a shard that has moved.
 */
#include "proto/codec_peer.h"

#include "lib/base/check.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/internal/peer.pb-c.h>

int codec_write_report(const struct peer_report *report, struct buf *out)
{
    Foliot__Internal__ReportRequest message;
    Google__Protobuf__Duration retry_after;
    Google__Protobuf__Timestamp deadline;
    char id[TASK_ID_TEXT_LEN + 1];

    REQUIRE(report->error.len <= ERROR_TEXT_BYTES_MAX &&
            report->response.len <= RESPONSE_BYTES_MAX);
    foliot__internal__report_request__init(&message);
    task_id_format(report->id, id);
    message.task_id = id;
    message.attempt = report->attempt;
    message.outcome = (Foliot__V1__Outcome)report->outcome;
    message.error = wire_bytes(report->error);
    message.response = wire_bytes(report->response);
    if (report->retry_after_ms > 0) {
        message.retry_after = write_duration(report->retry_after_ms, &retry_after);
    }
    message.deadline = write_time(report->deadline_ms, &deadline);
    return message_write(&message.base, out);
}

/* The numbers: which attempt, and how it ended. */
static int read_outcome(const Foliot__Internal__ReportRequest *request, struct fault *fault,
                        struct peer_report *out)
{
    int outcome = (int)request->outcome;

    if (request->attempt == 0) {
        return refuse_value(&(struct place){"", "attempt", fault}, "VALUE_OUT_OF_RANGE",
                            "is 0; attempts count from 1");
    }
    if (outcome < DELIVERY_DONE || outcome > DELIVERY_OBSOLETE) {
        return refuse_value(&(struct place){"", "outcome", fault}, "ENUM_UNKNOWN",
                            "is %d, which is no outcome", outcome);
    }
    if (request->error.len > ERROR_TEXT_BYTES_MAX) {
        return refuse_value(&(struct place){"", "error", fault}, "VALUE_OUT_OF_RANGE",
                            "has %zu bytes, at most %d are kept (ERROR_TEXT_BYTES_MAX)",
                            request->error.len, ERROR_TEXT_BYTES_MAX);
    }
    if (request->response.len > RESPONSE_BYTES_MAX) {
        return refuse_value(&(struct place){"", "response", fault}, "VALUE_OUT_OF_RANGE",
                            "has %zu bytes, at most %d are kept (RESPONSE_BYTES_MAX)",
                            request->response.len, RESPONSE_BYTES_MAX);
    }
    out->attempt = request->attempt;
    out->outcome = (enum delivery_outcome)outcome;
    out->error = (struct slice){request->error.data, request->error.len};
    out->response = (struct slice){request->response.data, request->response.len};
    return 0;
}

int codec_read_report(struct slice bytes, struct arena *arena, struct peer_report *out,
                      struct fault *fault)
{
    const Foliot__Internal__ReportRequest *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__internal__report_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__Internal__ReportRequest *)(void *)message;
    *out = (struct peer_report){.deadline_ms = read_reply_time(request->deadline)};
    err = read_task_id(request->task_id, (struct place){"", "task_id", fault}, &out->id);
    if (err == 0) {
        err = read_outcome(request, fault, out);
    }
    if (err == 0 && request->retry_after != NULL) {
        err = read_delay(request->retry_after, (struct place){"", "retry_after", fault},
                         &out->retry_after_ms);
    }
    return err;
}
