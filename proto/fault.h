/* SPDX-License-Identifier: Apache-2.0
 *
 * Why a call is refused, as a plain value: gRPC status, a stable reason for programs, the field
 * that is to blame, a message for people that names limit and remedy, and when to try again.
 * Encodes to and from the details that stock gRPC clients read (google.rpc.Status).
 */
#ifndef FOLIOT_PROTO_FAULT_H
#define FOLIOT_PROTO_FAULT_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/instant.h"

#define FAULT_DOMAIN        "foliot"
#define FAULT_REASON_BYTES  48
#define FAULT_FIELD_BYTES   96
#define FAULT_MESSAGE_BYTES 400

struct fault {
    enum rpc_status status;
    span_ms retry_after_ms;            /* > 0: try again after; 0: nothing to say */
    char reason[FAULT_REASON_BYTES];   /* UPPER_CASE, part of the API */
    char field[FAULT_FIELD_BYTES];     /* "items[3].payload"; empty if no field is to blame */
    char message[FAULT_MESSAGE_BYTES]; /* UTF-8, lower case, no final stop */
};

/*
 * Fill in a fault.
 *
 * shape: field may be NULL; the formatted message and the others are cut at their sizes, at a
 *        character border.
 */
void fault_set(struct fault *fault, enum rpc_status status, const char *reason, const char *field,
               const char *format, ...) PRINTF_LIKE(5, 6);

/*
 * Fill in a fault from an error code: its status, the reason that belongs to it, and "what: text".
 *
 * shape: err is not 0; what says what could not be done, to what; not NULL.
 */
void fault_set_err(struct fault *fault, int err, const char *what);

/* The reason that an error code is answered with: "OUTCOME_UNKNOWN". Static string. */
const char *fault_reason(int err);

/*
 * Append the serialized google.rpc.Status for grpc-status-details-bin: ErrorInfo, BadRequest if a
 * field is to blame, RetryInfo if there is something to say.
 *
 * errors: ERR_TOO_LARGE, ERR_NO_MEMORY, as buf_append.
 */
MUST_USE int fault_encode(const struct fault *fault, struct buf *out);

/*
 * Read what a peer answered: its status and message, and the details if they can be read.
 *
 * shape: details may be empty or garbage: then only status and message are filled in.
 */
void fault_decode(struct fault *fault, enum rpc_status status, struct slice message,
                  struct slice details);

#endif
