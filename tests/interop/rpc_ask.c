/* SPDX-License-Identifier: Apache-2.0
 *
 * Our client, for other implementations' servers: sends calls and prints how each ended.
 *
 *   rpc_ask TARGET PATH PAYLOAD [name=value …]
 *
 * Names: count, deadline_ms, response_bytes_max, repeat (rounds, one after the other),
 * keepalive_ms; and tls=1, tls_ca, tls_cert, tls_key, tls_host as texts.
 * "@N" as payload is N bytes of "x". Sends metadata x-text and x-raw-bin.
 */
#include "lib/base/mem.h"
#include "lib/io/loop.h"
#include "lib/io/resolve.h"
#include "lib/io/tls.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_client.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ask {
    struct rpc_request request;
    struct asker *asker;
    int number;
};

struct asker {
    struct loop *loop;
    struct rpc_channel *channel;
    struct ask *asks;
    const char *path;
    struct slice payload;
    int64_t count;
    int64_t repeat;
    int64_t deadline_ms;
    int64_t left;
    struct rpc_channel_options options;
    bool uses_tls;
    struct tls_options tls;
};

static void start_round(struct asker *asker);

static void on_closed(void *ctx)
{
    struct asker *asker = ctx;

    loop_stop(asker->loop);
}

static void print_escaped(const char *name, struct slice text)
{
    (void)printf(" %s=", name);
    for (size_t i = 0; i < text.len && i < 200; i++) {
        uint8_t byte = text.data[i];

        if (byte > 0x20 && byte < 0x7f && byte != '\\') {
            (void)putchar(byte);
        } else {
            (void)printf("\\x%02x", byte);
        }
    }
}

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct ask *ask = ctx;
    struct asker *asker = ask->asker;

    (void)request;
    (void)printf("call=%d status=%d unprocessed=%d was_sent=%d from_peer=%d len=%zu", ask->number,
                 (int)reply->status, reply->unprocessed, reply->was_sent, reply->from_peer,
                 reply->payload.len);
    if (reply->has_pushback) {
        (void)printf(" pushback=%" PRId64, reply->pushback_ms);
    }
    print_escaped("message", reply->message);
    print_escaped("details", reply->details);
    print_escaped("payload", reply->payload);
    (void)putchar('\n');
    (void)fflush(stdout);
    if (--asker->left > 0) {
        return;
    }
    if (--asker->repeat > 0) {
        start_round(asker);
    } else {
        rpc_channel_close(asker->channel, on_closed, asker);
    }
}

static void start_round(struct asker *asker)
{
    static const struct rpc_metadata metadata[] = {
        {"x-text", {(const uint8_t *)"some text", 9}},
        {"x-raw-bin", {(const uint8_t *)"\0\1\377", 3}},
    };

    asker->left = asker->count;
    for (int64_t i = 0; i < asker->count; i++) {
        struct ask *ask = &asker->asks[i];
        int err;

        *ask = (struct ask){.asker = asker, .number = (int)i};
        ask->request.path = asker->path;
        ask->request.payload = asker->payload;
        ask->request.metadata = metadata;
        ask->request.metadata_count = ARRAY_COUNT(metadata);
        ask->request.deadline_us = loop_now_us(asker->loop) + asker->deadline_ms * US_PER_MS;
        ask->request.cb = on_reply;
        ask->request.ctx = ask;
        err = rpc_channel_call(asker->channel, &ask->request);
        if (err != 0) {
            (void)printf("call=%d refused=%s\n", (int)i, err_name(err));
            (void)fflush(stdout);
            _exit(EXIT_FAILURE);
        }
    }
}

/* Set a text option. */
static bool set_text(struct asker *asker, const char *text)
{
    const struct {
        const char *name;
        const char **value;
    } known[] = {
        {"tls_ca=", &asker->tls.ca_file},
        {"tls_cert=", &asker->tls.cert_file},
        {"tls_key=", &asker->tls.key_file},
        {"tls_host=", &asker->options.tls_host},
    };

    for (size_t i = 0; i < ARRAY_COUNT(known); i++) {
        if (strncmp(text, known[i].name, strlen(known[i].name)) == 0) {
            *known[i].value = text + strlen(known[i].name);
            asker->uses_tls = true;
            return true;
        }
    }
    return false;
}

static bool set_option(struct asker *asker, const char *text)
{
    const char *equals = strchr(text, '=');
    int64_t value;

    if (set_text(asker, text)) {
        return true;
    }

    if (equals == NULL || grpc_number_parse(slice_of(equals + 1), &value) != 0) {
        return false;
    }
    if (strncmp(text, "count=", 6) == 0) {
        asker->count = value;
    } else if (strncmp(text, "repeat=", 7) == 0) {
        asker->repeat = value;
    } else if (strncmp(text, "deadline_ms=", 12) == 0) {
        asker->deadline_ms = value;
    } else if (strncmp(text, "tls=", 4) == 0) {
        asker->uses_tls = true;
    } else if (strncmp(text, "response_bytes_max=", 19) == 0) {
        asker->options.response_bytes_max = (size_t)value;
    } else if (strncmp(text, "keepalive_ms=", 13) == 0) {
        asker->options.keepalive_ms = value;
        asker->options.keepalive_timeout_ms = value;
    } else {
        return false;
    }
    return true;
}

/* "@N" stands for N bytes. */
static char *expand_payload(const char *text, struct slice *out)
{
    int64_t len;
    char *bytes;

    if (text[0] != '@' || grpc_number_parse(slice_of(text + 1), &len) != 0 || len < 0) {
        *out = slice_of(text);
        return NULL;
    }
    bytes = mem_new((size_t)len + 1, 1);
    if (bytes == NULL) {
        (void)fflush(stdout);
        _exit(EXIT_FAILURE);
    }
    memset(bytes, 'x', (size_t)len);
    *out = (struct slice){(uint8_t *)bytes, (size_t)len};
    return bytes;
}

static int run(struct asker *asker)
{
    struct resolver_options resolver_options;
    struct resolver *resolver = NULL;
    struct tls *tls = NULL;
    char why[TLS_WHY_BYTES];

    if (asker->uses_tls && tls_open(&asker->tls, &tls, why) != 0) {
        (void)fprintf(stderr, "rpc_ask: %s\n", why);
        return EXIT_FAILURE;
    }
    asker->options.tls = tls;
    resolver_options_init(&resolver_options);
    asker->asks = mem_new((size_t)asker->count, sizeof(*asker->asks));
    if (asker->asks == NULL || loop_open(&asker->loop) != 0 ||
        resolver_open(asker->loop, &resolver_options, &resolver) != 0) {
        return EXIT_FAILURE;
    }
    asker->options.resolver = resolver;
    if (rpc_channel_open(asker->loop, &asker->options, &asker->channel) != 0) {
        (void)fprintf(stderr, "rpc_ask: what target is \"%s\"?\n", asker->options.target);
        return EXIT_FAILURE;
    }
    start_round(asker);
    loop_run(asker->loop);
    resolver_close(resolver);
    loop_close(asker->loop);
    mem_free(asker->asks);
    if (tls != NULL) {
        tls_close(tls);
    }
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    struct asker asker = {.count = 1, .repeat = 1, .deadline_ms = 5000};
    char *expanded;
    int status;

    if (argc < 4) {
        (void)fprintf(stderr, "usage: rpc_ask TARGET PATH PAYLOAD [name=value …]\n");
        return EXIT_FAILURE;
    }
    rpc_channel_options_init(&asker.options);
    asker.options.target = argv[1];
    asker.options.backoff_first_ms = 100;
    asker.path = argv[2];
    for (int i = 4; i < argc; i++) {
        if (!set_option(&asker, argv[i])) {
            (void)fprintf(stderr, "rpc_ask: what is \"%s\"?\n", argv[i]);
            return EXIT_FAILURE;
        }
    }
    expanded = expand_payload(argv[3], &asker.payload);
    status = run(&asker);
    mem_free(expanded);
    if (status == EXIT_SUCCESS && mem_block_count() != 0) {
        (void)printf("blocks %" PRId64 "\n", mem_block_count());
        return EXIT_FAILURE;
    }
    return status;
}
