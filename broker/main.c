/* SPDX-License-Identifier: Apache-2.0
 *
 * foliotd: settings from all sources, then the server, then an exit status: 0 an orderly end, 1 a
 * failure, 2 wrong settings.
 */
#define _GNU_SOURCE // environ

#include "broker/config.h"
#include "broker/server.h"
#include "lib/base/err.h"

#include <stdio.h>
#include <unistd.h>

#define TEXT_BYTES_MAX 262144

/* Print to standard output; false if it could not be written. */
static int show(struct buf *text)
{
    struct slice bytes = buf_slice(text);
    bool is_written = !text->failed && fwrite(bytes.data, 1, bytes.len, stdout) == bytes.len &&
                      fflush(stdout) == 0;

    return is_written ? SERVER_EXIT_OK : SERVER_EXIT_FAILED;
}

static int show_help(void)
{
    struct buf text;
    int status;

    buf_init(&text, TEXT_BYTES_MAX);
    config_help(&text);
    status = show(&text);
    buf_fini(&text);
    return status;
}

static int show_version(void)
{
    return printf("foliotd %s\n", FOLIOT_VERSION) > 0 ? SERVER_EXIT_OK : SERVER_EXIT_FAILED;
}

static int show_config(const struct config *config)
{
    struct buf text;
    int status;

    buf_init(&text, TEXT_BYTES_MAX);
    config_print(config, &text);
    status = show(&text);
    buf_fini(&text);
    return status;
}

static int act(const struct config *config, enum config_action action, struct config_report *report)
{
    char line[1024];

    switch (action) {
    case CONFIG_SHOW_CONFIG:
        return show_config(config);
    case CONFIG_CHECK_ONLY:
        if (server_tls_check(config, line, sizeof(line)) != 0) {
            (void)fprintf(stderr, "%s\nfoliotd: the settings cannot be used; see foliotd --help\n",
                          line);
            return SERVER_EXIT_USAGE;
        }
        (void)fputs(buf_text(&report->warnings), stderr);
        (void)fputs("foliotd: the settings are good\n", stderr);
        return SERVER_EXIT_OK;
    case CONFIG_RUN:
        return server_run(&(struct server_setup){.config = config,
                                                 .warnings = buf_text(&report->warnings),
                                                 .backend = &SERVER_CLUSTER},
                          1);
    case CONFIG_SHOW_HELP:
    case CONFIG_SHOW_VERSION:
        break;
    }
    return SERVER_EXIT_FAILED;
}

int main(int argc, char **argv)
{
    const struct config_input input = {argc, argv, environ};
    struct config_report report;
    struct config config;
    enum config_action action = CONFIG_RUN;
    int status = SERVER_EXIT_USAGE;
    int err;

    config_report_init(&report);
    err = config_load(&config, &input, &action, &report);
    if (action == CONFIG_SHOW_HELP || action == CONFIG_SHOW_VERSION) {
        status = action == CONFIG_SHOW_HELP ? show_help() : show_version();
    } else if (err == 0) {
        status = act(&config, action, &report);
    } else {
        (void)fprintf(stderr, "%sfoliotd: the settings cannot be used%s%s; see foliotd --help\n",
                      buf_text(&report.errors), err == ERR_INVALID ? "" : ": ",
                      err == ERR_INVALID ? "" : err_text(err));
    }
    if (err == 0) {
        config_fini(&config);
    }
    config_report_fini(&report);
    return status;
}
