/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and closing a client, and its thread.
 */
#define _GNU_SOURCE /* pthread_setname_np */

#include "client/lib/client.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/io/entropy.h"
#include "lib/io/resolve.h"
#include "lib/io/tls.h"

#include <signal.h>
#include <string.h>

#define SERVERS_DEFAULT        "127.0.0.1:7400"
#define TIMEOUT_MS_DEFAULT     10000
#define TRY_TIMEOUT_MS_DEFAULT 3000
#define CALLS_MAX_DEFAULT      10000U
#define CALLS_MAX_MAX          1000000U

/* Files of TLS that have changed are read again after this long at most. */
#define TLS_LOOK_MS 30000
/* and after this, when they could not be used: they are being written, perhaps. */
#define TLS_LOOK_AGAIN_MS 1000

#ifndef FOLIOT_VERSION
#define FOLIOT_VERSION "0.1.0"
#endif

/*
 * The libraries below count their users in plain variables of the process; clients that are opened
 * and closed by several threads at once must not meet there.
 */
static pthread_mutex_t process_lock = PTHREAD_MUTEX_INITIALIZER;

const char *foliot_version(void)
{
    return FOLIOT_VERSION;
}

/* ---- options ---- */

static int refuse_number(const char *field, int64_t value, int64_t max, struct fault *fault)
{
    fault_set(fault, RPC_INVALID_ARGUMENT, "VALUE_OUT_OF_RANGE", field,
              "%s: %lld must be 0 for the default, or 1 to %lld", field, (long long)value,
              (long long)max);
    return ERR_INVALID;
}

/* Fill in what is not said, refuse what makes no sense. errors: ERR_INVALID with fault filled in.
 */
static int take_options(const struct foliot_options *given, struct foliot_options *out,
                        struct fault *fault)
{
    memset(out, 0, sizeof(*out));
    if (given != NULL && argument_take(given, out, sizeof(*out), "options", fault) != 0) {
        return ERR_INVALID;
    }
    if (out->timeout_ms < 0 || out->timeout_ms > TIMEOUT_MS_MAX) {
        return refuse_number("timeout_ms", out->timeout_ms, TIMEOUT_MS_MAX, fault);
    }
    if (out->try_timeout_ms < 0 || out->try_timeout_ms > TIMEOUT_MS_MAX) {
        return refuse_number("try_timeout_ms", out->try_timeout_ms, TIMEOUT_MS_MAX, fault);
    }
    if (out->calls_max > CALLS_MAX_MAX) {
        return refuse_number("calls_max", out->calls_max, CALLS_MAX_MAX, fault);
    }
    out->servers = argument_text(out->servers, SERVERS_DEFAULT);
    out->timeout_ms = out->timeout_ms == 0 ? TIMEOUT_MS_DEFAULT : out->timeout_ms;
    out->try_timeout_ms = out->try_timeout_ms == 0 ? TRY_TIMEOUT_MS_DEFAULT : out->try_timeout_ms;
    out->calls_max = out->calls_max == 0 ? CALLS_MAX_DEFAULT : out->calls_max;
    return 0;
}

/* ---- the end, on the loop ---- */

static void on_brokers_closed(void *ctx)
{
    struct foliot_client *client = ctx;

    loop_stop(client->loop);
}

void client_try_close(struct foliot_client *client)
{
    if (client->is_stopping && atomic_load(&client->is_closing) && client->brokers != NULL &&
        list_is_empty(&client->calls)) {
        struct brokers *brokers = client->brokers;

        client->brokers = NULL;
        brokers_close(brokers, on_brokers_closed, client);
    }
}

static void on_stop(void *ctx)
{
    struct foliot_client *client = ctx;

    client->is_stopping = true;
    client_call_end_all(client);
    client_try_close(client);
}

/* ---- the thread ---- */

static void *run(void *ctx)
{
    struct foliot_client *client = ctx;

    (void)pthread_setname_np(pthread_self(), "foliot");
    loop_run(client->loop);
    return NULL;
}

/* Signals are the program's: none is ever taken by our thread. errors: ERR_FULL. */
static int start_thread(struct foliot_client *client)
{
    sigset_t all;
    sigset_t before;
    int failed;

    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    failed = pthread_create(&client->thread, NULL, run, client);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed == 0 ? 0 : ERR_FULL;
}

/* ---- TLS ---- */

/* New connections use what the files hold now; files that cannot be used change nothing. */
static void on_tls_look(struct loop_timer *timer, void *ctx)
{
    struct foliot_client *client = ctx;
    char why[TLS_WHY_BYTES];
    bool is_good = !tls_has_changed(client->tls) || tls_reload(client->tls, why) == 0;

    loop_timer_start_in(timer, is_good ? TLS_LOOK_MS : TLS_LOOK_AGAIN_MS);
}

/* errors: ERR_INVALID, ERR_NO_MEMORY, with fault filled in. */
static int open_tls(struct foliot_client *client, const struct foliot_options *options,
                    struct fault *fault)
{
    const struct tls_options files = {.ca_file = argument_text(options->tls_ca, NULL),
                                      .cert_file = argument_text(options->tls_cert, NULL),
                                      .key_file = argument_text(options->tls_key, NULL)};
    const char *name = argument_text(options->tls_name, NULL);
    char why[TLS_WHY_BYTES] = "";
    int err;

    if (options->tls == 0 && files.ca_file == NULL && files.cert_file == NULL &&
        files.key_file == NULL && name == NULL) {
        return 0;
    }
    client->tls_name = name == NULL ? NULL : mem_copy(name, strlen(name));
    err = name != NULL && client->tls_name == NULL ? ERR_NO_MEMORY
                                                   : tls_open(&files, &client->tls, why);
    if (err == ERR_INVALID) {
        fault_set(fault, RPC_INVALID_ARGUMENT, "TLS_INVALID", "tls", "tls: %s", why);
    } else if (err != 0) {
        fault_set_err(fault, err, "cannot open the client");
    } else {
        loop_timer_init(&client->tls_timer, client->loop, on_tls_look, client);
        loop_timer_start_in(&client->tls_timer, TLS_LOOK_MS);
    }
    return err;
}

static void close_tls(struct foliot_client *client)
{
    if (client->tls != NULL) {
        loop_timer_stop(&client->tls_timer);
        tls_close(client->tls);
    }
    mem_free(client->tls_name);
}

/* ---- opening ---- */

/* The loop and the resolver. errors: with nothing left open. */
static int open_loop(struct foliot_client *client)
{
    struct resolver_options options;
    int err;

    REQUIRE(pthread_mutex_lock(&process_lock) == 0);
    err = loop_open(&client->loop);
    if (err == 0) {
        resolver_options_init(&options);
        err = resolver_open(client->loop, &options, &client->resolver);
        if (err != 0) {
            loop_close(client->loop);
        }
    }
    REQUIRE(pthread_mutex_unlock(&process_lock) == 0);
    return err;
}

static void close_loop(struct foliot_client *client)
{
    close_tls(client);
    REQUIRE(pthread_mutex_lock(&process_lock) == 0);
    resolver_close(client->resolver);
    loop_close(client->loop);
    REQUIRE(pthread_mutex_unlock(&process_lock) == 0);
}

static void on_closed(void *ctx)
{
    bool *is_closed = ctx;

    *is_closed = true;
}

/* Close brokers without a thread: nothing has been asked of them yet. */
static void close_brokers(struct foliot_client *client)
{
    struct brokers *brokers = client->brokers;

    bool is_closed = brokers == NULL;

    client->brokers = NULL;
    if (brokers != NULL) {
        brokers_close(brokers, on_closed, &is_closed);
    }
    while (!is_closed) {
        loop_turn(client->loop, true);
    }
}

static void on_learned(void *ctx)
{
    struct foliot_client *client = ctx;
    struct brokers_stats stats;

    brokers_get_stats(client->brokers, &stats);
    atomic_store(&client->learned_count, stats.learned_count);
    atomic_store(&client->member_count, stats.member_count);
}

static int open_parts(struct foliot_client *client, const struct foliot_options *options,
                      struct fault *fault)
{
    const struct brokers_options brokers_options = {
        .tls = client->tls,
        .tls_name = client->tls_name,
        .loop = client->loop,
        .resolver = client->resolver,
        .servers = options->servers,
        .is_servers_only = options->servers_only != 0,
        .calls_max = options->calls_max,
        .on_learned = on_learned,
        .ctx = client,
    };
    int err = brokers_open(&brokers_options, &client->brokers, fault);

    if (err != 0) {
        close_brokers(client);
        return err;
    }
    err = mailbox_open(client->loop, options->calls_max, client_call_arrive, client,
                       &client->mailbox);
    if (err != 0) {
        goto fail_after_brokers;
    }
    err = loop_waker_open(client->loop, on_stop, client, &client->stopper);
    if (err != 0) {
        goto fail_after_mailbox;
    }
    err = start_thread(client);
    if (err != 0) {
        goto fail_after_stopper;
    }
    return 0;

fail_after_stopper:
    loop_waker_close(client->stopper);
fail_after_mailbox:
    mailbox_close(client->mailbox);
fail_after_brokers:
    close_brokers(client);
    fault_set_err(fault, err == ERR_FULL ? ERR_NO_MEMORY : err,
                  "cannot open the client: no thread, descriptor or memory for it");
    return err;
}

int foliot_client_open(const struct foliot_options *options, struct foliot_client **out,
                       struct foliot_error *error)
{
    const struct fault none = {.status = RPC_OK};
    struct foliot_client *client;
    struct foliot_options taken;
    struct fault fault;
    int err;

    if (out == NULL) {
        return error_refuse(error, "RESULT_MISSING", "out", "out: is NULL");
    }
    if (take_options(options, &taken, &fault) != 0) {
        return error_fill(error, &fault);
    }
    client = mem_new(1, sizeof(*client));
    err = client == NULL ? ERR_NO_MEMORY : open_loop(client);
    if (err != 0) {
        mem_free(client);
        fault_set_err(&fault, err == ERR_IO ? ERR_NO_MEMORY : err,
                      "cannot open the client: no descriptor or memory for its loop");
        return error_fill(error, &fault);
    }
    client->timeout_ms = taken.timeout_ms;
    client->try_timeout_ms = taken.try_timeout_ms;
    client->is_impatient = taken.impatient != 0;
    client->calls_max = taken.calls_max;
    list_init(&client->calls);
    prng_init_named(&client->prng, entropy_u64(), "client");
    if (open_tls(client, &taken, &fault) != 0 || open_parts(client, &taken, &fault) != 0) {
        close_loop(client);
        mem_free(client);
        return error_fill(error, &fault);
    }
    *out = client;
    return error_fill(error, &none);
}

/* ---- stopping and closing ---- */

void foliot_client_stop(struct foliot_client *client)
{
    if (client != NULL) {
        atomic_store(&client->is_stopped, true);
        loop_waker_wake(client->stopper);
    }
}

int foliot_client_close(struct foliot_client *client)
{
    if (client == NULL) {
        return FOLIOT_OK;
    }
    if (pthread_equal(pthread_self(), client->thread)) {
        return FOLIOT_FAILED_PRECONDITION;
    }
    atomic_store(&client->is_closing, true);
    foliot_client_stop(client);
    (void)pthread_join(client->thread, NULL);
    mailbox_close(client->mailbox); // Calls that came too late end here.
    loop_waker_close(client->stopper);
    close_loop(client);
    mem_free(client);
    return FOLIOT_OK;
}

void foliot_client_get_stats(struct foliot_client *client, struct foliot_client_stats *out)
{
    memset(out, 0, sizeof(*out));
    out->calls = atomic_load(&client->begun_count);
    out->tries = atomic_load(&client->try_count);
    out->direct = atomic_load(&client->direct_count);
    out->refreshes = atomic_load(&client->learned_count);
    out->brokers = atomic_load(&client->member_count);
    out->calls_waiting = atomic_load(&client->call_count);
}
