/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS of the three kinds of connections: what listens, the other brokers, the targets. Files are
 * read at the start, on SIGHUP, and when they have changed; bad ones change nothing but the log.
 */
#include "broker/server_parts.h"
#include "lib/base/err.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/io/tls.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* One line about refused clients in so long: a port scan must not fill the log. */
#define REFUSED_LOG_US US_PER_S

struct kind {
    const char *what;
    struct tls_options options;
    struct tls **place; /* NULL in it: not wanted */
};

#define KIND_COUNT 3

/* The kinds by the settings. shape: kinds has KIND_COUNT. */
static void fill_kinds(const struct config *config, struct server_tls *tls, struct kind *kinds)
{
    kinds[0] = (struct kind){.what = "tls.* (calls)",
                             .options = {.is_server = true,
                                         .cert_file = config->tls_cert,
                                         .key_file = config->tls_key,
                                         .ca_file = config->tls_ca,
                                         .clients = (enum tls_clients)config->tls_clients},
                             .place = &tls->calls};
    kinds[1] = (struct kind){.what = "tls.* (other brokers)",
                             .options = {.cert_file = config->tls_cert,
                                         .key_file = config->tls_key,
                                         .ca_file = config->tls_ca},
                             .place = &tls->peers};
    kinds[2] = (struct kind){.what = "targets.tls_*",
                             .options = {.cert_file = config->targets_tls_cert,
                                         .key_file = config->targets_tls_key,
                                         .ca_file = config->targets_tls_ca},
                             .place = &tls->targets};
}

static bool is_wanted(const struct config *config, const struct kind *kind)
{
    return !kind->options.is_server && kind->options.cert_file != config->tls_cert
               ? true // Targets: any queue may name one.
               : config->tls_cert[0] != '\0';
}

/* Open every kind that is wanted. On failure *what is its settings. */
static int open_kinds(const struct config *config, struct server_tls *tls, const char **what,
                      char *why)
{
    struct kind kinds[KIND_COUNT];

    fill_kinds(config, tls, kinds);
    for (size_t i = 0; i < KIND_COUNT; i++) {
        int err =
            is_wanted(config, &kinds[i]) ? tls_open(&kinds[i].options, kinds[i].place, why) : 0;

        if (err != 0) {
            *what = kinds[i].what;
            return err;
        }
    }
    return 0;
}

void server_tls_close(struct server_tls *tls)
{
    struct tls **const all[] = {&tls->calls, &tls->peers, &tls->targets};

    for (size_t i = 0; i < ARRAY_COUNT(all); i++) {
        if (*all[i] != NULL) {
            tls_close(*all[i]);
            *all[i] = NULL;
        }
    }
}

int server_tls_check(const struct config *config, char *text, size_t size)
{
    struct server_tls tls = {.calls = NULL};
    const char *what = "";
    char why[TLS_WHY_BYTES] = "";
    int err = open_kinds(config, &tls, &what, why);

    if (err != 0) {
        (void)snprintf(text, size, "%s: %s", what, why);
    }
    server_tls_close(&tls);
    return err;
}

int server_tls_open(struct server *server)
{
    const char *what = "";
    char why[TLS_WHY_BYTES] = "";
    int err = open_kinds(server->config, &server->tls, &what, why);

    if (err != 0) {
        SERVER_LOG(server, LOG_LEVEL_ERROR, "TLS cannot be used", log_text("setting", what),
                   log_text("why", why), log_err(err));
    } else if (server->tls.calls != NULL) {
        SERVER_LOG(server, LOG_LEVEL_INFO, "TLS is on",
                   log_int("certificate_expires_s", tls_expires_s(server->tls.calls)),
                   log_text("library", tls_library_version()));
    }
    return err;
}

/* ---- reading again ---- */

static void reload(struct server *server, bool only_changed)
{
    struct kind kinds[KIND_COUNT];

    fill_kinds(server->config, &server->tls, kinds);
    for (size_t i = 0; i < KIND_COUNT; i++) {
        struct tls *tls = *kinds[i].place;
        char why[TLS_WHY_BYTES] = "";
        int err;

        if (tls == NULL || (only_changed && !tls_has_changed(tls))) {
            continue;
        }
        err = tls_reload(tls, why);
        if (err != 0) {
            SERVER_LOG(server, LOG_LEVEL_ERROR,
                       "files of TLS cannot be used, the ones read before go on",
                       log_text("setting", kinds[i].what), log_text("why", why), log_err(err));
        } else {
            SERVER_LOG(server, LOG_LEVEL_INFO, "files of TLS have been read again",
                       log_text("setting", kinds[i].what),
                       log_int("certificate_expires_s", tls_expires_s(tls)));
        }
    }
}

static void on_hangup(int number, void *ctx)
{
    struct server *server = ctx;

    if (server->backend->is_daemon) {
        reload(server, false);
    } else {
        server_on_signal(number, server);
    }
}

static void on_look(struct loop_timer *timer, void *ctx)
{
    struct server *server = ctx;

    reload(server, true);
    loop_timer_start_in(timer, server->config->tls_reload_ms);
}

int server_tls_watch(struct server *server)
{
    struct server_tls *tls = &server->tls;
    sigset_t set;
    int err = loop_signal_open(server->loop, SIGHUP, on_hangup, server, &tls->hangup);

    if (err != 0) {
        return err;
    }
    loop_timer_init(&tls->look, server->loop, on_look, server);
    tls->is_watching = true;
    if (server->config->tls_reload_ms > 0) {
        loop_timer_start_in(&tls->look, server->config->tls_reload_ms);
    }
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGHUP);
    (void)pthread_sigmask(SIG_UNBLOCK, &set, NULL);
    return 0;
}

void server_tls_unwatch(struct server *server)
{
    struct server_tls *tls = &server->tls;

    if (tls->is_watching) {
        loop_timer_stop(&tls->look);
        loop_signal_close(tls->hangup);
    }
}

/* ---- clients that are turned away ---- */

void server_on_tls_refused(const char *peer, const char *why, void *ctx)
{
    struct server *server = ctx;
    struct server_tls *tls = &server->tls;
    boot_us now_us = clock_boot_us();

    if (tls->refused_us != 0 && now_us - tls->refused_us < REFUSED_LOG_US) {
        tls->unlogged_count++;
        return;
    }
    SERVER_LOG(server, LOG_LEVEL_WARN, "a client's TLS handshake failed", log_text("peer", peer),
               log_text("why", why), log_uint("not_logged_before", tls->unlogged_count));
    tls->refused_us = now_us;
    tls->unlogged_count = 0;
}
