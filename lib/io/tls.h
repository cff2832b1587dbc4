/* SPDX-License-Identifier: Apache-2.0
 *
 * TLS for connections: keys and certificates from files, read again when they change, and a
 * transport over them. TLS 1.2 and 1.3 with authenticated ciphers, HTTP/2 by ALPN and nothing else;
 * no resumption and no renegotiation. With OpenSSL, which only tls*.c know.
 */
#ifndef FOLIOT_LIB_IO_TLS_H
#define FOLIOT_LIB_IO_TLS_H

#include "lib/base/attr.h"
#include "lib/base/instant.h"
#include "lib/io/conn.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct loop;
struct tls;

/* Room for a reason in words. */
#define TLS_WHY_BYTES 512U

/* Does a server ask its clients for certificates? */
enum tls_clients {
    TLS_CLIENTS_ANY,     /* no */
    TLS_CLIENTS_CHECKED, /* those who show one are checked */
    TLS_CLIENTS_KNOWN    /* who shows none is turned away */
};

/* Texts are copied; NULL or empty: none. */
struct tls_options {
    bool is_server;
    const char *cert_file; /* PEM: our certificate, then those between it and the root */
    const char *key_file;  /* PEM, not encrypted */
    const char *ca_file;   /* PEM: whom we trust; a client without takes the system's list */
    enum tls_clients clients;
};

/*
 * Read the files.
 *
 * shape:  why has TLS_WHY_BYTES; on failure it names the file, what is wrong and what would be
 *         right. A server needs certificate and key, a client both or none; clients that are to be
 *         checked need a ca_file.
 * errors: ERR_INVALID, ERR_NO_MEMORY.
 */
MUST_USE int tls_open(const struct tls_options *options, struct tls **out, char *why);

/* Free. shape: no connection made with it is in its handshake; others may go on. */
void tls_close(struct tls *tls);

/*
 * Read the files again; new connections use what they hold now. On failure all stays as it was.
 *
 * errors: as tls_open.
 */
MUST_USE int tls_reload(struct tls *tls, char *why);

/* Have the files changed since they were last read, well or badly? Looks, does not read. */
bool tls_has_changed(const struct tls *tls);

/* When our certificate expires, in seconds since 1970 UTC; INT64_MAX if we have none. */
int64_t tls_expires_s(const struct tls *tls);

/* One connection. */
struct tls_conn_options {
    struct loop *loop;
    int fd;
    const char *host; /* client: the name or address that the server's certificate must have */
    char *why;        /* TLS_WHY_BYTES, empty at first: why the handshake failed; the owner's, valid
                         until the transport is freed */
};

/*
 * Make a connection's transport and put it into its options.
 *
 * errors: ERR_NO_MEMORY.
 */
MUST_USE int tls_wrap(struct tls *tls, const struct tls_conn_options *conn,
                      struct conn_options *out);

/* Version of the library below, for the start-up log. */
const char *tls_library_version(void);

#endif
