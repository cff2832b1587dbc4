/* SPDX-License-Identifier: Apache-2.0
 *
 * The settings of foliotd: one table of options, filled from flags, environment, a YAML file and
 * defaults, in this order of precedence. Every value knows where it came from. Reads the one file
 * it is told of and files of secrets, nothing else; prints nothing itself.
 *
 * A key such as "zookeeper.session_timeout" is FOLIOT_ZOOKEEPER_SESSION_TIMEOUT in the environment
 * and --zookeeper-session-timeout as a flag. No key may begin with "port" or "service": for a
 * service named foliot Kubernetes sets FOLIOT_PORT… and FOLIOT_SERVICE_….
 */
#ifndef FOLIOT_BROKER_CONFIG_H
#define FOLIOT_BROKER_CONFIG_H

#include "lib/base/attr.h"
#include "lib/base/buf.h"
#include "lib/base/instant.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room for every option, so that origins need no allocation; checked when compiled. */
#define CONFIG_OPTION_COUNT_MAX 72

/* Longest configuration or secret file. */
#define CONFIG_FILE_BYTES_MAX 262144

/* Most items of a list option. */
#define CONFIG_LIST_COUNT_MAX 256

/* Longest single value. */
#define CONFIG_VALUE_BYTES_MAX 4096

/* Errors and warnings together are held below this. */
#define CONFIG_REPORT_BYTES_MAX 65536

enum config_source {
    CONFIG_DEFAULT = 1,
    CONFIG_FILE,
    CONFIG_ENVIRONMENT,
    CONFIG_FLAG
};

/* Where a value came from. */
struct config_origin {
    enum config_source source;
    char where[96]; /* "/etc/foliot.yaml:12", "FOLIOT_NAME", "--name"; cut if longer */
};

/* Texts in the order given. */
struct config_list {
    char **items; /* NUL-terminated */
    size_t count;
};

enum config_log_format {
    CONFIG_LOG_AUTO, /* text on a terminal, else JSON */
    CONFIG_LOG_TEXT,
    CONFIG_LOG_JSON
};

enum config_admin_json {
    CONFIG_JSON_AUTO, /* if the admin port is on loopback */
    CONFIG_JSON_OFF,
    CONFIG_JSON_ON
};

/* Of a choice "off|on". */
enum config_switch {
    CONFIG_OFF,
    CONFIG_ON
};

/*
 * The settings. Texts are owned, never NULL after a successful load.
 */
struct config {
    char *name;         /* stable member name; the advertised address if it was left empty */
    char *listen;       /* host:port, numeric */
    char *advertise;    /* host:port for others; listen if it was left empty */
    char *admin_listen; /* host:port, numeric; "off" for none */
    int64_t admin_json; /* enum config_admin_json */
    char *cluster_name;
    int64_t cluster_shards; /* only looked at when the cluster is created */
    char *zookeeper_hosts;  /* host:port,… */
    char *zookeeper_root;
    char *zookeeper_auth;   /* user:password; empty: none */
    int64_t zookeeper_open; /* enum config_switch */
    span_ms zookeeper_session_timeout_ms;
    struct config_list databases;     /* "name=conninfo"; the first is home */
    int64_t memory_tasks;             /* tasks held in memory */
    span_ms memory_window_ms;         /* how far ahead due times are held in memory */
    span_ms audit_every_ms;           /* from one turn of the auditor to the next; 0: none */
    struct config_list targets_allow; /* patterns of host:port */
    int64_t target_concurrency;       /* calls in flight per target address */
    int64_t target_queue;             /* calls waiting per target address */
    int64_t target_batch;             /* attempts in one Deliver */
    int64_t targets_max;              /* target addresses with a channel at one time */
    span_ms drain_timeout_ms;
    int64_t limits_connections;
    int64_t limits_connections_per_address;
    int64_t limits_streams;
    int64_t limits_calls; /* tasks in calls that wait for an answer */
    int64_t gzip_from;    /* bytes from which answers are packed; 0: never */
    char *tls_cert;       /* file; empty: no TLS */
    char *tls_key;
    char *tls_ca;
    int64_t tls_clients;   /* enum tls_clients: off, optional, required */
    span_ms tls_reload_ms; /* 0: on SIGHUP only */
    char *targets_tls_ca;
    char *targets_tls_cert;
    char *targets_tls_key;
    span_ms targets_keepalive_ms; /* 0: no pings */
    int64_t reflection;           /* enum config_switch */
    span_ms connection_idle_ms;   /* 0: never closed for it, and so on */
    span_ms connection_age_ms;
    span_ms connection_age_grace_ms;
    span_ms connection_ping_after_ms;
    span_ms connection_ping_timeout_ms;
    span_ms connection_client_ping_interval_ms;
    int64_t connection_client_ping_strikes;
    int64_t log_level;  /* index into the choices: debug, info, warn, error */
    int64_t log_format; /* enum config_log_format */
    struct config_origin origins[CONFIG_OPTION_COUNT_MAX]; /* by index in the table */
};

/* What the command line asks for besides starting. */
enum config_action {
    CONFIG_RUN = 1,
    CONFIG_SHOW_HELP,
    CONFIG_SHOW_VERSION,
    CONFIG_SHOW_CONFIG,
    CONFIG_CHECK_ONLY
};

/* Where settings are read from; all borrowed. */
struct config_input {
    int argc;
    char **argv;        /* as of main(): the first is the program */
    char **environment; /* NAME=value, NULL at the end */
};

/* What was wrong, one line each: "name: …". Initialise and finish with the functions below. */
struct config_report {
    struct buf errors;
    struct buf warnings;
};

void config_report_init(struct config_report *report);
void config_report_fini(struct config_report *report);

/*
 * Read all sources and check every value and their relations.
 *
 * shape:     action is set also on failure, to what the flags asked for as far as they were read.
 * ownership: on success config owns its texts, until config_fini(); on failure it owns nothing.
 * errors:    ERR_INVALID with at least one line in report->errors; all errors of all sources are
 *            reported, not only the first. ERR_NO_MEMORY.
 */
MUST_USE int config_load(struct config *config, const struct config_input *input,
                         enum config_action *action, struct config_report *report);

void config_fini(struct config *config);

/* Number of databases, and the parts of one: name is copied into `name` (64 bytes), conninfo is
 * borrowed. */
size_t config_database_count(const struct config *config);
const char *config_database(const struct config *config, size_t index, char *name);

/*
 * Append the settings as YAML, each with its origin as a comment. But for secrets, which are
 * replaced by "(hidden)", it could be loaded again.
 */
void config_print(const struct config *config, struct buf *out);

/* Append the text of --help, generated from the table. */
void config_help(struct buf *out);

/*
 * Split "host:port" or "[v6]:port".
 *
 * shape:  host has room for host_size bytes; brackets are dropped.
 * errors: ERR_INVALID.
 */
MUST_USE int config_split_address(const char *text, char *host, size_t host_size, uint16_t *port);

/*
 * Does a pattern allow this host:port? '*' stands for any run of bytes, all else for itself.
 */
bool config_pattern_matches(const char *pattern, struct slice text);

#endif
