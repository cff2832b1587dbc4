/* SPDX-License-Identifier: Apache-2.0
 *
 * One table of what is shown from where, for each kind of figures; the text is written in one pass
 * and nothing is kept but the histogram of the loop's turns.
 */
#include "broker/metrics.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/base/metric.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum row_kind {
    ROW_COUNT64, /* uint64_t, only rises */
    ROW_GAUGE32, /* uint32_t */
    ROW_GAUGE64, /* uint64_t */
    ROW_TIME_US, /* int64_t of microseconds, shown as seconds; INT64_MAX is left out */
    ROW_TIME_MS, /* int64_t of milliseconds, shown as seconds */
    ROW_SUM_US,  /* int64_t of microseconds that only rises, shown as seconds */
    ROW_FLAG     /* bool */
};

/* One line, or one line per database. */
struct row {
    const char *name;
    const char *help;
    enum row_kind kind;
    size_t field;       /* offset in the struct that the table is about */
    const char *labels; /* constant, without braces; NULL for none */
};

#define FIGURE(member)   offsetof(struct figures, member)
#define DATABASE(member) offsetof(struct database_figures, member)

/* Rows of one name stand together. */
static const struct row ROWS[] = {
    {"foliot_tasks_scheduled_total", "Tasks created.", ROW_COUNT64, FIGURE(broker.created), NULL},
    {"foliot_tasks_cancelled_total", "Tasks ended by a cancel.", ROW_COUNT64,
     FIGURE(broker.cancelled), NULL},
    {"foliot_tasks_updated_total", "Tasks changed.", ROW_COUNT64, FIGURE(broker.updated), NULL},
    {"foliot_tasks_fired_total", "Attempts that ended, by how.", ROW_COUNT64,
     FIGURE(outbound.outcomes[OUTCOME_DONE]), "result=\"done\""},
    {"foliot_tasks_fired_total", "", ROW_COUNT64, FIGURE(outbound.outcomes[OUTCOME_RETRY]),
     "result=\"retry\""},
    {"foliot_tasks_fired_total", "", ROW_COUNT64, FIGURE(outbound.outcomes[OUTCOME_DEAD]),
     "result=\"dead\""},
    {"foliot_tasks_fired_total", "", ROW_COUNT64, FIGURE(outbound.outcomes[OUTCOME_OBSOLETE]),
     "result=\"obsolete\""},
    {"foliot_tasks_fired_total", "", ROW_COUNT64, FIGURE(outbound.outcomes[OUTCOME_UNKNOWN]),
     "result=\"unknown\""},
    {"foliot_tasks_fired_total", "", ROW_COUNT64, FIGURE(outbound.outcomes[OUTCOME_NOT_STARTED]),
     "result=\"not_started\""},
    {"foliot_claims_total", "Attempts claimed.", ROW_COUNT64, FIGURE(broker.claims), NULL},
    {"foliot_unclaims_total", "Claims given back unstarted.", ROW_COUNT64, FIGURE(broker.unclaims),
     NULL},
    {"foliot_starts_total", "Attempts handed to targets.", ROW_COUNT64, FIGURE(broker.starts),
     NULL},
    {"foliot_starts_refused_total", "Starts refused because a target had no room.", ROW_COUNT64,
     FIGURE(outbound.refused_full), NULL},
    {"foliot_tasks_done_total", "Tasks settled as done or obsolete.", ROW_COUNT64,
     FIGURE(broker.done), NULL},
    {"foliot_retries_total", "Tasks settled to be tried again.", ROW_COUNT64,
     FIGURE(broker.retried), NULL},
    {"foliot_dead_letters_total", "Tasks settled as dead letters.", ROW_COUNT64,
     FIGURE(broker.dead), NULL},
    {"foliot_tasks_expired_total", "Tasks ended because their time was over.", ROW_COUNT64,
     FIGURE(broker.expired), NULL},
    {"foliot_dead_letters_redriven_total", "Dead letters made pending again.", ROW_COUNT64,
     FIGURE(broker.redriven), NULL},
    {"foliot_dead_letters_purged_total", "Dead letters forgotten.", ROW_COUNT64,
     FIGURE(broker.purged), NULL},
    {"foliot_outcomes_unknown_total", "Attempts whose outcome was never learned.", ROW_COUNT64,
     FIGURE(broker.unknown), NULL},
    {"foliot_tasks_in_memory", "Tasks held in memory.", ROW_GAUGE32, FIGURE(broker.entries), NULL},
    {"foliot_parked", "Queues, per shard, with tasks that wait in the database for room.",
     ROW_GAUGE32, FIGURE(broker.parks), NULL},
    {"foliot_order_keys", "Order keys whose tasks have come up and that are remembered.",
     ROW_GAUGE32, FIGURE(broker.orders), NULL},
    {"foliot_attempts_in_flight",
     "Attempts claimed, running, or with an outcome that is not committed yet.", ROW_GAUGE32,
     FIGURE(broker.in_flight), NULL},
    {"foliot_shards", "Shards of the cluster.", ROW_GAUGE32, FIGURE(shard_count), NULL},
    {"foliot_shards_owned", "Shards that this broker serves.", ROW_GAUGE32,
     FIGURE(broker.shards_owned), NULL},
    {"foliot_shards_moving", "Shards that are being taken or released.", ROW_GAUGE32,
     FIGURE(broker.shards_moving), NULL},
    {"foliot_shards_unowned", "Shards that nobody is known to serve.", ROW_GAUGE32,
     FIGURE(shards_unowned), NULL},
    {"foliot_audit_rows_unheld",
     "Rows that are due and in nobody's hands, in the shards that this broker serves: must be 0.",
     ROW_GAUGE32, FIGURE(broker.audit.rows_unheld), NULL},
    {"foliot_audit_claims_overdue",
     "Live claims past their deadline that nobody ends, in the same shards: must be 0.",
     ROW_GAUGE32, FIGURE(broker.audit.claims_overdue), NULL},
    {"foliot_audit_entries_rowless",
     "Tasks in memory that the database does not have, in the same shards: must be 0.", ROW_GAUGE32,
     FIGURE(broker.audit.entries_rowless), NULL},
    {"foliot_audit_shards_unowned",
     "Shards of the cluster that nobody has served for long: must be 0.", ROW_GAUGE32,
     FIGURE(broker.audit.shards_unowned), NULL},
    {"foliot_audit_looks_total", "Shards that the auditor has looked at.", ROW_COUNT64,
     FIGURE(broker.audit.looks), NULL},
    {"foliot_audit_rounds_total", "Times that it has looked at all shards of this broker.",
     ROW_COUNT64, FIGURE(broker.audit.rounds), NULL},
    {"foliot_brokers", "Brokers in the cluster.", ROW_GAUGE32, FIGURE(members), NULL},
    {"foliot_ready", "1 if /readyz says ok.", ROW_FLAG, FIGURE(is_ready), NULL},
    {"foliot_epochs_raised_total", "Epochs raised in a database.", ROW_COUNT64,
     FIGURE(broker.bumps), NULL},
    {"foliot_commits_total", "Write batches committed.", ROW_COUNT64, FIGURE(broker.batches), NULL},
    {"foliot_commit_operations_total", "Operations in them.", ROW_COUNT64, FIGURE(broker.batch_ops),
     NULL},
    {"foliot_commits_unknown_total", "Write batches whose outcome was unknown.", ROW_COUNT64,
     FIGURE(broker.batch_unknown), NULL},
    {"foliot_operations_fenced_total", "Operations refused because their epoch was old.",
     ROW_COUNT64, FIGURE(broker.fenced), NULL},
    {"foliot_operations_waiting", "Operations gathered for the next commits.", ROW_GAUGE32,
     FIGURE(broker.ops_waiting), NULL},
    {"foliot_commit_seconds", "Smoothed time of a commit.", ROW_TIME_US, FIGURE(broker.commit_us),
     NULL},
    {"foliot_claim_lead_seconds", "How long before due claims are asked for.", ROW_TIME_MS,
     FIGURE(broker.claim_lead_ms), NULL},
    {"foliot_calls_refused_total", "Calls refused for overload.", ROW_COUNT64,
     FIGURE(broker.refused), NULL},
    {"foliot_calls_forwarded_total", "Calls passed on to another broker.", ROW_COUNT64,
     FIGURE(service.forwarded), NULL},
    {"foliot_calls_owner_waits_total", "Times that a call waited for an owner.", ROW_COUNT64,
     FIGURE(service.owner_waits), NULL},
    {"foliot_calls_unknown_total", "Calls answered OUTCOME_UNKNOWN.", ROW_COUNT64,
     FIGURE(service.unknown), NULL},
    {"foliot_calls_tasks_waiting", "Tasks in calls that wait for their answer.", ROW_GAUGE32,
     FIGURE(service.tasks_waiting), NULL},
    {"foliot_reports_total", "Outcomes told to the owners of shards that had moved, by result.",
     ROW_COUNT64, FIGURE(service.reports_told), "result=\"told\""},
    {"foliot_reports_total", "", ROW_COUNT64, FIGURE(service.reports_useless),
     "result=\"useless\""},
    {"foliot_reports_total", "", ROW_COUNT64, FIGURE(service.reports_dropped),
     "result=\"dropped\""},
    {"foliot_reports_received_total", "Outcomes that other brokers told us, by result.",
     ROW_COUNT64, FIGURE(service.reports_taken), "result=\"taken\""},
    {"foliot_reports_received_total", "", ROW_COUNT64, FIGURE(service.reports_refused),
     "result=\"refused\""},
    {"foliot_reports_waiting", "Outcomes on their way to other brokers.", ROW_GAUGE32,
     FIGURE(service.reports_waiting), NULL},
    {"foliot_targets", "Target addresses in use.", ROW_GAUGE32, FIGURE(outbound.targets.targets),
     NULL},
    {"foliot_targets_unreachable", "Target addresses that cannot be connected to.", ROW_GAUGE32,
     FIGURE(outbound.targets.unreachable), NULL},
    {"foliot_zk_session_events_total", "Events of the ZooKeeper session.", ROW_COUNT64,
     FIGURE(coord.session_count), "event=\"registered\""},
    {"foliot_zk_session_events_total", "", ROW_COUNT64, FIGURE(coord.away_count),
     "event=\"disconnected\""},
    {"foliot_zk_session_events_total", "", ROW_COUNT64, FIGURE(coord.lost_count), "event=\"lost\""},
    {"foliot_zk_requests_total", "Requests to ZooKeeper.", ROW_COUNT64, FIGURE(coord.call_count),
     NULL},
    {"foliot_zk_requests_unknown_total", "Requests to ZooKeeper without a known outcome.",
     ROW_COUNT64, FIGURE(coord.unknown_count), NULL},
    {"foliot_grpc_server_connections", "Client connections.", ROW_GAUGE64,
     FIGURE(rpc.connections_open), NULL},
    {"foliot_grpc_server_connections_accepted_total", "Client connections accepted.", ROW_COUNT64,
     FIGURE(rpc.connections_accepted), NULL},
    {"foliot_grpc_server_connections_refused_total", "Client connections over a limit.",
     ROW_COUNT64, FIGURE(rpc.connections_refused), NULL},
    {"foliot_grpc_server_started_total", "Calls of clients begun.", ROW_COUNT64,
     FIGURE(rpc.calls_started), NULL},
    {"foliot_grpc_server_open", "Calls of clients not finished.", ROW_GAUGE64,
     FIGURE(rpc.calls_open), NULL},
    {"foliot_grpc_server_protocol_errors_total", "Connections closed for what the peer did.",
     ROW_COUNT64, FIGURE(rpc.protocol_errors), NULL},
    {"foliot_grpc_server_handshakes_failed_total", "Connections that ended in their TLS handshake.",
     ROW_COUNT64, FIGURE(rpc.handshakes_failed), NULL},
    {"foliot_tls_certificate_expiry_seconds",
     "When the certificate of this broker expires, in seconds since 1970; 0 without TLS.",
     ROW_GAUGE64, FIGURE(tls_expires_s), NULL},
    {"foliot_grpc_server_buffered_bytes", "Bytes of requests held.", ROW_GAUGE64,
     FIGURE(rpc.buffered_bytes), NULL},
    {"foliot_grpc_server_unread_bytes", "Bytes of answers that wait for their readers.",
     ROW_GAUGE64, FIGURE(rpc.unread_bytes), NULL},
    {"foliot_grpc_server_connections_cut_total",
     "Connections that were hung up on because their answers were not read.", ROW_COUNT64,
     FIGURE(rpc.connections_cut), NULL},
};

static const struct row DATABASE_ROWS[] = {
    {"foliot_db_writable", "1 if the database takes writes.", ROW_FLAG, DATABASE(is_writable),
     NULL},
    {"foliot_db_clock_error_seconds", "Width of what is known of the database's clock.",
     ROW_TIME_US, DATABASE(clock_error_us), NULL},
    {"foliot_db_clock_offset_seconds", "The database's clock minus this machine's.", ROW_TIME_US,
     DATABASE(clock_offset_us), NULL},
    {"foliot_db_clock_held_seconds",
     "How far due times are held back, after the database's clock has stepped back.", ROW_TIME_US,
     DATABASE(clock_held_us), NULL},
    {"foliot_db_clock_steps_total", "Steps of the database's clock that were seen, both ways.",
     ROW_COUNT64, DATABASE(clock_steps), NULL},
    {"foliot_db_write_batches_total", "Transactions committed.", ROW_COUNT64,
     DATABASE(store.write_batches), NULL},
    {"foliot_db_write_operations_total", "Operations in them.", ROW_COUNT64,
     DATABASE(store.write_ops), NULL},
    {"foliot_db_write_seconds_total", "Time from sending to answer of write transactions.",
     ROW_SUM_US, DATABASE(store.write_us), NULL},
    {"foliot_db_write_unknown_total", "Transactions whose outcome was unknown.", ROW_COUNT64,
     DATABASE(store.write_unknown), NULL},
    {"foliot_db_write_refused_total", "Transactions that were not begun.", ROW_COUNT64,
     DATABASE(store.write_refused), NULL},
    {"foliot_db_write_split_total", "Transactions taken apart for a bad row.", ROW_COUNT64,
     DATABASE(store.write_split), NULL},
    {"foliot_db_reads_total", "Reads answered.", ROW_COUNT64, DATABASE(store.reads), NULL},
    {"foliot_db_bumps_total", "Epochs raised.", ROW_COUNT64, DATABASE(store.bumps), NULL},
    {"foliot_db_bumps_blocked_total", "Raises that met their lock timeout.", ROW_COUNT64,
     DATABASE(store.bumps_blocked), NULL},
    {"foliot_db_backends_ended_total", "Backends ended because they blocked a raise.", ROW_COUNT64,
     DATABASE(store.backends_ended), NULL},
    {"foliot_db_multixact_age",
     "Multixacts since the oldest one that may be in use; at 2^31 it ends.", ROW_GAUGE64,
     DATABASE(store.multixact_age), NULL},
    {"foliot_db_snapshot_age",
     "Transactions since the oldest snapshot or prepared transaction that vacuum must spare.",
     ROW_GAUGE64, DATABASE(store.snapshot_age), NULL},
    {"foliot_db_server_changes_total", "Times that the server or its timeline was another one.",
     ROW_COUNT64, DATABASE(store.server_changes), NULL},
    {"foliot_db_system_id", "The server's system identifier; 0 before the first connection.",
     ROW_GAUGE64, DATABASE(store.system_id), NULL},
    {"foliot_db_timeline", "Its timeline: a promotion begins a new one.", ROW_GAUGE32,
     DATABASE(store.timeline), NULL},
    {"foliot_db_connections_made_total", "Connections made.", ROW_COUNT64,
     DATABASE(store.connections_made), NULL},
    {"foliot_db_connections_lost_total", "Connections lost.", ROW_COUNT64,
     DATABASE(store.connections_lost), NULL},
};

struct broker_metrics {
    struct metrics registry;
    struct metric_histogram turns;
    struct metric_gauge info;
};

/* ---- rows ---- */

static bool is_counter(enum row_kind kind)
{
    return kind == ROW_COUNT64 || kind == ROW_SUM_US;
}

static void write_head(const struct row *row, struct buf *out)
{
    (void)buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", row->name, row->help, row->name,
                     is_counter(row->kind) ? "counter" : "gauge");
}

static void write_seconds(int64_t us, struct buf *out)
{
    uint64_t size = us < 0 ? (uint64_t)-us : (uint64_t)us;

    (void)buf_printf(out, "%s%" PRIu64 ".%06" PRIu64 "\n", us < 0 ? "-" : "",
                     size / (uint64_t)US_PER_S, size % (uint64_t)US_PER_S);
}

static void write_value(const struct row *row, const void *from, struct buf *out)
{
    const void *field = (const char *)from + row->field;

    switch (row->kind) {
    case ROW_COUNT64:
    case ROW_GAUGE64:
        (void)buf_printf(out, "%" PRIu64 "\n", *(const uint64_t *)field);
        break;
    case ROW_GAUGE32:
        (void)buf_printf(out, "%" PRIu32 "\n", *(const uint32_t *)field);
        break;
    case ROW_TIME_US:
    case ROW_SUM_US:
        write_seconds(*(const int64_t *)field, out);
        break;
    case ROW_TIME_MS:
        write_seconds(time_mul(*(const int64_t *)field, US_PER_MS), out);
        break;
    case ROW_FLAG:
        (void)buf_append_text(out, *(const bool *)field ? "1\n" : "0\n");
        break;
    }
}

static bool is_unknown(const struct row *row, const void *from)
{
    return row->kind == ROW_TIME_US &&
           *(const int64_t *)(const void *)((const char *)from + row->field) == INT64_MAX;
}

static void write_rows(const struct figures *figures, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(ROWS); i++) {
        const struct row *row = &ROWS[i];

        if (i == 0 || strcmp(row->name, ROWS[i - 1].name) != 0) {
            write_head(row, out);
        }
        (void)buf_printf(out, row->labels != NULL ? "%s{%s} " : "%s%s ", row->name,
                         row->labels != NULL ? row->labels : "");
        write_value(row, figures, out);
    }
}

static void write_databases(const struct figures *figures, struct buf *out)
{
    for (size_t i = 0; i < ARRAY_COUNT(DATABASE_ROWS); i++) {
        const struct row *row = &DATABASE_ROWS[i];

        write_head(row, out);
        for (uint32_t d = 0; d < figures->database_count; d++) {
            const struct database_figures *database = &figures->databases[d];

            if (!is_unknown(row, database)) {
                (void)buf_printf(out, "%s{database=\"%s\"} ", row->name, database->name);
                write_value(row, database, out);
            }
        }
    }
}

/* ---- what needs more than a row ---- */

static void write_lateness(const struct broker_stats *stats, struct buf *out)
{
    uint64_t count = 0;

    (void)buf_append_text(out, "# HELP foliot_lateness_seconds From due time to start.\n"
                               "# TYPE foliot_lateness_seconds histogram\n");
    for (uint32_t i = 0; i < LATENESS_BUCKET_COUNT; i++) {
        int64_t bound_us = broker_lateness_bound_us(i);

        count += stats->lateness[i];
        if (bound_us != INT64_MAX) {
            (void)buf_printf(out,
                             "foliot_lateness_seconds_bucket{le=\"%" PRId64 ".%06" PRId64
                             "\"} %" PRIu64 "\n",
                             bound_us / US_PER_S, bound_us % US_PER_S, count);
        }
    }
    (void)buf_printf(out, "foliot_lateness_seconds_bucket{le=\"+Inf\"} %" PRIu64 "\n", count);
    (void)buf_append_text(out, "foliot_lateness_seconds_sum ");
    write_seconds((int64_t)(stats->lateness_sum_us & INT64_MAX), out);
    (void)buf_printf(out, "foliot_lateness_seconds_count %" PRIu64 "\n", count);
}

static void write_handled(const struct rpc_server_stats *stats, struct buf *out)
{
    (void)buf_append_text(
        out, "# HELP foliot_grpc_server_handled_total Calls of clients finished, by gRPC status.\n"
             "# TYPE foliot_grpc_server_handled_total counter\n");
    for (size_t i = 0; i < ARRAY_COUNT(stats->calls_by_status); i++) {
        (void)buf_printf(out, "foliot_grpc_server_handled_total{code=\"%zu\"} %" PRIu64 "\n", i,
                         stats->calls_by_status[i]);
    }
}

/* Pages of resident memory are the second number of statm. 0 if it cannot be read. */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    char line[128] = "";
    char *rest = line;

    if (file == NULL) {
        return 0;
    }
    if (fgets(line, sizeof(line), file) != NULL) {
        (void)strtoull(line, &rest, 10);
    }
    (void)fclose(file);
    return strtoull(rest, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int64_t us_of(struct timeval time)
{
    return (int64_t)time.tv_sec * US_PER_S + (int64_t)time.tv_usec;
}

static void write_process(struct buf *out)
{
    struct rusage usage;

    (void)buf_printf(out,
                     "# HELP process_resident_memory_bytes Resident memory size in bytes.\n"
                     "# TYPE process_resident_memory_bytes gauge\n"
                     "process_resident_memory_bytes %" PRIu64 "\n",
                     resident_bytes());
    (void)buf_printf(out,
                     "# HELP foliot_heap_bytes Bytes allocated by our own code.\n"
                     "# TYPE foliot_heap_bytes gauge\nfoliot_heap_bytes %" PRId64 "\n",
                     mem_byte_count());
    if (getrusage(RUSAGE_SELF, &usage) == 0) {
        (void)buf_append_text(
            out, "# HELP process_cpu_seconds_total User and system CPU time in seconds.\n"
                 "# TYPE process_cpu_seconds_total counter\nprocess_cpu_seconds_total ");
        write_seconds(us_of(usage.ru_utime) + us_of(usage.ru_stime), out);
    }
}

int metrics_text(struct broker_metrics *metrics, const struct figures *figures, struct buf *out)
{
    int err = metrics_write(&metrics->registry, out);

    write_rows(figures, out);
    write_lateness(&figures->broker, out);
    write_handled(&figures->rpc, out);
    write_databases(figures, out);
    write_process(out);
    if (err == 0 && out->failed) {
        err = ERR_TOO_LARGE;
    }
    return err;
}

/* ---- life ---- */

int metrics_open(const char *version, const char *name, struct broker_metrics **out)
{
    const struct metric_label labels[] = {{"version", version}, {"broker", name}};
    const struct metric_info info = {.name = "foliot_build_info",
                                     .help = "Always 1; its labels say what runs.",
                                     .labels = labels,
                                     .label_count = ARRAY_COUNT(labels)};
    const struct metric_info turns = {.name = "foliot_loop_busy_seconds",
                                      .help = "Time from a poll of the event loop to the next.",
                                      .decimals = 6};
    struct broker_metrics *metrics = mem_new(1, sizeof(*metrics));

    if (metrics == NULL) {
        return ERR_NO_MEMORY;
    }
    metrics_init(&metrics->registry);
    if (metric_add_gauge(&metrics->registry, &metrics->info, &info) != 0 ||
        metric_add_histogram(&metrics->registry, &metrics->turns, &turns, 64, 1 << 22) != 0) {
        metrics_close(metrics);
        return ERR_NO_MEMORY;
    }
    metric_set(&metrics->info, 1);
    *out = metrics;
    return 0;
}

void metrics_turn(struct broker_metrics *metrics, int64_t busy_us)
{
    metric_record(&metrics->turns, busy_us);
}

void metrics_close(struct broker_metrics *metrics)
{
    metrics_fini(&metrics->registry);
    mem_free(metrics);
}
