/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine gives to anybody at this moment: how late a sleeping thread wakes, what a read
 * of memory costs in a busy process and in one that has slept, how long a commit takes to reach the
 * disk, how long a byte takes over loopback and back. The figures of the product are read as ratios
 * to these.
 *
 *   bench_machine [loop|sleep|memory|sync|loopback] [seconds]     default: all, 3 s each
 *
 * A line per figure, "name<TAB>value<TAB>unit", so that scripts can read it.
 */
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/clock.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SAMPLE_COUNT_MAX 1000000
#define SECONDS_DEFAULT  3

/* Steps of the loop between two looks at the clock. */
#define LOOP_COUNT 100000

/* As the tasks of a load of 500 a second. */
#define SLEEP_US 2000

/* Memory that is read at random, a cache line at a time; as much as wakes up with a task that is
 * due. */
#define LINE_COUNT (16U * 1024 * 1024 / LINE_BYTES)
#define LINE_BYTES 64U
#define READ_COUNT 5000
#define IDLE_US    US_PER_S

/* What PostgreSQL writes for a small commit. */
#define SYNC_BYTES 8192

/* Room that is written over and over, as with recycled WAL: the file does not grow. */
#define SYNC_FILE_BYTES ((off_t)16 * 1024 * 1024)

struct samples {
    int64_t *us;
    size_t count;
};

static void add(struct samples *samples, int64_t us)
{
    if (samples->count < SAMPLE_COUNT_MAX) {
        samples->us[samples->count++] = us;
    }
}

static int compare(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a;
    int64_t right = *(const int64_t *)b;

    return (left > right) - (left < right);
}

static void show(const char *name, struct samples *samples)
{
    size_t count = samples->count;
    size_t middle = count / 2;
    size_t high = count * 99 / 100;

    qsort(samples->us, count, sizeof(samples->us[0]), compare);
    printf("%s, p50\t%.3f\tms\n", name, (double)samples->us[middle] / 1e3);
    printf("%s, p99\t%.3f\tms\n", name, (double)samples->us[high] / 1e3);
    printf("%s, max\t%.3f\tms\n", name, (double)samples->us[count - 1] / 1e3);
    samples->count = 0;
}

/* A chain of multiplications and shifts, from registers alone: what one core does in a second. */
static void looper(int seconds)
{
    int64_t start_us = clock_boot_us();
    int64_t end_us = start_us + seconds * US_PER_S;
    uint64_t state = 1;
    int64_t rounds = 0;

    while (clock_boot_us() < end_us) {
        for (int i = 0; i < LOOP_COUNT; i++) {
            state = (state ^ state >> 29U) * UINT64_C(0x9e3779b97f4a7c15) + 1;
        }
        rounds += state != 0; // So that the chain is not left out.
    }
    printf("single-core loop\t%.1f\tmillion/s\n",
           (double)(rounds * LOOP_COUNT) / (double)(clock_boot_us() - start_us));
}

static void sleeper(struct samples *samples, int seconds)
{
    int64_t due_us = clock_boot_us();
    int64_t end_us = due_us + seconds * US_PER_S;

    while (due_us < end_us) {
        struct timespec until;

        due_us += SLEEP_US;
        until.tv_sec = due_us / US_PER_S;
        until.tv_nsec = due_us % US_PER_S * 1000;
        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &until, NULL) != 0) {
        }
        add(samples, clock_boot_us() - due_us);
    }
    show("sleeping thread wakes late", samples);
}

struct line {
    uint32_t next;
    uint8_t rest[LINE_BYTES - sizeof(uint32_t)];
};

/* Lines that lead from each to every other one, in no order (a shuffle that leaves one circle). */
static struct line *new_lines(void)
{
    struct line *lines = mem_new(LINE_COUNT, sizeof(*lines));
    struct prng prng;

    if (lines == NULL) {
        return NULL;
    }
    prng_init(&prng, 1);
    for (uint32_t i = 0; i < LINE_COUNT; i++) {
        lines[i].next = i;
    }
    for (uint32_t i = LINE_COUNT - 1; i > 0; i--) {
        uint32_t other = (uint32_t)prng_below(&prng, i);
        uint32_t next = lines[i].next;

        lines[i].next = lines[other].next;
        lines[other].next = next;
    }
    return lines;
}

/* Nanoseconds of a read. */
static double read_ns(const struct line *lines, uint32_t *at)
{
    int64_t start_us = clock_boot_us();

    for (int i = 0; i < READ_COUNT; i++) {
        *at = lines[*at].next;
    }
    return (double)(clock_boot_us() - start_us) * 1e3 / READ_COUNT;
}

/* The least of the busy reads and the mean of the others. */
static int reader(int seconds)
{
    struct line *lines = new_lines();
    double busy_ns = 1e9;
    double idle_ns = 0;
    uint32_t at = 0;

    if (lines == NULL) {
        return 1;
    }
    for (int i = 0; i < 100; i++) {
        double ns = read_ns(lines, &at);

        busy_ns = ns < busy_ns ? ns : busy_ns;
    }
    for (int i = 0; i < seconds; i++) {
        (void)usleep(IDLE_US);
        idle_ns += read_ns(lines, &at) / seconds;
    }
    printf("read of a line of 16 MiB, busy\t%.0f\tns\n", busy_ns);
    printf("read of a line of 16 MiB, after a second of sleep\t%.0f\tns\n", idle_ns);
    mem_free(lines);
    return at >= LINE_COUNT; // Never; so that the reads are not left out.
}

/* In the folder of the servers' data if there is one, else here. */
static int sync_file(void)
{
    const char *folder = getenv("FOLIOT_TEST_DIR");
    char path[4096];
    int fd;

    (void)snprintf(path, sizeof(path), "%s/bench_machine.XXXXXX", folder == NULL ? "." : folder);
    fd = mkstemp(path);
    if (fd >= 0) {
        (void)unlink(path);
    }
    return fd;
}

static int syncer(struct samples *samples, int seconds)
{
    static uint8_t block[SYNC_BYTES];
    int fd = sync_file();
    int64_t start_us;
    int64_t end_us;

    if (fd < 0 || posix_fallocate(fd, 0, SYNC_FILE_BYTES) != 0 || fsync(fd) != 0) {
        (void)fprintf(stderr, "bench_machine: no file to write to\n");
        return 1;
    }
    start_us = clock_boot_us();
    end_us = start_us + seconds * US_PER_S;
    for (int64_t now_us = start_us; now_us < end_us;) {
        off_t at = (off_t)samples->count * SYNC_BYTES % SYNC_FILE_BYTES;

        block[0]++;
        if (pwrite(fd, block, sizeof(block), at) != SYNC_BYTES || fdatasync(fd) != 0) {
            (void)fprintf(stderr, "bench_machine: the file cannot be written\n");
            return 1;
        }
        add(samples, clock_boot_us() - now_us);
        now_us = clock_boot_us();
    }
    printf("fdatasync of 8 KiB\t%.0f\t1/s\n",
           (double)samples->count * 1e6 / (double)(clock_boot_us() - start_us));
    show("fdatasync of 8 KiB", samples);
    (void)close(fd);
    return 0;
}

/* Two ends of a connection over 127.0.0.1. */
static int connect_pair(int ends[2])
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int on = 1;

    ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (listener < 0 || ends[0] < 0 ||
        bind(listener, (const struct sockaddr *)&address, size) != 0 || listen(listener, 1) != 0 ||
        getsockname(listener, (struct sockaddr *)&address, &size) != 0 ||
        connect(ends[0], (const struct sockaddr *)&address, size) != 0) {
        return -1;
    }
    ends[1] = accept(listener, NULL, NULL);
    (void)setsockopt(ends[0], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(ends[1], IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)close(listener);
    return ends[1] < 0 ? -1 : 0;
}

static _Noreturn void echo(int fd)
{
    char byte;

    while (read(fd, &byte, 1) == 1 && write(fd, &byte, 1) == 1) {
    }
    _exit(0);
}

static int loopback(struct samples *samples, int seconds)
{
    int ends[2];
    int64_t start_us = clock_boot_us();
    int64_t end_us = start_us + seconds * US_PER_S;
    char byte = 'x';
    pid_t child;

    if (connect_pair(ends) != 0 || (child = fork()) < 0) {
        (void)fprintf(stderr, "bench_machine: no connection over loopback\n");
        return 1;
    }
    if (child == 0) {
        (void)close(ends[0]);
        echo(ends[1]);
    }
    (void)close(ends[1]);
    for (int64_t now_us = clock_boot_us(); now_us < end_us; now_us = clock_boot_us()) {
        if (write(ends[0], &byte, 1) != 1 || read(ends[0], &byte, 1) != 1) {
            break;
        }
        add(samples, clock_boot_us() - now_us);
    }
    (void)close(ends[0]);
    (void)waitpid(child, NULL, 0);
    printf("byte over loopback and back\t%.0f\t1/s\n",
           (double)samples->count * 1e6 / (double)(clock_boot_us() - start_us));
    show("byte over loopback and back", samples);
    return 0;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    long seconds = argc > 2 ? strtol(argv[2], NULL, 10) : SECONDS_DEFAULT;
    struct samples samples = {mem_new(SAMPLE_COUNT_MAX, sizeof(int64_t)), 0};
    int status = 0;

    if (samples.us == NULL || seconds < 1 || seconds > 1000) {
        (void)fprintf(stderr, "usage: bench_machine [loop|sleep|memory|sync|loopback] [seconds]\n");
        return 2;
    }
    if (*what == '\0' || strcmp(what, "loop") == 0) {
        looper((int)seconds);
    }
    if (*what == '\0' || strcmp(what, "sleep") == 0) {
        sleeper(&samples, (int)seconds);
    }
    if (*what == '\0' || strcmp(what, "memory") == 0) {
        status |= reader((int)seconds);
    }
    if (*what == '\0' || strcmp(what, "sync") == 0) {
        status |= syncer(&samples, (int)seconds);
    }
    if (*what == '\0' || strcmp(what, "loopback") == 0) {
        status |= loopback(&samples, (int)seconds);
    }
    mem_free(samples.us);
    return status;
}
