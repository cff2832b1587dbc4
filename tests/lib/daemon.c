/* SPDX-License-Identifier: Apache-2.0
 *
 * Processes by fork and exec, their log in a file that is read again and again.
 */
#define _GNU_SOURCE // memmem, pipe2

#include "tests/lib/daemon.h"

#include "lib/base/mem.h"
#include "tests/lib/must.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LOG_BYTES_MAX  (4 << 20)
#define PAGE_BYTES_MAX (1 << 20)
#define START_LIMIT_MS 30000
#define STOP_LIMIT_MS  30000

static void put(char *out, size_t size, const char *format, ...) PRINTF_LIKE(3, 4);

static void put(char *out, size_t size, const char *format, ...)
{
    va_list arguments;
    int len;

    va_start(arguments, format);
    len = vsnprintf(out, size, format, arguments);
    va_end(arguments);
    MUST(len >= 0 && (size_t)len < size);
}

/* ---- processes ---- */

/* The child's side: dies with its parent, output to one descriptor. */
_Noreturn static void become(char **argv, int output, pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent || dup2(output, STDOUT_FILENO) < 0 || dup2(output, STDERR_FILENO) < 0) {
        _exit(127);
    }
    (void)execv(argv[0], argv);
    _exit(127);
}

static pid_t spawn(const char *const *flags, size_t count, int output)
{
    char *argv[DAEMON_FLAGS_MAX + 2] = {(char[]){FOLIOTD_PATH}};
    pid_t parent = getpid();
    pid_t pid;

    MUST_LE(count, DAEMON_FLAGS_MAX);
    for (size_t i = 0; i < count; i++) {
        argv[i + 1] = mem_copy(flags[i], strlen(flags[i]));
        MUST(argv[i + 1] != NULL);
    }
    pid = fork();
    MUST(pid >= 0);
    if (pid == 0) {
        become(argv, output, parent);
    }
    for (size_t i = 0; i < count; i++) {
        mem_free(argv[i + 1]);
    }
    return pid;
}

/* Is there a flag of the same name, up to the '='? */
static bool has_flag(const char *const *flags, const char *flag)
{
    size_t len = strcspn(flag, "=") + 1;

    for (; flags != NULL && *flags != NULL; flags++) {
        if (strncmp(*flags, flag, len) == 0) {
            return true;
        }
    }
    return false;
}

void daemon_start(struct daemon *daemon, const struct fixture *fixture, const char *name,
                  const char *const *flags)
{
    char own[8][FIXTURE_TEXT_MAX + 32];
    const char *all[DAEMON_FLAGS_MAX];
    size_t count = 0;
    int log;

    memset(daemon, 0, sizeof(*daemon));
    put(daemon->name, sizeof(daemon->name), "%s", name);
    put(daemon->log_path, sizeof(daemon->log_path), "/tmp/foliotd_%s_%s_%llx.log", fixture->name,
        name, (unsigned long long)must_now_ms());
    put(own[0], sizeof(own[0]), "--name=%s", name);
    put(own[1], sizeof(own[1]), "--cluster-name=%s", fixture->name);
    put(own[2], sizeof(own[2]), "--zookeeper-hosts=%s", fixture->zk_hosts);
    put(own[3], sizeof(own[3]), "--databases=db0=%s", fixture->pg_conninfo);
    put(own[4], sizeof(own[4]), "--listen=127.0.0.1:0");
    put(own[5], sizeof(own[5]), "--admin-listen=127.0.0.1:0");
    put(own[6], sizeof(own[6]), "--log-format=json");
    put(own[7], sizeof(own[7]), "--audit-every=1s");
    for (size_t i = 0; i < ARRAY_COUNT(own); i++) {
        if (!has_flag(flags, own[i])) {
            all[count++] = own[i];
        }
    }
    for (; flags != NULL && *flags != NULL; flags++) {
        MUST_LE(count + 1, DAEMON_FLAGS_MAX);
        all[count++] = *flags;
    }
    log = open(daemon->log_path, O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
    MUST(log >= 0);
    daemon->pid = spawn(all, count, log);
    (void)close(log);
}

int daemon_run(const char *const *flags, char *output, size_t output_size)
{
    size_t count = 0;
    size_t len = 0;
    ssize_t got;
    int ends[2];
    int status;
    pid_t pid;

    while (flags[count] != NULL) {
        count++;
    }
    MUST_EQ(pipe2(ends, O_CLOEXEC), 0);
    pid = spawn(flags, count, ends[1]);
    (void)close(ends[1]);
    while ((got = read(ends[0], output + len, output_size - 1 - len)) > 0) {
        len += (size_t)got;
    }
    output[len] = '\0';
    (void)close(ends[0]);
    MUST_EQ(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

void daemon_signal(const struct daemon *daemon, int number)
{
    MUST(daemon->pid > 0);
    MUST_EQ(kill(daemon->pid, number), 0);
}

/* Has it ended? Its status is kept in *status. */
static bool has_ended(struct daemon *daemon, int *status)
{
    pid_t pid = waitpid(daemon->pid, status, WNOHANG);

    MUST(pid >= 0);
    return pid == daemon->pid;
}

int daemon_wait_end(struct daemon *daemon, int limit_ms)
{
    int status = 0;

    MUST(daemon->pid > 0);
    MUST_SOON(has_ended(daemon, &status), limit_ms);
    daemon->pid = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* What its auditor has found so far (docs/METRICS.md). A figure that is not there is -1. */
static void must_be_sound(const struct daemon *daemon)
{
    static const char *const figures[] = {"foliot_audit_rows_unheld", "foliot_audit_claims_overdue",
                                          "foliot_audit_entries_rowless",
                                          "foliot_audit_shards_unowned"};

    for (size_t i = 0; i < ARRAY_COUNT(figures); i++) {
        double found = daemon_metric(daemon, figures[i]);

        if (found != 0) {
            must_fail(MUST_HERE, "the auditor of %s says %s %.0f", daemon->name, figures[i], found);
        }
    }
}

void daemon_stop(struct daemon *daemon)
{
    if (daemon->address[0] != '\0') { // Before it serves it has no figures.
        must_be_sound(daemon);
    }
    daemon_signal(daemon, SIGTERM);
    MUST_EQ(daemon_wait_end(daemon, STOP_LIMIT_MS), 0);
    (void)unlink(daemon->log_path);
}

/* ---- log ---- */

/* The log so far, NUL-terminated; a static buffer. */
static const char *read_log(const struct daemon *daemon)
{
    static char text[LOG_BYTES_MAX];
    int fd = open(daemon->log_path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t got;

    MUST(fd >= 0);
    while ((got = read(fd, text + len, sizeof(text) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    (void)close(fd);
    text[len] = '\0';
    return text;
}

bool daemon_has_logged(const struct daemon *daemon, const char *text)
{
    return strstr(read_log(daemon), text) != NULL;
}

size_t daemon_count_logged(const struct daemon *daemon, const char *text)
{
    size_t count = 0;

    for (const char *at = read_log(daemon); (at = strstr(at, text)) != NULL; at += strlen(text)) {
        count++;
    }
    return count;
}

/* The value of a text field in the line that says `message`. */
static bool find_field(const struct daemon *daemon, const char *message, const char *field,
                       char *out, size_t out_size)
{
    const char *line = strstr(read_log(daemon), message);
    const char *end = line == NULL ? NULL : strchr(line, '\n');
    char mark[64];
    const char *value;
    size_t len;

    if (end == NULL) {
        return false;
    }
    put(mark, sizeof(mark), "\"%s\":\"", field);
    value = memmem(line, (size_t)(end - line), mark, strlen(mark));
    MUST(value != NULL);
    value += strlen(mark);
    len = strcspn(value, "\"");
    put(out, out_size, "%.*s", (int)len, value);
    return true;
}

static bool is_serving(struct daemon *daemon)
{
    int status;

    if (has_ended(daemon, &status)) {
        daemon->pid = 0;
        must_fail(MUST_HERE, "foliotd %s ended at start, its log:\n%s", daemon->name,
                  read_log(daemon));
    }
    return find_field(daemon, "\"msg\":\"serving\"", "listen", daemon->address,
                      sizeof(daemon->address)) &&
           find_field(daemon, "\"msg\":\"serving\"", "admin", daemon->admin, sizeof(daemon->admin));
}

void daemon_wait_serving(struct daemon *daemon)
{
    MUST_SOON(is_serving(daemon), START_LIMIT_MS);
}

static bool has_admin(struct daemon *daemon)
{
    return find_field(daemon, "\"msg\":\"admin port is open\"", "address", daemon->admin,
                      sizeof(daemon->admin));
}

void daemon_find_admin(struct daemon *daemon)
{
    MUST_SOON(has_admin(daemon), START_LIMIT_MS);
}

static bool is_ready(const struct daemon *daemon)
{
    char body[1024];

    return daemon_get(daemon, "/readyz", body, sizeof(body)) == 200;
}

void daemon_wait_ready(struct daemon *daemon)
{
    daemon_wait_serving(daemon);
    MUST_SOON(is_ready(daemon), START_LIMIT_MS);
}

/* ---- admin port ---- */

int daemon_get(const struct daemon *daemon, const char *path, char *body, size_t body_size)
{
    static char answer[PAGE_BYTES_MAX];
    struct sockaddr_in address = {.sin_family = AF_INET};
    const char *colon = strchr(daemon->admin, ':');
    const char *start;
    char request[256];
    size_t len = 0;
    ssize_t got;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    MUST(fd >= 0 && colon != NULL);
    address.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    body[0] = '\0';
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) != 0) {
        (void)close(fd);
        return 0;
    }
    put(request, sizeof(request), "GET %s HTTP/1.0\r\n\r\n", path);
    MUST_EQ(send(fd, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    while ((got = read(fd, answer + len, sizeof(answer) - 1 - len)) > 0) {
        len += (size_t)got;
    }
    (void)close(fd);
    answer[len] = '\0';
    start = strstr(answer, "\r\n\r\n");
    if (start == NULL || strncmp(answer, "HTTP/1.", 7) != 0) {
        return 0;
    }
    (void)snprintf(body, body_size, "%s", start + 4);
    return (int)strtol(answer + 9, NULL, 10);
}

double daemon_metric(const struct daemon *daemon, const char *sample)
{
    static char page[PAGE_BYTES_MAX];
    size_t len = strlen(sample);
    const char *line = page;

    if (daemon_get(daemon, "/metrics", page, sizeof(page)) != 200) {
        return -1;
    }
    while (line != NULL && (strncmp(line, sample, len) != 0 || line[len] != ' ')) {
        line = strchr(line, '\n');
        line = line == NULL ? NULL : line + 1;
    }
    return line == NULL ? -1 : strtod(line + len, NULL);
}
