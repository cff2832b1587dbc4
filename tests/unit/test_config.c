/* SPDX-License-Identifier: Apache-2.0
 *
 * What the settings promise: precedence, origins, one clear line for every error.
 */
#include "broker/config.h"

#include "broker/config_table.h"
#include "lib/base/err.h"
#include "lib/base/limits.h"
#include "lib/base/mem.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DATABASE      "databases=db0=dbname=a"
#define ARGUMENTS_MAX 16

static char paths[2][64];

/* A file with this text; its name lives until the next two. */
static const char *file_with(const char *text)
{
    static int turn;
    char *path = paths[turn++ % 2];
    int fd;

    (void)snprintf(path, sizeof(paths[0]), "/tmp/foliot_config_XXXXXX");
    fd = mkstemp(path);
    cr_assert(fd >= 0);
    cr_assert_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    (void)close(fd);
    return path;
}

/* One load: arguments and environment as texts of blank-free words. */
struct load {
    struct config config;
    struct config_report report;
    enum config_action action;
    int err;
};

static void load_all(struct load *load, const char *const *arguments, const char *const *variables)
{
    char *argv[ARGUMENTS_MAX] = {(char[]){"foliotd"}};
    char *environment[ARGUMENTS_MAX] = {NULL};
    struct config_input input = {1, argv, environment};

    for (; arguments != NULL && *arguments != NULL; arguments++) {
        argv[input.argc++] = mem_copy(*arguments, strlen(*arguments));
    }
    for (size_t i = 0; variables != NULL && variables[i] != NULL; i++) {
        environment[i] = mem_copy(variables[i], strlen(variables[i]));
    }
    config_report_init(&load->report);
    load->err = config_load(&load->config, &input, &load->action, &load->report);
    for (int i = 1; i < input.argc; i++) {
        mem_free(argv[i]);
    }
    for (size_t i = 0; environment[i] != NULL; i++) {
        mem_free(environment[i]);
    }
}

static void unload(struct load *load)
{
    if (load->err == 0) {
        config_fini(&load->config);
    }
    config_report_fini(&load->report);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

/* ---- precedence ---- */

Test(config, a_flag_wins_over_environment_over_file_over_default)
{
    struct load load;
    const char *path = file_with("name: from-file\nlog: {level: warn}\ndrain.timeout: 3s\n"
                                 "databases: [\"db0=dbname=a\"]\n");

    load_all(&load, WORDS("--config", path, "--name", "from-flag"),
             WORDS("FOLIOT_NAME=from-env", "FOLIOT_LOG_LEVEL=error"));
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    cr_assert_str_eq(load.config.name, "from-flag");
    cr_assert_eq(load.config.log_level, 3);
    cr_assert_eq(load.config.drain_timeout_ms, 3000);
    cr_assert_eq(load.config.cluster_shards, 128);
    unload(&load);
    (void)unlink(path);
}

Test(config, every_value_knows_where_it_came_from)
{
    struct load load;
    struct buf out;
    char line[256];
    const char *path = file_with("\nlog:\n  level: warn\n");

    load_all(&load, WORDS("--" DATABASE, "--name=n1", "--config", path),
             WORDS("FOLIOT_DRAIN_TIMEOUT=90s"));
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    buf_init(&out, 65536);
    config_print(&load.config, &out);
    cr_assert_not_null(strstr(buf_text(&out), "name: \"n1\" # --name\n"));
    (void)snprintf(line, sizeof(line), "log.level: warn # %s:3\n", path);
    cr_assert_not_null(strstr(buf_text(&out), line), "%s", buf_text(&out));
    cr_assert_not_null(strstr(buf_text(&out), "drain.timeout: 90s # FOLIOT_DRAIN_TIMEOUT\n"));
    cr_assert_not_null(strstr(buf_text(&out), "cluster.name: \"main\" # default\n"));
    buf_fini(&out);
    unload(&load);
    (void)unlink(path);
}

Test(config, what_is_printed_can_be_loaded_again_but_for_secrets)
{
    struct load first;
    struct load second;
    struct buf before;
    struct buf after;
    const char *path;

    buf_init(&before, 65536);
    buf_init(&after, 65536);
    load_all(&first, WORDS("--" DATABASE, "--memory-window", "90s", "--targets-allow", "a:1,*:2"),
             NULL);
    config_print(&first.config, &before);
    path = file_with(buf_text(&before));
    load_all(&second, WORDS("--config", path, "--" DATABASE), NULL);
    cr_assert_eq(second.err, 0, "%s", buf_text(&second.report.errors));
    for (size_t i = 0; i < config_option_count(); i++) {
        config_option_write(&first.config, config_option_at(i), &after);
        cr_assert_eq(buf_append_text(&after, "\n"), 0);
    }
    for (size_t i = 0; i < config_option_count(); i++) {
        struct buf one;

        buf_init(&one, 4096);
        config_option_write(&second.config, config_option_at(i), &one);
        cr_assert_not_null(strstr(buf_text(&after), buf_text(&one)));
        buf_fini(&one);
    }
    unload(&first);
    unload(&second);
    buf_fini(&before);
    buf_fini(&after);
    (void)unlink(path);
}

Test(config, secrets_are_never_printed)
{
    struct load load;
    struct buf out;

    buf_init(&out, 65536);
    load_all(&load, NULL, WORDS("FOLIOT_DATABASES=db0=dbname=a password=hush;db1=password=hush"));
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    config_print(&load.config, &out);
    cr_assert_null(strstr(buf_text(&out), "hush"));
    cr_assert_not_null(strstr(buf_text(&out), "databases: [\"db0=(hidden)\", \"db1=(hidden)\"]"));
    buf_fini(&out);
    unload(&load);
}

Test(config, a_secret_is_read_from_the_file_that_is_named)
{
    struct load load;
    char variable[128];
    char name[NAME_BYTES_MAX + 1];
    const char *path = file_with("db0=dbname=a password='x;y'\ndb1=dbname=b\n\n");

    (void)snprintf(variable, sizeof(variable), "FOLIOT_DATABASES_FILE=%s", path);
    load_all(&load, NULL, WORDS(variable));
    cr_assert_eq(load.err, ERR_INVALID, "';' parts items also in a file");
    unload(&load);
    (void)unlink(path);
    path = file_with("db0=dbname=a password=x\ndb1=dbname=b\n\n");
    (void)snprintf(variable, sizeof(variable), "FOLIOT_DATABASES_FILE=%s", path);
    load_all(&load, NULL, WORDS(variable));
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    cr_assert_eq(config_database_count(&load.config), 2);
    cr_assert_str_eq(config_database(&load.config, 1, name), "dbname=b");
    cr_assert_str_eq(name, "db1");
    unload(&load);
    (void)unlink(path);
}

Test(config, flags_of_a_list_add_up_in_their_order)
{
    struct load load;
    char name[NAME_BYTES_MAX + 1];

    load_all(&load, WORDS("--databases", "z=dbname=1", "--databases", "a=dbname=2"), NULL);
    cr_assert_eq(load.err, 0);
    (void)config_database(&load.config, 0, name);
    cr_assert_str_eq(name, "z", "the first is home, whatever its name");
    unload(&load);
}

Test(config, an_empty_name_is_the_advertised_address)
{
    struct load load;

    load_all(&load, WORDS("--" DATABASE, "--listen=0.0.0.0:1", "--advertise=pod-0.foliot:7400"),
             NULL);
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    cr_assert_str_eq(load.config.name, "pod-0.foliot:7400");
    unload(&load);
}

Test(config, actions_are_told_also_beside_errors)
{
    struct load load;

    load_all(&load, WORDS("--nonsense", "--help"), NULL);
    cr_assert_eq(load.action, CONFIG_SHOW_HELP);
    unload(&load);
    load_all(&load, WORDS("--check-config", "--" DATABASE), NULL);
    cr_assert_eq(load.action, CONFIG_CHECK_ONLY);
    cr_assert_eq(load.err, 0);
    unload(&load);
}

Test(config, help_names_every_option_in_every_source)
{
    struct buf out;

    buf_init(&out, 65536);
    config_help(&out);
    for (size_t i = 0; i < config_option_count(); i++) {
        char name[OPTION_NAME_SIZE];

        config_option_flag(config_option_at(i), name);
        cr_assert_not_null(strstr(buf_text(&out), name));
        config_option_variable(config_option_at(i), name);
        cr_assert_not_null(strstr(buf_text(&out), name));
        cr_assert(strncmp(config_option_at(i)->key, "port", 4) != 0, "Kubernetes sets FOLIOT_PORT");
        cr_assert(strncmp(config_option_at(i)->key, "service", 7) != 0);
    }
    cr_assert(!out.failed);
    buf_fini(&out);
}

/* ---- every error line ---- */

/* A text in one source, and the line that it must cause; %s in it is the file's path. */
static void expect_line(struct load *load, const char *path, const char *line)
{
    char wanted[512];
    const char *mark = strchr(line, '@');

    (void)snprintf(wanted, sizeof(wanted), "%s%s\n", mark != NULL ? path : "",
                   mark != NULL ? mark + 1 : line);
    cr_assert_eq(load->err, ERR_INVALID, "no error, wanted: %s", wanted);
    cr_assert_not_null(strstr(buf_text(&load->report.errors), wanted), "wanted: %sgot: %s", wanted,
                       buf_text(&load->report.errors));
}

Test(config, every_bad_file_has_its_line)
{
    static const struct {
        const char *text;
        const char *line;
    } rows[] = {
        {"nane: x\n", "@:1: unknown key \"nane\"; did you mean name?"},
        {"zookeeper:\n  hots: a:1\n", "@:2: unknown key \"zookeeper.hots\"; did you mean "
                                      "zookeeper.hosts?"},
        {"frobnicate: 1\n", "@:1: unknown key \"frobnicate\""},
        {"log: debug\n", "@:1: unknown key \"log\"; did you mean log.level?"},
        {"name: a\nname: b\n", "@:2: key \"name\" is given twice"},
        {"log.level: info\nlog:\n  level: warn\n", "@:3: key \"log.level\" is given twice"},
        {"name: &x a\n", "@:1: anchors and tags are not supported"},
        {"name: *x\n", "@:1: aliases are not supported"},
        {"name: !!str a\n", "@:1: anchors and tags are not supported"},
        {"name: a\n---\nname: b\n", "@:2: more than one document"},
        {"- a\n", "@:1: expected \"key: value\" lines"},
        {"just words\n", "@:1: expected \"key: value\" lines"},
        {"name:\n", "@:1: \"name\" has no value; write \"\" for an empty one"},
        {"name: ~\n", "@:1: \"name\" has no value; write \"\" for an empty one"},
        {"name: [a, b]\n", "@:1: name must be one value, not a list"},
        {"targets.allow: [[a]]\n", "@:1: \"targets.allow\" takes plain texts as items"},
        {"targets.allow: [{a: b}]\n", "@:1: \"targets.allow\" takes plain texts as items"},
        {"{[a]: b}\n", "@:1: a key cannot be a list"},
        {"a: {b: {c: {d: {e: f}}}}\n", "@:1: \"a.b.c.d\" is nested deeper than 4 levels"},
        {"memory.tasks: 12x\n", "@:1: memory.tasks must be a whole number from 4000 to 100000000"},
        {"memory.tasks: 3999\n", "@:1: memory.tasks must be a whole number from 4000 to 100000000"},
        {"memory.tasks: -1\n", "@:1: memory.tasks must be a whole number from 4000 to 100000000"},
        {"memory.tasks: 99999999999999999999\n",
         "@:1: memory.tasks must be a whole number from 4000 to 100000000"},
        {"drain.timeout: 5\n",
         "@:1: drain.timeout must be a time with its unit (ms, s, m, h, d) from 100ms to 1h"},
        {"drain.timeout: 5 s\n",
         "@:1: drain.timeout must be a time with its unit (ms, s, m, h, d) from 100ms to 1h"},
        {"drain.timeout: 9999999999999999d\n",
         "@:1: drain.timeout must be a time with its unit (ms, s, m, h, d) from 100ms to 1h"},
        {"log.level: loud\n", "@:1: log.level must be one of debug|info|warn|error"},
        {"log.level: \"\"\n", "@:1: log.level must be one of debug|info|warn|error"},
        {"name: \"a\\u00e4\"\n", "@:1: name must be printable ASCII"},
        {"name: \"a\\0b\"\n", "@:1: the value of \"name\" has a NUL byte"},
        {"cluster.name: \"\"\n", "@:1: cluster.name must have 1 to 63 bytes"},
        {"databases: [\"\"]\n", "@:1: databases must have items of 1 to 4096 bytes"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        const char *path = file_with(rows[i].text);
        struct load load;

        load_all(&load, WORDS("--" DATABASE, "--config", path), NULL);
        expect_line(&load, path, rows[i].line);
        unload(&load);
        (void)unlink(path);
    }
}

Test(config, bad_yaml_says_where)
{
    const char *path = file_with("name: [a\nlog: b\n");
    struct load load;
    char start[128];

    load_all(&load, WORDS("--config", path), NULL);
    (void)snprintf(start, sizeof(start), "%s:", path);
    cr_assert_eq(load.err, ERR_INVALID);
    cr_assert_not_null(strstr(buf_text(&load.report.errors), start));
    unload(&load);
    (void)unlink(path);
}

Test(config, every_bad_flag_or_variable_has_its_line)
{
    static const struct {
        const char *flag;
        const char *variable;
        const char *line;
    } rows[] = {
        {"--nane=x", NULL, "--nane: unknown flag; did you mean --name?"},
        {"--zookeeper-host=a:1", NULL,
         "--zookeeper-host: unknown flag; did you mean --zookeeper-hosts?"},
        {"-x", NULL, "-x: unknown flag"},
        {"word", NULL, "word: unknown flag"},
        {"--memory-tasks=", NULL,
         "--memory-tasks: memory.tasks must be a whole number from 4000 to 100000000"},
        {"--memory-tasks", NULL, "--memory-tasks: needs a value: --memory-tasks N"},
        {"--config=/nonexistent/x.yaml", NULL,
         "/nonexistent/x.yaml: cannot be opened: No such file or directory"},
        {NULL, "FOLIOT_LOG_FORMAT=xml",
         "FOLIOT_LOG_FORMAT: log.format must be one of "
         "auto|text|json"},
        {"--listen=localhost:1", NULL,
         "--listen: listen must be a numeric address with its port, as 127.0.0.1:7400 or "
         "[::1]:7400"},
        {"--listen=127.0.0.1", NULL,
         "--listen: listen must be a numeric address with its port, as 127.0.0.1:7400 or "
         "[::1]:7400"},
        {"--listen=::1:80", NULL,
         "--listen: listen must be a numeric address with its port, as 127.0.0.1:7400 or "
         "[::1]:7400"},
        {"--admin-listen=127.0.0.1:65536", NULL,
         "--admin-listen: admin.listen must be a numeric address with its port, as 127.0.0.1:7400 "
         "or [::1]:7400"},
        {"--listen=0.0.0.0:7400", NULL,
         "default: advertise must be set when listen is a wildcard: others cannot call that "
         "address"},
        {"--advertise=here", NULL, "--advertise: advertise must be host:port with a port above 0"},
        {"--name=a/b", NULL, "--name: name must be of letters, digits and . _ : - [ ]"},
        {"--cluster-name=A", NULL,
         "--cluster-name: cluster.name must be of a-z, 0-9 and . _ -, and begin with a letter or "
         "digit"},
        {"--zookeeper-root=foliot", NULL,
         "--zookeeper-root: zookeeper.root must be a path as /foliot, without a slash at its end"},
        {"--zookeeper-root=/a/", NULL,
         "--zookeeper-root: zookeeper.root must be a path as /foliot, without a slash at its end"},
        {"--zookeeper-hosts=a:1,b", NULL,
         "--zookeeper-hosts: zookeeper.hosts must be host:port, several parted by commas, without "
         "spaces or a path"},
        {"--zookeeper-hosts=a:1/foliot", NULL,
         "--zookeeper-hosts: zookeeper.hosts must be host:port, several parted by commas, without "
         "spaces or a path"},
        {"--databases=dbname=a", NULL,
         "--databases: databases must be name=conninfo each, as db0=host=127.0.0.1 dbname=foliot, "
         "with a name of 1 to 63 of a-z, 0-9 and . _ -"},
        {"--databases=host=127.0.0.1 port=5432 dbname=a", NULL, // a name was forgotten
         "--databases: databases must be name=conninfo each, as db0=host=127.0.0.1 dbname=foliot, "
         "with a name of 1 to 63 of a-z, 0-9 and . _ -"},
        {"--databases=db0=", NULL,
         "--databases: databases must be name=conninfo each, as db0=host=127.0.0.1 dbname=foliot, "
         "with a name of 1 to 63 of a-z, 0-9 and . _ -"},
        {"--databases=DB=dbname=a", NULL,
         "--databases: databases must be name=conninfo each, as db0=host=127.0.0.1 dbname=foliot, "
         "with a name of 1 to 63 of a-z, 0-9 and . _ -"},
        {"--databases=a=dbname=a;a=dbname=b", NULL,
         "--databases: databases must not use a name twice"},
        {"--databases=;;", NULL,
         "--databases: databases must name at least one, as db0=host=127.0.0.1 dbname=foliot"},
        {"--targets-allow=a b:1", NULL,
         "--targets-allow: targets.allow must be patterns of host:port, as *.example.com:443"},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        struct load load;
        bool gives_database = rows[i].flag != NULL && strncmp(rows[i].flag, "--data", 6) == 0;

        load_all(&load, rows[i].flag == NULL ? NULL : WORDS(rows[i].flag),
                 gives_database ? NULL
                                : WORDS("FOLIOT_"
                                        "DATABASES=db0=dbname=a",
                                        rows[i].variable != NULL ? rows[i].variable : "A=b"));
        expect_line(&load, "", rows[i].line);
        unload(&load);
    }
}

Test(config, all_errors_of_all_sources_are_told_at_once)
{
    struct load load;

    load_all(&load, WORDS("--nane=x", "--memory-tasks=1"), WORDS("FOLIOT_LOG_LEVEL=loud"));
    cr_assert_not_null(strstr(buf_text(&load.report.errors), "--nane: "));
    cr_assert_not_null(strstr(buf_text(&load.report.errors), "--memory-tasks: "));
    cr_assert_not_null(strstr(buf_text(&load.report.errors), "FOLIOT_LOG_LEVEL: "));
    unload(&load);
}

Test(config, a_secret_given_twice_is_an_error)
{
    struct load load;

    load_all(&load, NULL, WORDS("FOLIOT_DATABASES=a=b=c", "FOLIOT_DATABASES_FILE=/dev/null"));
    expect_line(&load, "",
                "FOLIOT_DATABASES: also given by FOLIOT_DATABASES_FILE; keep one of them");
    unload(&load);
}

Test(config, a_foreign_variable_is_a_warning_with_a_hint)
{
    struct load load;

    load_all(&load, NULL,
             WORDS("FOLIOT_DATABASES=db0=dbname=a", "FOLIOT_LOG_LEVL=warn",
                   "FOLIOT_PORT=tcp://10.0.0.1:7400", "FOLIOT_NOPE=1", "FOLIOT_TEST_PG=x",
                   "FOLIOT_SERVER=127.0.0.1:7400", "FOLIOT_ADDRESS=127.0.0.1:7400",
                   "FOLIOT_CONTEXT=prod", "FOLIOT_NAMESPACE=shop", "PATH=/bin"));
    cr_assert_eq(load.err, 0, "%s", buf_text(&load.report.errors));
    cr_assert_str_eq(buf_text(&load.report.warnings),
                     "FOLIOT_LOG_LEVL: not a setting of ours, ignored; did you mean the variable "
                     "of log.level?\nFOLIOT_PORT: not a setting of ours, ignored\n"
                     "FOLIOT_NOPE: not a setting of ours, ignored\n");
    unload(&load);
}

Test(config, one_unknown_flag_gives_one_line)
{
    struct load load;

    load_all(&load, WORDS("--listn", "127.0.0.1:1", "--x"), NULL);
    cr_assert_str_eq(buf_text(&load.report.errors),
                     "--listn: unknown flag; did you mean --listen?\n--x: unknown flag\n");
    unload(&load);
}

Test(config, lists_and_files_are_bounded)
{
    struct load load;
    struct buf text;
    const char *path;

    buf_init(&text, 2 * CONFIG_FILE_BYTES_MAX);
    cr_assert_eq(buf_append_text(&text, "--targets-allow="), 0);
    for (int i = 0; i <= CONFIG_LIST_COUNT_MAX; i++) {
        cr_assert_eq(buf_append_text(&text, "a:1,"), 0);
    }
    load_all(&load, WORDS("--" DATABASE, buf_text(&text)), NULL);
    expect_line(&load, "", "--targets-allow: targets.allow must have at most 256 items");
    unload(&load);
    buf_clear(&text);
    while (buf_len(&text) <= CONFIG_FILE_BYTES_MAX) {
        cr_assert_eq(buf_append_text(&text, "# a comment that is long\n"), 0);
    }
    path = file_with(buf_text(&text));
    load_all(&load, WORDS("--" DATABASE, "--config", path), NULL);
    expect_line(&load, path, "@: cannot be read, or is longer than 262144 bytes");
    unload(&load);
    (void)unlink(path);
    buf_fini(&text);
}

struct failing {
    uint64_t left; /* allocations that still succeed */
};

static bool allow(size_t size, void *ctx)
{
    struct failing *failing = ctx;

    (void)size;
    return failing->left > 0 && failing->left-- > 0;
}

/* One load with the n-th allocation failing; true if it was the last one that could fail. */
static bool load_failing(const char *path, uint64_t n)
{
    char *argv[] = {(char[]){"foliotd"}, (char[]){"--config"}, NULL, (char[]){"--nane=x"},
                    (char[]){"--targets-allow=a:1,b:2"}};
    char *environment[] = {(char[]){"FOLIOT_NAME=n"}, NULL};
    const struct config_input input = {ARRAY_COUNT(argv), argv, environment};
    int64_t blocks = mem_block_count();
    struct failing failing = {n};
    struct config_report report;
    struct config config;
    enum config_action action;
    int err;

    argv[2] = mem_copy(path, strlen(path));
    config_report_init(&report);
    mem_set_hook(allow, &failing);
    err = config_load(&config, &input, &action, &report);
    mem_set_hook(NULL, NULL);
    cr_assert(err == ERR_NO_MEMORY || err == ERR_INVALID, "%s", err_name(err));
    config_report_fini(&report);
    mem_free(argv[2]);
    cr_assert_eq(mem_block_count(), blocks, "leaked after allocation %llu", (unsigned long long)n);
    return failing.left > 0;
}

Test(config, any_allocation_may_fail)
{
    const char *path = file_with("name: a\ntargets.allow: [\"a:1\"]\n"
                                 "databases: [\"db0=dbname=a\"]\nlog.level: loud\n");
    uint64_t n = 0;

    while (!load_failing(path, n)) {
        n++;
    }
    cr_assert(n > 20, "the hook was asked %llu times", (unsigned long long)n);
    (void)unlink(path);
}

/* ---- parts ---- */

Test(config, patterns_match_whole_addresses)
{
    static const struct {
        const char *pattern;
        const char *text;
        bool matches;
    } rows[] = {
        {"*", "a:1", true},
        {"*", "", true},
        {"127.0.0.1:*", "127.0.0.1:80", true},
        {"127.0.0.1:*", "127.0.0.10:80", false},
        {"127.0.0.1:*", "x127.0.0.1:80", false},
        {"*.example.com:443", "a.b.example.com:443", true},
        {"*.example.com:443", "example.com:443", false},
        {"*.example.com:443", "a.example.com:4433", false},
        {"*.example.com:443", "a.example.com.evil.com:443", false},
        {"a*b*c", "axxbxxbxc", true},
        {"a*b*c", "axxbxx", false},
        {"", "a", false},
        {"a:1", "A:1", false},
    };

    for (size_t i = 0; i < ARRAY_COUNT(rows); i++) {
        cr_assert_eq(config_pattern_matches(rows[i].pattern, slice_of(rows[i].text)),
                     rows[i].matches, "row %zu", i);
    }
}

Test(config, addresses_are_split_at_the_port)
{
    char host[64];
    uint16_t port;

    cr_assert_eq(config_split_address("[::1]:80", host, sizeof(host), &port), 0);
    cr_assert_str_eq(host, "::1");
    cr_assert_eq(port, 80);
    cr_assert_eq(config_split_address("a.b:65535", host, sizeof(host), &port), 0);
    cr_assert_str_eq(host, "a.b");
    cr_assert_eq(config_split_address("a:65536", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address("a:", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address(":80", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address("[]:80", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address("[::1:80", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address("::1:80", host, sizeof(host), &port), ERR_INVALID);
    cr_assert_eq(config_split_address("a:-1", host, sizeof(host), &port), ERR_INVALID);
}
