/* SPDX-License-Identifier: Apache-2.0
 *
 * One writer for each stream.
 */
#include "storage/pg_streams.h"

#include "lib/base/check.h"

int pg_streams_open(struct pg_streams *streams, uint32_t stream,
                    const struct pg_writer_options *options)
{
    REQUIRE(stream < STORE_STREAM_COUNT_MAX);
    return pg_writer_open(&streams->writers[stream], options);
}

void pg_streams_close(struct pg_streams *streams)
{
    for (size_t i = 0; i < STORE_STREAM_COUNT_MAX; i++) {
        if (streams->writers[i].conn.state != 0) {
            pg_writer_close(&streams->writers[i]);
        }
    }
}

void pg_streams_fini(struct pg_streams *streams)
{
    for (size_t i = 0; i < STORE_STREAM_COUNT_MAX; i++) {
        pg_writer_fini(&streams->writers[i]);
    }
}

int pg_streams_write(struct pg_streams *streams, struct store_batch *batch)
{
    struct pg_writer *first = &streams->writers[0];
    struct pg_writer *own = &streams->writers[batch->stream];
    bool is_helped = own->conn.state != PG_CONN_READY && first->conn.state == PG_CONN_READY;

    REQUIRE(batch->stream < STORE_STREAM_COUNT_MAX);
    return pg_writer_write(is_helped ? first : own, batch);
}

void pg_streams_renew(struct pg_streams *streams, const struct pg_hello *hello)
{
    for (size_t i = 1; i < STORE_STREAM_COUNT_MAX; i++) {
        struct pg_writer *writer = &streams->writers[i];

        bool is_same = writer->conn.hello.system_id == hello->system_id &&
                       writer->conn.hello.timeline == hello->timeline;

        if (writer->conn.state == PG_CONN_READY && pg_writer_is_idle(writer) && !is_same) {
            pg_conn_break(&writer->conn, "the database is another server now");
        }
    }
}

void pg_streams_refuse(struct pg_streams *streams)
{
    for (size_t i = 0; i < STORE_STREAM_COUNT_MAX; i++) {
        pg_writer_refuse(&streams->writers[i]);
    }
}

void pg_streams_poll(struct pg_streams *streams, boot_us now, bool is_due)
{
    if (is_due) {
        pg_writer_poll(&streams->writers[0]);
    }
    for (size_t i = 1; i < STORE_STREAM_COUNT_MAX; i++) {
        boot_us used = time_max(streams->writers[i].started, streams->polled[i]);

        if (now - used >= PG_STREAM_SILENT_US) {
            pg_writer_poll(&streams->writers[i]);
            streams->polled[i] = now;
        }
    }
}

bool pg_streams_is_idle(const struct pg_streams *streams)
{
    for (size_t i = 0; i < STORE_STREAM_COUNT_MAX; i++) {
        if (!pg_writer_is_idle(&streams->writers[i])) {
            return false;
        }
    }
    return true;
}

bool pg_streams_is_first(const struct pg_streams *streams, const struct pg_conn *conn)
{
    return conn == &streams->writers[0].conn;
}
