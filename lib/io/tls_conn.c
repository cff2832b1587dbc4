/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS as the transport of a connection: the handshake step by step, whole records in and out, and
 * why it failed in words.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/address.h"
#include "lib/io/loop.h"
#include "lib/io/socket.h"
#include "lib/io/tls_parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <sys/socket.h>

/* Steps of handshakes in one turn of the loop. A step may cost a millisecond: a crowd of new
 * connections must not hold up what is due. */
#define TLS_STEPS_PER_TURN 16U

/* Largest record. A read with less room could leave part of one inside. source: RFC 8446, 5.1 */
#define TLS_RECORD_BYTES 16384U

struct tls_conn {
    SSL *ssl;
    struct tls *tls; /* NULL once shaken: it may be closed before us */
    struct loop *loop;
    char *why;
    bool wants_write; /* of the last CONN_AGAIN */
};

/* ---- the socket ---- */

static int fd_of(BIO *bio)
{
    return (int)(intptr_t)BIO_get_data(bio);
}

static int socket_result(BIO *bio, ssize_t result, int flag)
{
    BIO_clear_retry_flags(bio);
    if (result < 0 && (errno == EAGAIN || errno == EINTR)) {
        BIO_set_flags(bio, flag | BIO_FLAGS_SHOULD_RETRY);
    }
    return (int)result;
}

static int socket_read(BIO *bio, char *space, int len)
{
    ssize_t got = recv(fd_of(bio), space, (size_t)len, 0);

    if (got == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    }
    return socket_result(bio, got, BIO_FLAGS_READ);
}

static int socket_write(BIO *bio, const char *bytes, int len)
{
    return socket_result(bio, send(fd_of(bio), bytes, (size_t)len, MSG_NOSIGNAL), BIO_FLAGS_WRITE);
}

static long socket_control(BIO *bio, int command, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    switch (command) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    default:
        return 0;
    }
}

static BIO_METHOD *new_socket_method(void)
{
    BIO_METHOD *fresh = BIO_meth_new(BIO_TYPE_SOURCE_SINK | BIO_get_new_index(), "foliot");

    if (fresh == NULL || BIO_meth_set_read(fresh, socket_read) != 1 ||
        BIO_meth_set_write(fresh, socket_write) != 1 ||
        BIO_meth_set_ctrl(fresh, socket_control) != 1) {
        BIO_meth_free(fresh);
        return NULL;
    }
    return fresh;
}

/* Made once, for the life of the process, by whichever thread comes first: each client of the
 * library has its own. Where there was no memory, the next one tries again. */
static BIO_METHOD *socket_method(void)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static BIO_METHOD *shared;
    BIO_METHOD *method;

    (void)pthread_mutex_lock(&lock);
    if (shared == NULL) {
        shared = new_socket_method();
    }
    method = shared;
    (void)pthread_mutex_unlock(&lock);
    return method;
}

BIO *tls_socket_new(int fd)
{
    BIO_METHOD *method = socket_method();
    BIO *bio = method == NULL ? NULL : BIO_new(method);

    if (bio != NULL) {
        BIO_set_data(bio, (void *)(intptr_t)fd);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- results ---- */

/* What the peer, or its certificate, did wrong. */
static void explain(const struct tls_conn *conn)
{
    long verdict = SSL_get_verify_result(conn->ssl);
    unsigned long error = ERR_peek_error();
    const char *reason = ERR_reason_error_string(error);

    if (conn->why[0] != '\0') {
        return;
    }
    if (verdict != X509_V_OK) {
        (void)snprintf(conn->why, TLS_WHY_BYTES, "the peer's certificate is refused: %s",
                       X509_verify_cert_error_string(verdict));
    } else if (error == 0) {
        (void)snprintf(conn->why, TLS_WHY_BYTES, "the connection ended in the TLS handshake");
    } else if (ERR_GET_REASON(error) == SSL_R_WRONG_VERSION_NUMBER ||
               ERR_GET_REASON(error) == SSL_R_HTTP_REQUEST) {
        (void)snprintf(conn->why, TLS_WHY_BYTES, "the peer does not speak TLS here");
    } else {
        (void)snprintf(conn->why, TLS_WHY_BYTES, "TLS failed: %s",
                       reason == NULL ? "no reason given" : reason);
    }
}

/* Our code for a result of the library that is no success. */
static int64_t code_of(struct tls_conn *conn, int result)
{
    int number = errno;

    switch (SSL_get_error(conn->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        conn->wants_write = false;
        return CONN_AGAIN;
    case SSL_ERROR_WANT_WRITE:
        conn->wants_write = true;
        return CONN_AGAIN;
    case SSL_ERROR_ZERO_RETURN:
        return 0;
    case SSL_ERROR_SYSCALL:
        return number == 0 || number == ECONNRESET || number == EPIPE ? ERR_CLOSED
                                                                      : socket_error(number);
    default:
        return ERR_PROTOCOL;
    }
}

/* ---- the transport ---- */

/* Is there still time for a step in this turn? Those that wait are asked again in the next. */
static bool may_step(struct tls_conn *conn)
{
    struct tls *tls = conn->tls;
    uint64_t turn = loop_turn_count(conn->loop);

    if (tls->turn != turn) {
        tls->turn = turn;
        tls->step_count = 0;
    }
    return tls->step_count++ < TLS_STEPS_PER_TURN;
}

static bool has_chosen_h2(const struct tls_conn *conn)
{
    const unsigned char *name = NULL;
    unsigned len = 0;

    SSL_get0_alpn_selected(conn->ssl, &name, &len);
    return len == tls_alpn_wire[0] && memcmp(name, &tls_alpn_wire[1], len) == 0;
}

static int tls_shake(void *state)
{
    struct tls_conn *conn = state;
    int64_t code;
    int result;

    if (!SSL_in_before(conn->ssl) && !may_step(conn)) {
        conn->wants_write = false;
        return CONN_AGAIN;
    }
    ERR_clear_error();
    result = SSL_do_handshake(conn->ssl);
    if (result != 1) {
        code = code_of(conn, result);
        if (code != CONN_AGAIN) {
            explain(conn);
            ERR_clear_error();
        }
        return code == 0 ? ERR_CLOSED : (int)code;
    }
    if (!has_chosen_h2(conn)) {
        (void)snprintf(conn->why, TLS_WHY_BYTES, "the peer does not choose HTTP/2 (ALPN \"h2\")");
        return ERR_PROTOCOL;
    }
    conn->wants_write = false;
    conn->tls = NULL;
    return 0;
}

static int64_t tls_read(void *state, uint8_t *space, size_t len)
{
    struct tls_conn *conn = state;
    size_t filled = 0;

    conn->wants_write = false;
    while (len - filled >= TLS_RECORD_BYTES) {
        int64_t code;
        int got;

        ERR_clear_error();
        got = SSL_read(conn->ssl, space + filled, (int)(len - filled));
        if (got <= 0) {
            code = code_of(conn, got);
            if (code < 0 && code != CONN_AGAIN) { // In TLS 1.3 a refusal comes after the handshake.
                explain(conn);
            }
            ERR_clear_error();
            return filled > 0 ? (int64_t)filled : code;
        }
        filled += (size_t)got;
    }
    return (int64_t)filled;
}

static int64_t tls_write(void *state, const uint8_t *bytes, size_t len)
{
    struct tls_conn *conn = state;
    size_t written = 0;

    conn->wants_write = false;
    while (written < len) {
        int64_t code;
        int taken;

        ERR_clear_error();
        taken = SSL_write(conn->ssl, bytes + written, (int)(len - written));
        if (taken <= 0) {
            code = code_of(conn, taken);
            ERR_clear_error();
            if (code == 0) {
                code = ERR_CLOSED;
            }
            return written > 0 && code == CONN_AGAIN ? (int64_t)written : code;
        }
        written += (size_t)taken;
    }
    return (int64_t)written;
}

static bool tls_wants_write(const void *state)
{
    const struct tls_conn *conn = state;

    return conn->wants_write;
}

static bool tls_has_pending(const void *state)
{
    const struct tls_conn *conn = state;

    return SSL_has_pending(conn->ssl) == 1;
}

static void tls_part(void *state)
{
    struct tls_conn *conn = state;

    ERR_clear_error();
    (void)SSL_shutdown(conn->ssl);
    ERR_clear_error();
}

static void tls_free(void *state)
{
    struct tls_conn *conn = state;

    SSL_free(conn->ssl);
    mem_free(conn);
}

static const struct conn_transport tls_transport = {
    .read = tls_read,
    .write = tls_write,
    .free = tls_free,
    .shake = tls_shake,
    .wants_write = tls_wants_write,
    .has_pending = tls_has_pending,
    .part = tls_part,
};

/* ---- life ---- */

/* What a client asks of the server's certificate. */
static bool set_host(SSL *ssl, const char *host)
{
    X509_VERIFY_PARAM *check = SSL_get0_param(ssl);
    struct address address;

    if (address_parse(host, 1, &address) == 0) {
        return X509_VERIFY_PARAM_set1_ip_asc(check, host) == 1;
    }
    X509_VERIFY_PARAM_set_hostflags(check, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(check, host, 0) == 1 &&
           SSL_ctrl(ssl, SSL_CTRL_SET_TLSEXT_HOSTNAME, TLSEXT_NAMETYPE_host_name,
                    (void *)(uintptr_t)host) == 1;
}

static SSL *new_ssl(const struct tls *tls, const struct tls_conn_options *options)
{
    SSL *ssl = SSL_new(tls->context);
    BIO *bio = tls_socket_new(options->fd);

    if (ssl == NULL || bio == NULL) {
        SSL_free(ssl);
        BIO_free(bio);
        return NULL;
    }
    SSL_set_bio(ssl, bio, bio);
    if (tls->is_server) {
        SSL_set_accept_state(ssl);
        return ssl;
    }
    SSL_set_connect_state(ssl);
    // Of this one function 0 means success.
    if (SSL_set_alpn_protos(ssl, tls_alpn_wire, sizeof(tls_alpn_wire)) != 0 ||
        !set_host(ssl, options->host)) {
        SSL_free(ssl);
        return NULL;
    }
    return ssl;
}

int tls_wrap(struct tls *tls, const struct tls_conn_options *options, struct conn_options *out)
{
    struct tls_conn *conn = mem_new(1, sizeof(*conn));

    if (conn == NULL) {
        return ERR_NO_MEMORY;
    }
    conn->ssl = new_ssl(tls, options);
    ERR_clear_error();
    if (conn->ssl == NULL) {
        mem_free(conn);
        return ERR_NO_MEMORY;
    }
    conn->tls = tls;
    conn->loop = options->loop;
    conn->why = options->why;
    out->transport = &tls_transport;
    out->transport_state = conn;
    return 0;
}
