/* SPDX-License-Identifier: Apache-2.0
 *
 * Cost of a unary call: our client in this process, our server in a child, closed loop over
 * loopback. Prints calls per second, processor time per call on both sides, and round trips.
 *
 *   bench_rpc [calls for each row]
 *
 * The server alone under h2load: tests/bench/h2load_rpc.py.
 */
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/io/clock.h"
#include "lib/io/loop.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_client.h"
#include "lib/rpc/rpc_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define CALL_COUNT_DEFAULT 200000
#define PAYLOAD_BYTES_MAX  65536U

struct row {
    unsigned outstanding;
    size_t payload_bytes;
};

struct bench {
    struct loop *loop;
    struct rpc_channel *channel;
    struct slice payload;
    int64_t to_start;
    int64_t left;
    int64_t failed;
    int64_t total_us; /* sum of all round trips */
    int64_t worst_us;
};

struct slot {
    struct rpc_request request;
    struct bench *bench;
    boot_us started_us;
};

static _Noreturn void fail(const char *what)
{
    (void)fprintf(stderr, "bench_rpc: cannot %s\n", what);
    _exit(EXIT_FAILURE);
}

/* ---- the server's process ---- */

static void on_echo(struct rpc_call *call, struct slice request, void *ctx)
{
    (void)ctx;
    rpc_call_reply(call, request);
}

static _Noreturn void serve(int out)
{
    static const struct rpc_method method = {.path = "/foliot.test.Peer/Echo", .handler = on_echo};
    struct rpc_server_options options;
    struct rpc_server *server;
    struct loop *loop;
    uint16_t port;

    rpc_server_options_init(&options);
    if (loop_open(&loop) != 0 || rpc_server_open(loop, &options, &server) != 0 ||
        rpc_server_add(server, &method) != 0) {
        fail("serve");
    }
    port = rpc_server_port(server);
    if (write(out, &port, sizeof(port)) != sizeof(port)) {
        fail("tell the port");
    }
    loop_run(loop);
    _exit(EXIT_SUCCESS);
}

static pid_t start_server(uint16_t *port_out)
{
    int fds[2];
    pid_t child;

    if (pipe(fds) != 0) {
        fail("make a pipe");
    }
    child = fork();
    if (child == 0) {
        serve(fds[1]);
    }
    if (child < 0 || read(fds[0], port_out, sizeof(*port_out)) != sizeof(*port_out)) {
        fail("start the server");
    }
    (void)close(fds[0]);
    (void)close(fds[1]);
    return child;
}

/* Processor microseconds of another process so far, in steps of the kernel's tick. */
static int64_t process_cpu_us(pid_t pid)
{
    char path[64];
    char text[1024];
    const char *rest;
    size_t len;
    int64_t ticks = 0;
    FILE *file;

    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    file = fopen(path, "r");
    if (file == NULL) {
        fail("read the server's times");
    }
    len = fread(text, 1, sizeof(text) - 1, file);
    (void)fclose(file);
    text[len] = '\0';
    rest = strrchr(text, ')');
    for (int field = 2; rest != NULL && field < 15; field++) { // Fields 14 and 15 of proc(5).
        rest = strchr(rest + 1, ' ');
        if (rest != NULL && field >= 13) {
            ticks += strtoll(rest + 1, NULL, 10);
        }
    }
    return ticks * US_PER_S / sysconf(_SC_CLK_TCK);
}

static int64_t own_cpu_us(void)
{
    struct rusage usage;

    (void)getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * US_PER_S + usage.ru_utime.tv_usec +
           usage.ru_stime.tv_usec;
}

/* ---- the client ---- */

static void start(struct slot *slot);

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct slot *slot = ctx;
    struct bench *bench = slot->bench;
    int64_t took_us = clock_boot_us() - slot->started_us;

    (void)request;
    bench->failed += reply->status != RPC_OK || reply->payload.len != bench->payload.len;
    bench->total_us += took_us;
    bench->worst_us = time_max(bench->worst_us, took_us);
    if (--bench->left == 0) {
        loop_stop(bench->loop);
    } else if (bench->to_start > 0) {
        start(slot);
    }
}

static void start(struct slot *slot)
{
    struct bench *bench = slot->bench;

    bench->to_start--;
    slot->started_us = clock_boot_us();
    slot->request = (struct rpc_request){.path = "/foliot.test.Peer/Echo",
                                         .payload = bench->payload,
                                         .deadline_us = slot->started_us + 60 * US_PER_S,
                                         .cb = on_reply,
                                         .ctx = slot};
    if (rpc_channel_call(bench->channel, &slot->request) != 0) {
        fail("start a call");
    }
}

static void run_row(struct bench *bench, const struct row *row, int64_t calls, pid_t server)
{
    struct slot *slots = mem_new(row->outstanding, sizeof(*slots));
    int64_t server_us = process_cpu_us(server);
    int64_t client_us = own_cpu_us();
    boot_us began_us = clock_boot_us();
    int64_t took_us;

    if (slots == NULL) {
        fail("allocate");
    }
    bench->to_start = calls;
    bench->left = calls;
    bench->failed = 0;
    bench->total_us = 0;
    bench->worst_us = 0;
    bench->payload.len = row->payload_bytes;
    for (unsigned i = 0; i < row->outstanding; i++) {
        slots[i].bench = bench;
        start(&slots[i]);
    }
    loop_run(bench->loop);
    took_us = clock_boot_us() - began_us;
    client_us = own_cpu_us() - client_us;
    server_us = process_cpu_us(server) - server_us;
    (void)printf("%11u %8zu %10lld %9.2f %9.2f %9.1f %9.1f %7lld\n", row->outstanding,
                 row->payload_bytes, (long long)(calls * US_PER_S / took_us),
                 (double)server_us / (double)calls, (double)client_us / (double)calls,
                 (double)bench->total_us / (double)calls, (double)bench->worst_us,
                 (long long)bench->failed);
    mem_free(slots);
}

static void on_closed(void *ctx)
{
    loop_stop(ctx);
}

static void run_client(uint16_t port, int64_t calls, pid_t server)
{
    static const struct row rows[] = {{1, 0}, {64, 0}, {500, 0}, {64, 1024}, {64, 16384}};
    static uint8_t payload[PAYLOAD_BYTES_MAX];
    struct bench bench = {.payload = {payload, 0}};
    struct rpc_channel_options options;
    char target[32];

    (void)snprintf(target, sizeof(target), "127.0.0.1:%u", port);
    rpc_channel_options_init(&options);
    options.target = target;
    if (loop_open(&bench.loop) != 0 ||
        rpc_channel_open(bench.loop, &options, &bench.channel) != 0) {
        fail("open a channel");
    }
    (void)printf(
        "outstanding  payload    calls/s server us client us   mean us  worst us  failed\n");
    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        run_row(&bench, &rows[i], rows[i].outstanding == 1 ? calls / 10 : calls, server);
    }
    rpc_channel_close(bench.channel, on_closed, bench.loop);
    loop_run(bench.loop);
    loop_close(bench.loop);
}

int main(int argc, char **argv)
{
    int64_t calls = CALL_COUNT_DEFAULT;
    uint16_t port;
    pid_t server;

    if (argc > 1 && (grpc_number_parse(slice_of(argv[1]), &calls) != 0 || calls < 1000)) {
        fail("do fewer than 1000 calls");
    }
    server = start_server(&port);
    run_client(port, calls, server);
    (void)kill(server, SIGTERM);
    (void)waitpid(server, NULL, 0);
    return EXIT_SUCCESS;
}
