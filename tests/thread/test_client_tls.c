/* SPDX-License-Identifier: Apache-2.0
 *
 * libfoliot over TLS: whom it trusts, who it says that it is, and what it says when that is not
 * enough. Certificates are made by the openssl command.
 */
#include "lib/base/err.h"
#include "lib/io/tls.h"
#include "proto/codec_task.h"
#include "tests/lib/must.h"
#include "tests/lib/played.h"

#include <foliot.h>

#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

#define WORDS_MAX 40
#define PATH_SIZE 128

/* Files of a case, in a folder of its own. */
struct files {
    char folder[64];
    char ca[PATH_SIZE];
    char server_cert[PATH_SIZE];
    char server_key[PATH_SIZE];
    char client_cert[PATH_SIZE];
    char client_key[PATH_SIZE];
};

static void name_file(const struct files *files, char *out, const char *name)
{
    (void)snprintf(out, PATH_SIZE, "%s/%s", files->folder, name);
}

/* Run openssl with words divided by spaces. */
static void openssl(const char *line)
{
    char text[1024];
    char *words[WORDS_MAX];
    size_t count = 0;
    char *rest = text;
    pid_t pid;
    int status;

    (void)snprintf(text, sizeof(text), "openssl %s", line);
    while (rest != NULL && count + 1 < WORDS_MAX) {
        words[count++] = strsep(&rest, " ");
    }
    words[count] = NULL;
    MUST_EQ(posix_spawnp(&pid, words[0], NULL, NULL, words, environ), 0);
    MUST_EQ(waitpid(pid, &status, 0), pid);
    MUST_EQ(status, 0);
}

/* A key, and a certificate for it that the authority signs. */
static void make_cert(const struct files *files, const char *cert, const char *key,
                      const char *names)
{
    char extensions[PATH_SIZE];
    char request[PATH_SIZE];
    char line[1024];
    FILE *file;

    name_file(files, extensions, "extensions");
    name_file(files, request, "request");
    file = fopen(extensions, "w");
    MUST(file != NULL);
    (void)fprintf(file, "subjectAltName=%s\n", names);
    MUST_EQ(fclose(file), 0);
    (void)snprintf(line, sizeof(line),
                   "req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s -out %s "
                   "-subj /CN=test -batch",
                   key, request);
    openssl(line);
    (void)snprintf(line, sizeof(line),
                   "x509 -req -in %s -CA %s -CAkey %s/ca.key -CAcreateserial -out %s -extfile %s "
                   "-days 3",
                   request, files->ca, files->folder, cert, extensions);
    openssl(line);
}

static void make_files(struct files *files, const char *server_names)
{
    char line[1024];
    FILE *gone;

    (void)snprintf(files->folder, sizeof(files->folder), "/tmp/foliot-client-tls-XXXXXX");
    MUST(mkdtemp(files->folder) != NULL);
    name_file(files, files->ca, "ca.pem");
    name_file(files, files->server_cert, "server.pem");
    name_file(files, files->server_key, "server.key");
    name_file(files, files->client_cert, "client.pem");
    name_file(files, files->client_key, "client.key");
    gone = freopen("/dev/null", "w", stderr); // openssl tells its progress there.
    MUST(gone != NULL);
    (void)snprintf(line, sizeof(line),
                   "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout %s/ca.key "
                   "-out %s -days 3 -subj /CN=authority -addext basicConstraints=critical,CA:TRUE",
                   files->folder, files->ca);
    openssl(line);
    make_cert(files, files->server_cert, files->server_key, server_names);
    make_cert(files, files->client_cert, files->client_key, "DNS:client");
}

static void remove_files(const struct files *files)
{
    static const char *const names[] = {"ca.pem",     "ca.key",     "ca.srl",
                                        "server.pem", "server.key", "client.pem",
                                        "client.key", "extensions", "request"};

    for (size_t i = 0; i < ARRAY_COUNT(names); i++) {
        char path[PATH_SIZE];

        name_file(files, path, names[i]);
        (void)unlink(path);
    }
    (void)rmdir(files->folder);
}

/* ---- the broker ---- */

static void on_create(struct rpc_call *call, struct slice request, void *ctx)
{
    const struct create_reply answer = {.id = {.seq = 1}, .created = true};
    struct buf out;

    (void)request;
    (void)ctx;
    buf_init(&out, 4096);
    MUST_OK(codec_write_create_reply(&answer, &out));
    rpc_call_reply(call, buf_slice(&out));
    buf_fini(&out);
}

static struct tls *start_broker(struct played *played, const struct files *files,
                                enum tls_clients clients)
{
    static const struct rpc_method create = {.path = "/foliot.v1.TaskService/Create",
                                             .handler = on_create};
    const struct tls_options options = {.is_server = true,
                                        .cert_file = files->server_cert,
                                        .key_file = files->server_key,
                                        .ca_file = files->ca,
                                        .clients = clients};
    char why[TLS_WHY_BYTES];
    struct tls *tls;

    MUST_OK(tls_open(&options, &tls, why));
    played_start_tls(played, &create, 1, tls);
    return tls;
}

/* What a create comes to with these options; error says more. */
static int create(const struct played *played, struct foliot_options *options,
                  struct foliot_error *error)
{
    struct foliot_create_request request;
    struct foliot_created created;
    struct foliot_client *client;
    int code;

    options->servers = played->address;
    options->servers_only = 1;
    options->impatient = 1;
    MUST_EQ(foliot_client_open(options, &client, error), FOLIOT_OK);
    foliot_create_request_init(&request);
    request.queue = "q";
    code = foliot_task_create(client, &request, NULL, &created, error);
    MUST_EQ(foliot_client_close(client), FOLIOT_OK);
    return code;
}

/* ---- cases ---- */

static void a_broker_is_trusted_by_the_authority_that_was_named(void)
{
    struct foliot_options options;
    struct foliot_error error;
    struct played played;
    struct files files;
    struct tls *tls;

    make_files(&files, "IP:127.0.0.1");
    tls = start_broker(&played, &files, TLS_CLIENTS_ANY);
    foliot_options_init(&options);
    options.tls_ca = files.ca;
    MUST_EQ(create(&played, &options, &error), FOLIOT_OK);
    options.tls_ca = NULL;
    options.tls = 1; // The system's list does not have it.
    MUST_EQ(create(&played, &options, &error), FOLIOT_UNAVAILABLE);
    MUST(strstr(error.message, "certificate") != NULL);
    MUST_EQ(error.may_have_happened, 0);
    options.tls = 0;
    MUST_EQ(create(&played, &options, &error), FOLIOT_UNAVAILABLE);
    played_stop(&played);
    tls_close(tls);
    remove_files(&files);
}

static void a_broker_that_asks_is_shown_our_certificate(void)
{
    struct foliot_options options;
    struct foliot_error error;
    struct played played;
    struct files files;
    struct tls *tls;

    make_files(&files, "IP:127.0.0.1");
    tls = start_broker(&played, &files, TLS_CLIENTS_KNOWN);
    foliot_options_init(&options);
    options.tls_ca = files.ca;
    MUST(create(&played, &options, &error) != FOLIOT_OK);
    MUST_EQ(error.may_have_happened, 0);
    options.tls_cert = files.client_cert;
    options.tls_key = files.client_key;
    MUST_EQ(create(&played, &options, &error), FOLIOT_OK);
    played_stop(&played);
    tls_close(tls);
    remove_files(&files);
}

static void one_name_may_stand_for_all_brokers(void)
{
    struct foliot_options options;
    struct foliot_error error;
    struct played played;
    struct files files;
    struct tls *tls;

    make_files(&files, "DNS:brokers.example");
    tls = start_broker(&played, &files, TLS_CLIENTS_ANY);
    foliot_options_init(&options);
    options.tls_ca = files.ca;
    MUST_EQ(create(&played, &options, &error), FOLIOT_UNAVAILABLE);
    options.tls_name = "brokers.example";
    MUST_EQ(create(&played, &options, &error), FOLIOT_OK);
    played_stop(&played);
    tls_close(tls);
    remove_files(&files);
}

static void a_file_that_cannot_be_used_is_named(void)
{
    struct foliot_options options;
    struct foliot_client *client;
    struct foliot_error error;

    foliot_options_init(&options);
    options.tls_ca = "/nonexistent/ca.pem";
    MUST_EQ(foliot_client_open(&options, &client, &error), FOLIOT_INVALID_ARGUMENT);
    MUST_EQ_TEXT(error.reason, "TLS_INVALID");
    MUST(strstr(error.message, "/nonexistent/ca.pem") != NULL);
    foliot_options_init(&options);
    options.tls_cert = "/nonexistent/cert.pem";
    MUST_EQ(foliot_client_open(&options, &client, &error), FOLIOT_INVALID_ARGUMENT);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(a_broker_is_trusted_by_the_authority_that_was_named),
        MUST_CASE(a_broker_that_asks_is_shown_our_certificate),
        MUST_CASE(one_name_may_stand_for_all_brokers),
        MUST_CASE(a_file_that_cannot_be_used_is_named),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
