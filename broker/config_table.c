/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of options, their names in each source, and guesses at misspelt ones.
 */
#include "broker/config_table.h"

#include "lib/base/limits.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define FIELD(name)   offsetof(struct config, name)
#define MINUTE_MS     60000
#define HOUR_MS       3600000
#define DAY_MS        86400000
#define EDIT_DISTANCE 3
#define WORD_LEN_MAX  64

static const struct config_option OPTIONS[] = {
    {.key = "name",
     .type = OPTION_TEXT,
     .field = FIELD(name),
     .default_value = "",
     .high = MEMBER_NAME_BYTES_MAX,
     .value = "NAME",
     .doc = "Stable name of this broker, by which it is given its shards: a pod's or a host's. "
            "Empty: the advertised address."},
    {.key = "listen",
     .type = OPTION_TEXT,
     .field = FIELD(listen),
     .default_value = "127.0.0.1:7400",
     .low = 1,
     .high = 255,
     .value = "HOST:PORT",
     .doc = "Numeric address for gRPC calls of clients and of other brokers. Port 0 takes any."},
    {.key = "advertise",
     .type = OPTION_TEXT,
     .field = FIELD(advertise),
     .default_value = "",
     .high = 255,
     .value = "HOST:PORT",
     .doc = "Address at which other brokers reach this one. Empty: the listening address."},
    {.key = "admin.listen",
     .type = OPTION_TEXT,
     .field = FIELD(admin_listen),
     .default_value = "127.0.0.1:7401",
     .low = 1,
     .high = 255,
     .value = "HOST:PORT",
     .doc = "Numeric address of /metrics, /livez, /readyz and /startupz; \"off\" for none. It asks "
            "for no password: keep it on loopback or in a private network."},
    {.key = "admin.json",
     .type = OPTION_CHOICE,
     .field = FIELD(admin_json),
     .default_value = "auto",
     .choices = "auto|off|on",
     .value = "SWITCH",
     .doc =
         "Whether the methods of the API are answered in JSON on the admin port too, by POST, as "
         "the Connect protocol has it. The port asks for no password: auto does it on loopback "
         "only, and not if tls.client_certificates is required."},
    {.key = "cluster.name",
     .type = OPTION_TEXT,
     .field = FIELD(cluster_name),
     .default_value = "main",
     .low = 1,
     .high = NAME_BYTES_MAX,
     .value = "NAME",
     .doc = "Cluster to join: its folder below the root in ZooKeeper."},
    {.key = "cluster.shards",
     .type = OPTION_COUNT,
     .field = FIELD(cluster_shards),
     .default_value = "128",
     .low = 1,
     .high = SHARD_COUNT_MAX,
     .value = "N",
     .doc = "Shards of a cluster that this broker creates; fixed from then on. Advice: 32 times "
            "the most brokers that you expect."},
    {.key = "zookeeper.hosts",
     .type = OPTION_TEXT,
     .field = FIELD(zookeeper_hosts),
     .default_value = "127.0.0.1:2181",
     .low = 1,
     .high = 1024,
     .value = "HOST:PORT,...",
     .doc = "ZooKeeper servers."},
    {.key = "zookeeper.root",
     .type = OPTION_TEXT,
     .field = FIELD(zookeeper_root),
     .default_value = "/foliot",
     .low = 2,
     .high = 255,
     .value = "/PATH",
     .doc = "Folder of all clusters in ZooKeeper."},
    {.key = "zookeeper.auth",
     .type = OPTION_TEXT,
     .field = FIELD(zookeeper_auth),
     .default_value = "",
     .high = 255,
     .is_secret = true,
     .value = "USER:PASSWORD",
     .doc = "Who brokers are to ZooKeeper, by its digest scheme; the same for all of a cluster. "
            "What they create is then theirs alone. The password travels in clear."},
    {.key = "zookeeper.open",
     .type = OPTION_CHOICE,
     .field = FIELD(zookeeper_open),
     .default_value = "off",
     .choices = "off|on",
     .value = "SWITCH",
     .doc = "On: a root that anybody who reaches ZooKeeper may write to is accepted, for "
            "ZooKeeper in a network of its own. Off: it is refused, but for servers on loopback "
            "without zookeeper.auth."},
    {.key = "zookeeper.session_timeout",
     .type = OPTION_SPAN,
     .field = FIELD(zookeeper_session_timeout_ms),
     .default_value = "4s",
     .low = 1000,
     .high = MINUTE_MS,
     .value = "TIME",
     .doc = "A broker that is silent for so long loses its shards. ZooKeeper allows 2 to 20 of its "
            "ticks."},
    {.key = "databases",
     .type = OPTION_LIST,
     .field = FIELD(databases),
     .default_value = "",
     .low = 1,
     .high = DATABASE_COUNT_MAX,
     .separator = ';',
     .is_secret = true,
     .value = "NAME=CONNINFO",
     .doc = "PostgreSQL databases, each with a name for ever and a libpq connection string. The "
            "first one is home: it holds the queues."},
    {.key = "memory.tasks",
     .type = OPTION_COUNT,
     .field = FIELD(memory_tasks),
     .default_value = "1000000",
     .low = MEMORY_TASKS_MIN,
     .high = 100000000,
     .value = "N",
     .doc = "Most tasks held in memory; the window shrinks to fit, to a minute or two. Of a queue "
            "with more due within that, tasks may be late."},
    {.key = "memory.window",
     .type = OPTION_SPAN,
     .field = FIELD(memory_window_ms),
     .default_value = "10m",
     .low = 10000,
     .high = 7 * (int64_t)DAY_MS,
     .value = "TIME",
     .doc = "How far ahead of now tasks are held in memory."},
    {.key = "audit.every",
     .type = OPTION_SPAN,
     .field = FIELD(audit_every_ms),
     .default_value = "8s",
     .low = 0,
     .high = DAY_MS,
     .value = "TIME",
     .doc =
         "How often the auditor looks at eight shards more; 0: there is none. Cut to whole beats "
         "of at most 1.5 s."},
    {.key = "targets.allow",
     .type = OPTION_LIST,
     .field = FIELD(targets_allow),
     .default_value = "127.0.0.1:*,localhost:*,[::1]:*",
     .low = 0,
     .high = CONFIG_LIST_COUNT_MAX,
     .separator = ',',
     .value = "PATTERN",
     .doc = "Which host:port queues may send to; '*' stands for any text. \"*\" allows all."},
    {.key = "targets.max",
     .type = OPTION_COUNT,
     .field = FIELD(targets_max),
     .default_value = "1000",
     .low = 1,
     .high = 10000,
     .value = "N",
     .doc = "Most target addresses in use at one time."},
    {.key = "targets.concurrency",
     .type = OPTION_COUNT,
     .field = FIELD(target_concurrency),
     .default_value = "1000",
     .low = 1,
     .high = 100000,
     .value = "N",
     .doc = "Most calls in flight to one target address."},
    {.key = "targets.queue",
     .type = OPTION_COUNT,
     .field = FIELD(target_queue),
     .default_value = "2000",
     .low = 1,
     .high = 100000,
     .value = "N",
     .doc = "Most calls waiting for one target address."},
    {.key = "targets.batch",
     .type = OPTION_COUNT,
     .field = FIELD(target_batch),
     .default_value = "200",
     .low = 1,
     .high = 1000,
     .value = "N",
     .doc = "Most attempts in one call of Receiver/Deliver."},
    {.key = "targets.keepalive",
     .type = OPTION_SPAN,
     .field = FIELD(targets_keepalive_ms),
     .default_value = "0ms",
     .low = 0,
     .high = DAY_MS,
     .value = "TIME",
     .doc = "A target that is silent for this long while calls are open is sent a ping, and given "
            "up after 20 s without an answer; 0 for never, else at least 10s. Many servers end "
            "connections that are pinged more often than every 5 minutes."},
    {.key = "targets.tls_ca",
     .type = OPTION_TEXT,
     .field = FIELD(targets_tls_ca),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Authorities whose certificates are taken from targets with TLS (grpcs://, "
            "receivers://), as PEM. Empty: the system's."},
    {.key = "targets.tls_cert",
     .type = OPTION_TEXT,
     .field = FIELD(targets_tls_cert),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Certificate that targets with TLS are shown, as PEM. Empty: none."},
    {.key = "targets.tls_key",
     .type = OPTION_TEXT,
     .field = FIELD(targets_tls_key),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Its key, as PEM, without a pass phrase."},
    {.key = "tls.cert",
     .type = OPTION_TEXT,
     .field = FIELD(tls_cert),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Certificate of this broker, as PEM, with those between it and the root behind it. It "
            "makes the port for calls speak TLS only, and calls to other brokers too, who are "
            "shown it as well; it must name the advertised host. Empty: no TLS."},
    {.key = "tls.key",
     .type = OPTION_TEXT,
     .field = FIELD(tls_key),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Its key, as PEM, without a pass phrase."},
    {.key = "tls.ca",
     .type = OPTION_TEXT,
     .field = FIELD(tls_ca),
     .default_value = "",
     .high = 4095,
     .value = "FILE",
     .doc = "Authorities whose certificates are taken from clients and other brokers, as PEM. "
            "Empty: the system's, and none from clients."},
    {.key = "tls.client_certificates",
     .type = OPTION_CHOICE,
     .field = FIELD(tls_clients),
     .default_value = "off",
     .choices = "off|optional|required",
     .value = "WHEN",
     .doc = "Whether clients must show a certificate of tls.ca; optional checks those who do."},
    {.key = "tls.reload",
     .type = OPTION_SPAN,
     .field = FIELD(tls_reload_ms),
     .default_value = "10s",
     .low = 0,
     .high = DAY_MS,
     .value = "TIME",
     .doc = "How often the files of TLS are looked at; changed ones are used for new connections. "
            "0 for on SIGHUP only, which always reads them."},
    {.key = "drain.timeout",
     .type = OPTION_SPAN,
     .field = FIELD(drain_timeout_ms),
     .default_value = "25s",
     .low = 100,
     .high = HOUR_MS,
     .value = "TIME",
     .doc = "After SIGTERM, how long running attempts and open calls may take before this broker "
            "ends. Keep it below the grace period of whatever sends the signal."},
    {.key = "limits.connections",
     .type = OPTION_COUNT,
     .field = FIELD(limits_connections),
     .default_value = "4096",
     .low = 1,
     .high = 65536,
     .value = "N",
     .doc = "Most client connections."},
    {.key = "limits.connections_per_address",
     .type = OPTION_COUNT,
     .field = FIELD(limits_connections_per_address),
     .default_value = "2048",
     .low = 1,
     .high = 65536,
     .value = "N",
     .doc = "Most client connections from one address."},
    {.key = "limits.streams",
     .type = OPTION_COUNT,
     .field = FIELD(limits_streams),
     .default_value = "1000",
     .low = 1,
     .high = 10000,
     .value = "N",
     .doc = "Most calls at one time on one connection."},
    {.key = "limits.calls",
     .type = OPTION_COUNT,
     .field = FIELD(limits_calls),
     .default_value = "200000",
     .low = BATCH_ITEM_COUNT_MAX,
     .high = 10000000,
     .value = "N",
     .doc = "Most tasks in calls that wait for their answer; more are refused with "
            "RESOURCE_EXHAUSTED."},
    {.key = "reflection",
     .type = OPTION_CHOICE,
     .field = FIELD(reflection),
     .default_value = "on",
     .choices = "off|on",
     .value = "SWITCH",
     .doc = "Whether clients may ask which services there are and for their descriptors "
            "(grpc.reflection.v1 and v1alpha)."},
    {.key = "answers.gzip_from",
     .type = OPTION_COUNT,
     .field = FIELD(gzip_from),
     .default_value = "0",
     .low = 0,
     .high = 4194304,
     .value = "BYTES",
     .doc = "Answers of this size and more are compressed for clients that take gzip; 0 for none. "
            "Compressed calls are understood in any case."},
    {.key = "connection.idle",
     .type = OPTION_SPAN,
     .field = FIELD(connection_idle_ms),
     .default_value = "10m",
     .low = 0,
     .high = DAY_MS,
     .value = "TIME",
     .doc = "A client's connection without calls is closed after this; 0 for never."},
    {.key = "connection.age",
     .type = OPTION_SPAN,
     .field = FIELD(connection_age_ms),
     .default_value = "30m",
     .low = 0,
     .high = 7 * (int64_t)DAY_MS,
     .value = "TIME",
     .doc = "A client's connection is asked to end after this, give or take 10 %, so that clients "
            "behind a balancer of connections find new brokers; 0 for never."},
    {.key = "connection.age_grace",
     .type = OPTION_SPAN,
     .field = FIELD(connection_age_grace_ms),
     .default_value = "1m",
     .low = 100,
     .high = DAY_MS,
     .value = "TIME",
     .doc = "How long the calls of a connection that was asked to end may take."},
    {.key = "connection.ping_after",
     .type = OPTION_SPAN,
     .field = FIELD(connection_ping_after_ms),
     .default_value = "1m",
     .low = 0,
     .high = DAY_MS,
     .value = "TIME",
     .doc = "A client that was silent for this long is sent a ping; 0 for never."},
    {.key = "connection.ping_timeout",
     .type = OPTION_SPAN,
     .field = FIELD(connection_ping_timeout_ms),
     .default_value = "20s",
     .low = 100,
     .high = HOUR_MS,
     .value = "TIME",
     .doc = "A client that does not answer our ping in this time is gone."},
    {.key = "connection.client_ping_interval",
     .type = OPTION_SPAN,
     .field = FIELD(connection_client_ping_interval_ms),
     .default_value = "10s",
     .low = 0,
     .high = HOUR_MS,
     .value = "TIME",
     .doc = "Pings of a client that follow each other faster than this are strikes."},
    {.key = "connection.client_ping_strikes",
     .type = OPTION_COUNT,
     .field = FIELD(connection_client_ping_strikes),
     .default_value = "2",
     .low = 0,
     .high = 1000000,
     .value = "N",
     .doc = "Strikes that are forgiven; the next one ends the connection with too_many_pings."},
    {.key = "log.level",
     .type = OPTION_CHOICE,
     .field = FIELD(log_level),
     .default_value = "info",
     .choices = "debug|info|warn|error",
     .value = "LEVEL",
     .doc = "Least level that is logged."},
    {.key = "log.format",
     .type = OPTION_CHOICE,
     .field = FIELD(log_format),
     .default_value = "auto",
     .choices = "auto|text|json",
     .value = "FORMAT",
     .doc = "Form of the log lines; auto writes text on a terminal and JSON elsewhere."},
};

_Static_assert(ARRAY_COUNT(OPTIONS) <= CONFIG_OPTION_COUNT_MAX, "every option has an origin");

size_t config_option_count(void)
{
    return ARRAY_COUNT(OPTIONS);
}

const struct config_option *config_option_at(size_t index)
{
    return &OPTIONS[index];
}

size_t config_option_find(const char *key)
{
    size_t index = 0;

    while (index < ARRAY_COUNT(OPTIONS) && strcmp(OPTIONS[index].key, key) != 0) {
        index++;
    }
    return index;
}

/* ASCII only, whatever the locale. */
static char upper_byte(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

void config_option_variable(const struct config_option *option, char *text)
{
    size_t len = (size_t)snprintf(text, OPTION_NAME_SIZE, "FOLIOT_%s", option->key);

    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] == '.' ? '_' : upper_byte(text[i]);
    }
}

void config_option_flag(const struct config_option *option, char *text)
{
    size_t len = (size_t)snprintf(text, OPTION_NAME_SIZE, "--%s", option->key);

    for (size_t i = 0; i < len; i++) {
        text[i] = text[i] == '.' || text[i] == '_' ? '-' : text[i];
    }
}

/* ---- did you mean ---- */

static char plain_byte(char c)
{
    return c == '-' || c == '_' ? '.' : (char)tolower((unsigned char)c);
}

/* Changes of one byte between two words, up to their length. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[WORD_LEN_MAX + 1];
    size_t len = strlen(b);

    for (size_t j = 0; j <= len; j++) {
        row[j] = j;
    }
    for (size_t i = 0; a[i] != '\0'; i++) {
        size_t diagonal = row[0];

        row[0] = i + 1;
        for (size_t j = 0; j < len; j++) {
            size_t replace = diagonal + (plain_byte(a[i]) != plain_byte(b[j]));
            size_t either = row[j] < row[j + 1] ? row[j] + 1 : row[j + 1] + 1;

            diagonal = row[j + 1];
            row[j + 1] = replace < either ? replace : either;
        }
    }
    return row[len];
}

/* The first setting below a key that is none itself, as "log". */
static const char *first_below(const char *key)
{
    size_t len = strlen(key);

    for (size_t i = 0; i < ARRAY_COUNT(OPTIONS); i++) {
        if (strncmp(OPTIONS[i].key, key, len) == 0 && OPTIONS[i].key[len] == '.') {
            return OPTIONS[i].key;
        }
    }
    return NULL;
}

const char *config_option_near(const char *key)
{
    const char *near = NULL;
    size_t least = EDIT_DISTANCE + 1;

    if (strlen(key) > WORD_LEN_MAX) {
        return NULL;
    }
    for (size_t i = 0; i < ARRAY_COUNT(OPTIONS); i++) {
        size_t distance = edit_distance(key, OPTIONS[i].key);

        if (distance < least && distance * 3 <= strlen(OPTIONS[i].key) + 1) {
            least = distance;
            near = OPTIONS[i].key;
        }
    }
    return near != NULL ? near : first_below(key);
}
