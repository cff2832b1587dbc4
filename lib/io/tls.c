/* SPDX-License-Identifier: Apache-2.0
 *
 * Files into a context of the library, with words for everything that can be wrong with them.
 */
#define _GNU_SOURCE /* strerrordesc_np */

#include "lib/io/tls.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/tls_parts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <sys/stat.h>
#include <unistd.h>

/* TLS 1.2: key exchange with forward secrecy, authenticated ciphers. 1.3 has no others. */
#define TLS_CIPHERS "ECDHE+AESGCM:ECDHE+CHACHA20"

#define NS_PER_S 1000000000

static int complain(char *why, const char *format, ...) PRINTF_LIKE(2, 3);

static int complain(char *why, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    (void)vsnprintf(why, TLS_WHY_BYTES, format, args);
    va_end(args);
    return ERR_INVALID;
}

/* The library's reason for what just failed, and an empty list of reasons after it. */
static const char *take_reason(void)
{
    const char *reason = ERR_reason_error_string(ERR_peek_error());

    ERR_clear_error();
    return reason == NULL ? "unknown format" : reason;
}

/* ---- files ---- */

static struct tls_stamp stamp_of(const char *path)
{
    struct stat status;

    if (path == NULL || stat(path, &status) != 0) {
        return (struct tls_stamp){.size = -1};
    }
    return (struct tls_stamp){
        .device = status.st_dev,
        .number = status.st_ino,
        .size = status.st_size,
        .changed_ns = (int64_t)status.st_mtim.tv_sec * NS_PER_S + status.st_mtim.tv_nsec,
    };
}

static bool is_same(const struct tls_stamp *a, const struct tls_stamp *b)
{
    return a->device == b->device && a->number == b->number && a->size == b->size &&
           a->changed_ns == b->changed_ns;
}

bool tls_has_changed(const struct tls *tls)
{
    for (size_t i = 0; i < TLS_FILE_COUNT; i++) {
        struct tls_stamp now = stamp_of(tls->paths[i]);

        if (!is_same(&now, &tls->stamps[i])) {
            return true;
        }
    }
    return false;
}

/* Can the file be opened at all? The library would not say why not. */
static int check_readable(const char *what, const char *path, char *why)
{
    FILE *file = fopen(path, "re");
    struct stat status;
    int number = errno;
    bool is_plain;

    if (file == NULL) {
        return complain(why, "the %s file \"%s\" cannot be read: %s", what, path,
                        strerrordesc_np(number));
    }
    is_plain = fstat(fileno(file), &status) == 0 && !S_ISDIR(status.st_mode);
    (void)fclose(file);
    return is_plain ? 0 : complain(why, "the %s file \"%s\" is a folder", what, path);
}

/* A key with a pass phrase must not make the library ask for it on the terminal. */
static int refuse_phrase(char *space, int len, int for_writing, void *ctx)
{
    bool *was_asked = ctx;

    (void)for_writing;
    if (len > 0) {
        space[0] = '\0';
    }
    *was_asked = true;
    return -1;
}

/* A moment of a certificate as text. */
static void format_time(const ASN1_TIME *time, char *text, size_t size)
{
    BIO *memory = BIO_new(BIO_s_mem());
    int len = 0;

    if (memory != NULL && ASN1_TIME_print(memory, time) == 1) {
        len = BIO_read(memory, text, (int)size - 1);
    }
    text[len > 0 ? len : 0] = '\0';
    BIO_free(memory);
}

/* Seconds since 1970 of a moment of a certificate. */
static int64_t seconds_of(const ASN1_TIME *time)
{
    ASN1_TIME *epoch = ASN1_TIME_set(NULL, 0);
    int days = 0;
    int seconds = 0;
    int64_t result = INT64_MAX;

    if (epoch != NULL && ASN1_TIME_diff(&days, &seconds, epoch, time) == 1) {
        result = (int64_t)days * 86400 + seconds;
    }
    ASN1_STRING_free(epoch);
    return result;
}

static int check_dates(const X509 *cert, const char *path, char *why)
{
    const ASN1_TIME *from = X509_get0_notBefore(cert);
    const ASN1_TIME *until = X509_get0_notAfter(cert);
    char text[64];

    if (X509_cmp_current_time(until) < 0) {
        format_time(until, text, sizeof(text));
        return complain(why, "the certificate in \"%s\" expired at %s: get a new one", path, text);
    }
    if (X509_cmp_current_time(from) > 0) {
        format_time(from, text, sizeof(text));
        return complain(why,
                        "the certificate in \"%s\" is valid from %s on, which is in the future: "
                        "look at this machine's clock",
                        path, text);
    }
    return 0;
}

static int load_cert(const struct tls *tls, SSL_CTX *context, char *why)
{
    const char *path = tls->paths[TLS_FILE_CERT];
    int err = check_readable("certificate", path, why);

    if (err != 0) {
        return err;
    }
    if (SSL_CTX_use_certificate_chain_file(context, path) != 1) {
        return complain(why, "the certificate file \"%s\" holds no usable PEM certificate: %s",
                        path, take_reason());
    }
    return check_dates(SSL_CTX_get0_certificate(context), path, why);
}

static int load_key(const struct tls *tls, SSL_CTX *context, char *why)
{
    const char *path = tls->paths[TLS_FILE_KEY];
    bool was_asked = false;
    int result;
    int err = check_readable("key", path, why);

    if (err != 0) {
        return err;
    }
    SSL_CTX_set_default_passwd_cb(context, refuse_phrase);
    SSL_CTX_set_default_passwd_cb_userdata(context, &was_asked);
    result = SSL_CTX_use_PrivateKey_file(context, path, SSL_FILETYPE_PEM);
    SSL_CTX_set_default_passwd_cb_userdata(context, NULL);
    if (was_asked) {
        ERR_clear_error();
        return complain(why, "the key in \"%s\" has a pass phrase: give one without", path);
    }
    if (result != 1 && ERR_GET_REASON(ERR_peek_error()) != X509_R_KEY_VALUES_MISMATCH &&
        ERR_GET_REASON(ERR_peek_error()) != X509_R_KEY_TYPE_MISMATCH) {
        return complain(why, "the key file \"%s\" holds no usable PEM key: %s", path,
                        take_reason());
    }
    if (result != 1 || SSL_CTX_check_private_key(context) != 1) {
        ERR_clear_error();
        return complain(why, "the key in \"%s\" does not belong to the certificate in \"%s\"", path,
                        tls->paths[TLS_FILE_CERT]);
    }
    return 0;
}

static int load_trust(const struct tls *tls, SSL_CTX *context, char *why)
{
    const char *path = tls->paths[TLS_FILE_CA];
    int err;

    if (path == NULL) {
        return tls->is_server || SSL_CTX_set_default_verify_paths(context) == 1
                   ? 0
                   : complain(why, "the system's list of authorities cannot be read: %s",
                              take_reason());
    }
    err = check_readable("authorities", path, why);
    if (err != 0) {
        return err;
    }
    if (SSL_CTX_load_verify_locations(context, path, NULL) != 1) {
        return complain(why, "the authorities file \"%s\" holds no usable PEM certificates: %s",
                        path, take_reason());
    }
    if (tls->is_server) { // Clients are told whose certificates are taken.
        SSL_CTX_set_client_CA_list(context, SSL_load_client_CA_file(path));
        ERR_clear_error();
    }
    return 0;
}

/* ---- contexts ---- */

/* Take HTTP/2 if it is offered; a client that offers only others is turned away. */
// NOLINTNEXTLINE(readability-function-size): the library gives the parameters
static int on_alpn(SSL *ssl, const unsigned char **out, unsigned char *out_len,
                   const unsigned char *offered, unsigned offered_len, void *ctx)
{
    unsigned char *chosen = NULL;
    int result = SSL_select_next_proto(&chosen, out_len, tls_alpn_wire, sizeof(tls_alpn_wire),
                                       offered, offered_len);

    (void)ssl;
    (void)ctx;
    *out = chosen;
    return result == OPENSSL_NPN_NEGOTIATED ? SSL_TLSEXT_ERR_OK : SSL_TLSEXT_ERR_ALERT_FATAL;
}

static int verify_mode(const struct tls *tls)
{
    if (!tls->is_server) {
        return SSL_VERIFY_PEER;
    }
    switch (tls->clients) {
    case TLS_CLIENTS_ANY:
        return SSL_VERIFY_NONE;
    case TLS_CLIENTS_CHECKED:
        return SSL_VERIFY_PEER;
    case TLS_CLIENTS_KNOWN:
        return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
    }
    return SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT;
}

static SSL_CTX *new_context(const struct tls *tls)
{
    SSL_CTX *context = SSL_CTX_new(tls->is_server ? TLS_server_method() : TLS_client_method());

    if (context == NULL) {
        return NULL;
    }
    if (SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION) != 1 ||
        SSL_CTX_set_cipher_list(context, TLS_CIPHERS) != 1 ||
        SSL_CTX_set_num_tickets(context, 0) != 1) {
        SSL_CTX_free(context);
        return NULL;
    }
    // An end without goodbye loses nothing: HTTP/2 knows where a message ends.
    SSL_CTX_set_options(context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION |
                                     SSL_OP_NO_TICKET | SSL_OP_IGNORE_UNEXPECTED_EOF);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                  SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(context, 1);
    SSL_CTX_set_verify(context, verify_mode(tls), NULL);
    if (tls->is_server) {
        SSL_CTX_set_alpn_select_cb(context, on_alpn, NULL);
    }
    return context;
}

/* Fill a new context from the files. */
static int load(const struct tls *tls, SSL_CTX *context, char *why)
{
    int err = 0;

    if (tls->paths[TLS_FILE_CERT] != NULL) {
        err = load_cert(tls, context, why);
        if (err == 0) {
            err = load_key(tls, context, why);
        }
    }
    return err != 0 ? err : load_trust(tls, context, why);
}

int tls_reload(struct tls *tls, char *why)
{
    SSL_CTX *context = new_context(tls);
    int err;

    if (context == NULL) {
        ERR_clear_error();
        (void)complain(why, "no memory for TLS");
        return ERR_NO_MEMORY;
    }
    for (size_t i = 0; i < TLS_FILE_COUNT; i++) { // Before the reading: later changes are noticed.
        tls->stamps[i] = stamp_of(tls->paths[i]);
    }
    err = load(tls, context, why);
    if (err != 0) {
        SSL_CTX_free(context);
        return err;
    }
    SSL_CTX_free(tls->context);
    tls->context = context;
    tls->expires_s = tls->paths[TLS_FILE_CERT] == NULL
                         ? INT64_MAX
                         : seconds_of(X509_get0_notAfter(SSL_CTX_get0_certificate(context)));
    return 0;
}

/* ---- life ---- */

static const char *text_of(const char *option)
{
    return option == NULL ? "" : option;
}

static int check_options(const struct tls_options *options, char *why)
{
    bool has_cert = *text_of(options->cert_file) != '\0';
    bool has_key = *text_of(options->key_file) != '\0';

    if (has_cert != has_key) {
        return complain(why, "a certificate and its key are given together: the %s is missing",
                        has_cert ? "key" : "certificate");
    }
    if (options->is_server && !has_cert) {
        return complain(why, "a server needs a certificate and its key");
    }
    if (options->is_server && options->clients != TLS_CLIENTS_ANY &&
        *text_of(options->ca_file) == '\0') {
        return complain(why, "to check the certificates of clients, a file of authorities is "
                             "needed");
    }
    return 0;
}

static int copy_paths(struct tls *tls, const struct tls_options *options)
{
    const char *const paths[TLS_FILE_COUNT] = {
        [TLS_FILE_CERT] = text_of(options->cert_file),
        [TLS_FILE_KEY] = text_of(options->key_file),
        [TLS_FILE_CA] = text_of(options->ca_file),
    };

    for (size_t i = 0; i < TLS_FILE_COUNT; i++) {
        if (paths[i][0] != '\0') {
            tls->paths[i] = mem_copy(paths[i], strlen(paths[i]));
            if (tls->paths[i] == NULL) {
                return ERR_NO_MEMORY;
            }
        }
    }
    return 0;
}

int tls_open(const struct tls_options *options, struct tls **out, char *why)
{
    struct tls *tls;
    int err = check_options(options, why);

    if (err != 0) {
        return err;
    }
    tls = mem_new(1, sizeof(*tls));
    if (tls == NULL) {
        (void)complain(why, "no memory for TLS");
        return ERR_NO_MEMORY;
    }
    tls->is_server = options->is_server;
    tls->clients = options->clients;
    err = copy_paths(tls, options);
    if (err == 0) {
        err = tls_reload(tls, why);
    }
    if (err != 0) {
        tls_close(tls);
        return err;
    }
    *out = tls;
    return 0;
}

void tls_close(struct tls *tls)
{
    SSL_CTX_free(tls->context);
    for (size_t i = 0; i < TLS_FILE_COUNT; i++) {
        mem_free(tls->paths[i]);
    }
    mem_free(tls);
}

int64_t tls_expires_s(const struct tls *tls)
{
    return tls->expires_s;
}

const char *tls_library_version(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
