/* SPDX-License-Identifier: Apache-2.0
 *
 * Running a command that asks brokers.
 */
#include "client/cli/run.h"

#include "client/cli/cli.h"

int run_open(struct run *run, const struct args *args, const struct output_layout *layout)
{
    int code = output_init(&run->output, args, layout);

    if (code == CLI_OK) {
        code = session_open(&run->session, args);
    }
    if (code != CLI_OK) {
        output_fini(&run->output);
        return code;
    }
    run->args = args;
    buf_init(&run->request, RPC_MESSAGE_BYTES_MAX);
    buf_init(&run->reply, RPC_MESSAGE_BYTES_MAX);
    arena_init(&run->arena, 0);
    return CLI_OK;
}

int run_close(struct run *run, int code)
{
    arena_fini(&run->arena);
    buf_fini(&run->reply);
    buf_fini(&run->request);
    session_close(&run->session);
    output_fini(&run->output);
    return code;
}

int run_call(struct run *run, int wrote, const char *path, bool is_repeatable, const char *what)
{
    int code;

    if (wrote != 0) {
        return cli_usage("%s: the request has more than %d bytes (RPC_MESSAGE_BYTES_MAX)", what,
                         (int)RPC_MESSAGE_BYTES_MAX);
    }
    arena_fini(&run->arena);
    buf_clear(&run->reply);
    code = session_call(&run->session, path, buf_slice(&run->request), is_repeatable, &run->reply,
                        &run->fault);
    return code == CLI_OK ? CLI_OK : session_complain(&run->session, what, &run->fault);
}

int run_refuse_answer(struct run *run)
{
    cli_say("the answer cannot be read: %s", run->fault.message);
    return CLI_ERROR;
}
