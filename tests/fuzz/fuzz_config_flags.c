/* SPDX-License-Identifier: Apache-2.0
 *
 * Any lines as the broker's flags and environment: what is let through keeps its ranges and
 * relations and prints as YAML that can be read; what is not has a line that says so; nothing
 * leaks.
 */
#include "broker/config.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/yaml/flat_yaml.h"

#include <string.h>

#define LINE_COUNT_MAX 24
#define TEXT_LEN_MAX   4096

/* Lines of the input; those that begin with a capital are environment. */
struct lines {
    char text[TEXT_LEN_MAX + 1];
    char *flags[LINE_COUNT_MAX + 2];
    char *environment[LINE_COUNT_MAX + 1];
    int flag_count;
    int environment_count;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Files are not this target's matter. */
static bool names_a_file(const char *line)
{
    return strncmp(line, "--config", 8) == 0 || strncmp(line, "FOLIOT_CONFIG", 13) == 0;
}

static void add_line(struct lines *lines, char *line)
{
    if (names_a_file(line)) {
        return;
    }
    if (line[0] >= 'A' && line[0] <= 'Z') {
        lines->environment[lines->environment_count++] = line;
    } else {
        lines->flags[lines->flag_count++] = line;
    }
}

static void split(struct lines *lines, const uint8_t *data, size_t size)
{
    static char program[] = "foliotd";
    size_t len = size < TEXT_LEN_MAX ? size : TEXT_LEN_MAX;
    char *line = lines->text;

    memset(lines, 0, sizeof(*lines));
    if (len > 0) {
        memcpy(lines->text, data, len);
    }
    lines->flags[lines->flag_count++] = program;
    for (int i = 0; i < LINE_COUNT_MAX; i++) {
        char *end = strchr(line, '\n');

        if (end != NULL) {
            *end = '\0';
        }
        add_line(lines, line);
        if (end == NULL) {
            break;
        }
        line = end + 1;
    }
}

static void on_entry(void *ctx, const struct flat_entry *entry)
{
    size_t *count = ctx;

    REQUIRE(entry->item_count <= YAML_ITEM_COUNT_MAX);
    (*count)++;
}

/* What is printed can be read again. */
static void check_print(const struct config *config)
{
    struct buf text;
    struct buf errors;
    size_t count = 0;

    buf_init(&text, (size_t)1 << 20);
    buf_init(&errors, 65536);
    config_print(config, &text);
    REQUIRE(!text.failed);
    REQUIRE(flat_yaml_parse("printed", buf_slice(&text), on_entry, &count, &errors) == 0);
    REQUIRE(count > 10);
    buf_fini(&text);
    buf_fini(&errors);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct lines lines;
    static struct config config;
    int64_t blocks = mem_block_count();
    struct config_report report;
    enum config_action action = CONFIG_RUN;
    int err;

    split(&lines, data, size);
    config_report_init(&report);
    err = config_load(&config,
                      &(struct config_input){.argc = lines.flag_count,
                                             .argv = lines.flags,
                                             .environment = lines.environment},
                      &action, &report);
    REQUIRE(err == 0 || err == ERR_INVALID);
    if (err == 0) {
        check_print(&config);
        config_fini(&config);
    } else {
        REQUIRE(buf_len(&report.errors) > 0);
    }
    config_report_fini(&report);
    REQUIRE(mem_block_count() == blocks);
    return 0;
}
