/* SPDX-License-Identifier: Apache-2.0
 *
 * foliot completion, version, help: what is about this command itself.
 */
#include "client/cli/cli.h"
#include "client/cli/command.h"
#include "client/cli/complete.h"
#include "client/cli/help.h"
#include "client/cli/output.h"

static const struct output_column COLUMNS[] = {{"VERSION", false}, {"API", false}};
static const struct output_layout LAYOUT = {COLUMNS, ARRAY_COUNT(COLUMNS), 0, NULL};

/* Of the package foliot.v1. */
#define API_VERSION "foliot.v1"

static int version_run(const struct args *args)
{
    struct output output;
    int code = output_init(&output, args, &LAYOUT);

    if (code == CLI_OK && output_wants_json(&output)) {
        struct json *json = output_json(&output);

        json_open(json, NULL, '{');
        json_text(json, "version", FOLIOT_VERSION);
        json_text(json, "api", API_VERSION);
        json_close(json, '}');
        output_json_done(&output);
    } else if (code == CLI_OK && output.format == OUTPUT_TABLE && output.is_record) {
        (void)buf_printf(&output.text, "foliot %s\n", FOLIOT_VERSION);
    } else if (code == CLI_OK) {
        output_row(&output, (const char *const[]){FOLIOT_VERSION, API_VERSION});
    }
    if (code == CLI_OK) {
        code = output_end(&output);
    }
    output_fini(&output);
    return code;
}

const struct command OTHER_COMMANDS[] = {
    {"completion", "", "bash|zsh", 1, "Print a script that completes words of this command.",
     "  . <(foliot completion bash)\n"
     "  foliot completion zsh > ~/.zsh/completions/_foliot\n",
     NULL, 0, completion_run, 0},
    {"version", "", "", 0, "Print the version.", "  foliot version\n  foliot version -o json\n",
     NULL, 0, version_run, COMMAND_ROWS},
    {"help", "", "[NOUN [VERB]]", 2, "Show help about everything, a noun, or a command.",
     "  foliot help\n  foliot help task\n  foliot help task create\n", NULL, 0, help_run, 0},
};
const size_t OTHER_COMMAND_COUNT = ARRAY_COUNT(OTHER_COMMANDS);
