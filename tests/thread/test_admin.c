/* SPDX-License-Identifier: Apache-2.0
 *
 * The admin port beside a loop that publishes: what is published is shown, whole, and a silent loop
 * is told from a living one.
 */
#include "broker/admin/admin.h"

#include "lib/base/err.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ANSWER_MAX 65536

static boot_us real_clock(void)
{
    struct timespec now;

    MUST_EQ(clock_gettime(CLOCK_BOOTTIME, &now), 0);
    return (boot_us)now.tv_sec * US_PER_S + (boot_us)now.tv_nsec / 1000;
}

static _Atomic boot_us fake_us;

static boot_us fake_clock(void)
{
    return atomic_load(&fake_us);
}

static struct admin *open_admin(boot_us (*clock_us)(void))
{
    const struct admin_options options = {.host = "127.0.0.1", .port = 0, .clock_us = clock_us};
    struct admin *admin = NULL;

    MUST_OK(admin_open(&options, &admin));
    return admin;
}

/* Send a request, read to the end; status code, and the whole answer in `answer`. */
static long ask(const struct admin *admin, const char *method, const char *path, char *answer)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(admin_port(admin))};
    char request[256];
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    size_t len = 0;
    ssize_t count;

    MUST(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    MUST_EQ(connect(fd, (const struct sockaddr *)&address, sizeof(address)), 0);
    (void)snprintf(request, sizeof(request),
                   "%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", method, path);
    MUST_EQ(write(fd, request, strlen(request)), strlen(request));
    while ((count = read(fd, answer + len, ANSWER_MAX - 1 - len)) > 0) {
        len += (size_t)count;
    }
    answer[len] = '\0';
    (void)close(fd);
    MUST(strncmp(answer, "HTTP/1.1 ", 9) == 0);
    return strtol(answer + 9, NULL, 10);
}

static void readiness_follows_what_was_said_last(void)
{
    static char answer[ANSWER_MAX];
    struct admin *admin = open_admin(real_clock);

    MUST_EQ(ask(admin, "GET", "/livez", answer), 200);
    MUST_EQ(ask(admin, "GET", "/startupz", answer), 503);
    MUST_EQ(ask(admin, "GET", "/readyz", answer), 503);
    MUST(strstr(answer, "starting") != NULL);
    admin_set_ready(admin, false, "no ZooKeeper session\n");
    MUST_EQ(ask(admin, "GET", "/startupz", answer), 503);
    MUST(strstr(answer, "no ZooKeeper session") != NULL);
    MUST_EQ(ask(admin, "GET", "/readyz", answer), 503);
    admin_set_ready(admin, true, "");
    MUST_EQ(ask(admin, "GET", "/startupz", answer), 200);
    MUST_EQ(ask(admin, "GET", "/readyz", answer), 200);
    MUST(strstr(answer, "\r\n\r\nok\n") != NULL);
    admin_set_ready(admin, true, "without db1\n");
    MUST_EQ(ask(admin, "GET", "/readyz", answer), 200);
    MUST(strstr(answer, "\r\n\r\nok\nwithout db1\n") != NULL);
    admin_set_ready(admin, false, "draining\n");
    MUST_EQ(ask(admin, "GET", "/readyz", answer), 503);
    MUST(strstr(answer, "\r\n\r\ndraining\n") != NULL);
    MUST_EQ(ask(admin, "GET", "/startupz", answer), 200);
    admin_close(admin);
}

static void a_silent_loop_is_not_alive_once_it_has_started(void)
{
    static char answer[ANSWER_MAX];
    struct admin *admin;

    atomic_store(&fake_us, US_PER_S);
    admin = open_admin(fake_clock);
    atomic_store(&fake_us, 100 * US_PER_S);
    MUST_EQ(ask(admin, "GET", "/livez", answer), 200);
    admin_watch(admin, 1000);
    MUST_EQ(ask(admin, "GET", "/livez", answer), 200);
    atomic_fetch_add(&fake_us, 1001 * US_PER_MS);
    MUST_EQ(ask(admin, "GET", "/livez", answer), 503);
    admin_beat(admin, fake_clock());
    MUST_EQ(ask(admin, "GET", "/livez", answer), 200);
    admin_close(admin);
}

static void other_paths_and_methods_are_refused(void)
{
    static char answer[ANSWER_MAX];
    struct admin *admin = open_admin(real_clock);

    MUST_EQ(ask(admin, "GET", "/", answer), 404);
    MUST_EQ(ask(admin, "GET", "/metrics/x", answer), 404);
    MUST_EQ(ask(admin, "POST", "/metrics", answer), 405);
    MUST_EQ(ask(admin, "DELETE", "/readyz", answer), 405);
    MUST_EQ(ask(admin, "PUT", "/foliot.v1.TaskService/Create", answer), 405);
    MUST(strstr(answer, "are called by POST") != NULL);
    MUST_EQ(ask(admin, "HEAD", "/metrics", answer), 200);
    admin_close(admin);
}

static void a_taken_port_and_a_bad_host_are_errors(void)
{
    struct admin *admin = open_admin(real_clock);
    struct admin_options options = {
        .host = "127.0.0.1", .port = admin_port(admin), .clock_us = real_clock};
    struct admin *other = NULL;

    MUST_ERR(admin_open(&options, &other), ERR_EXISTS);
    options.host = "localhost";
    MUST_ERR(admin_open(&options, &other), ERR_INVALID);
    admin_close(admin);
}

struct publisher {
    struct admin *admin;
    atomic_bool is_over;
};

/* Pages of one letter each, of different lengths: a mixed one would show. */
static void *publish(void *ctx)
{
    struct publisher *publisher = ctx;
    char page[4096];

    for (unsigned i = 0; !atomic_load(&publisher->is_over); i++) {
        size_t len = 1 + i % (sizeof(page) - 1);

        memset(page, 'a' + (int)(i % 26), len);
        admin_publish(publisher->admin, (struct slice){(const uint8_t *)page, len});
        admin_beat(publisher->admin, real_clock());
        admin_set_ready(publisher->admin, i % 2 == 0, i % 2 == 0 ? "" : "no\n");
    }
    return NULL;
}

static void pages_are_whole_while_the_loop_publishes(void)
{
    static char answer[ANSWER_MAX];
    struct publisher publisher = {.admin = open_admin(real_clock)};
    pthread_t thread;

    admin_publish(publisher.admin, slice_of("a"));
    MUST_EQ(pthread_create(&thread, NULL, publish, &publisher), 0);
    for (int i = 0; i < 300; i++) {
        const char *body;

        MUST_EQ(ask(publisher.admin, "GET", "/metrics", answer), 200);
        body = strstr(answer, "\r\n\r\n") + 4;
        MUST(strlen(body) > 0);
        MUST_EQ(strspn(body, (const char[]){body[0], '\0'}), strlen(body));
    }
    atomic_store(&publisher.is_over, true);
    MUST_EQ(pthread_join(thread, NULL), 0);
    admin_close(publisher.admin);
}

static void silent_and_slow_clients_do_not_stop_others(void)
{
    static char answer[ANSWER_MAX];
    struct admin *admin = open_admin(real_clock);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(admin_port(admin))};
    int fds[32];

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        MUST_EQ(connect(fds[i], (const struct sockaddr *)&address, sizeof(address)), 0);
        MUST_EQ(write(fds[i], "GET /met", 8), 8);
    }
    MUST_EQ(ask(admin, "GET", "/livez", answer), 200);
    for (size_t i = 0; i < ARRAY_COUNT(fds); i++) {
        (void)close(fds[i]);
    }
    admin_close(admin);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(readiness_follows_what_was_said_last),
        MUST_CASE(a_silent_loop_is_not_alive_once_it_has_started),
        MUST_CASE(other_paths_and_methods_are_refused),
        MUST_CASE(a_taken_port_and_a_bad_host_are_errors),
        MUST_CASE(pages_are_whole_while_the_loop_publishes),
        MUST_CASE(silent_and_slow_clients_do_not_stop_others),
    };

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
