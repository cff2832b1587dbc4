/* SPDX-License-Identifier: Apache-2.0
 *
 * The writers of one PostgreSQL database, one for each stream, so that a batch of one shard's
 * half need not wait for one of the other half's. What the first one meets tells whether the
 * database can be written to; the others may have nothing to do for hours, so they are asked now
 * and then whether their server is still there. source: docs/adr/0041
 */
#ifndef FOLIOT_STORAGE_PG_STREAMS_H
#define FOLIOT_STORAGE_PG_STREAMS_H

#include "storage/pg_write.h"

/* A stream other than the first one that was silent for so long is polled. */
#define PG_STREAM_SILENT_US (15 * US_PER_S)

struct pg_streams {
    struct pg_writer writers[STORE_STREAM_COUNT_MAX];
    boot_us polled[STORE_STREAM_COUNT_MAX];
};

/* Start one of them. shape: streams is zeroed at first. errors: those of pg_writer_open. */
MUST_USE int pg_streams_open(struct pg_streams *streams, uint32_t stream,
                             const struct pg_writer_options *options);

/* Close those that were opened. shape: nothing is pending. Then pg_streams_fini. */
void pg_streams_close(struct pg_streams *streams);
void pg_streams_fini(struct pg_streams *streams);

/* Take a batch of any stream. While that has no connection the first one takes it: a batch behind
 * another is better than one that waits for a server which may have no connection left. errors:
 * ERR_FULL. */
MUST_USE int pg_streams_write(struct pg_streams *streams, struct store_batch *batch);

/* The first has greeted a server: let the others that are on another one, and have nothing to do,
 * connect anew. */
void pg_streams_renew(struct pg_streams *streams, const struct pg_hello *hello);

/* Answer every batch that has not been sent with ERR_UNAVAILABLE. */
void pg_streams_refuse(struct pg_streams *streams);

/* Poll the first if that is due, the others if they were silent. */
void pg_streams_poll(struct pg_streams *streams, boot_us now, bool is_due);

/* True if neither a batch nor a poll is under way. */
bool pg_streams_is_idle(const struct pg_streams *streams);

/* Whether a connection is the first stream's. */
bool pg_streams_is_first(const struct pg_streams *streams, const struct pg_conn *conn);

#endif
