/* SPDX-License-Identifier: Apache-2.0
 *
 * Private to tls.c (files and what is made of them) and tls_conn.c (connections).
 */
#ifndef FOLIOT_LIB_IO_TLS_PARTS_H
#define FOLIOT_LIB_IO_TLS_PARTS_H

#include "lib/io/tls.h"

#include <openssl/ssl.h>

/* The files of one struct tls. */
enum tls_file {
    TLS_FILE_CERT,
    TLS_FILE_KEY,
    TLS_FILE_CA,
    TLS_FILE_COUNT
};

/* What a file looked like when it was read. */
struct tls_stamp {
    uint64_t device;
    uint64_t number;
    int64_t size; /* −1: it was not there */
    int64_t changed_ns;
};

struct tls {
    SSL_CTX *context;
    bool is_server;
    enum tls_clients clients;
    char *paths[TLS_FILE_COUNT]; /* NULL: none */
    struct tls_stamp stamps[TLS_FILE_COUNT];
    int64_t expires_s;
    uint64_t turn; /* of the loop in which steps of handshakes were counted last */
    uint32_t step_count;
};

/* Protocol identifiers of ALPN, as they are on the wire: HTTP/2 alone. */
static const unsigned char tls_alpn_wire[] = {2, 'h', '2'};

/* Bytes come and go by these: as those of a socket, but a broken one makes no signal. */
BIO *tls_socket_new(int fd);

#endif
