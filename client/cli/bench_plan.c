/* SPDX-License-Identifier: Apache-2.0
 *
 * Plans.
 */
#include "client/cli/bench_plan.h"

#include "client/cli/cli.h"
#include "lib/base/mem.h"
#include "lib/base/prng.h"
#include "lib/io/entropy.h"

#include <string.h>

#define PAYLOAD_DEFAULT     100
#define PATIENCE_MS         30000
#define CONCURRENCY_DEFAULT 20000
#define CONCURRENCY_MAX     1000000
#define DURATION_MS_MAX     INT64_C(86400000)
#define DURATION_MS         5000
#define WARMUP_MS           1000

/* What a mode does if nothing is said. */
struct defaults {
    const char *name;
    const char *delay;
    int64_t rate;
    int64_t outstanding;
    int64_t batch;
    int64_t count; /* 0: as many as the time allows */
    span_ms warmup_ms;
    bool is_batched; /* its calls are always those of batches */
};

static const struct defaults MODES[BENCH_MODE_COUNT] = {
    [BENCH_PRECISION] = {"precision", "1s..3s", 500, 64, 1, 0, WARMUP_MS, false},
    [BENCH_CREATE] = {"create", "30d", 0, 64, 1, 0, WARMUP_MS, false},
    [BENCH_CREATE_BATCH] = {"create-batch", "30d", 0, 8, 500, 0, WARMUP_MS, true},
    [BENCH_DRAIN] = {"drain", "0ms", 0, 8, 500, 100000, 0, true},
    [BENCH_STEADY] = {"steady", "1s..3s", 5000, 64, 100, 0, WARMUP_MS, false},
    [BENCH_CANCEL] = {"cancel", "1d", 0, 64, 1, 50000, 0, false},
    [BENCH_MIXED] = {"mixed", "1s..3s,1s..3s,1s..3s,1d", 2000, 64, 1, 0, WARMUP_MS, false},
};

const char *bench_mode_name(enum bench_mode mode)
{
    return MODES[mode].name;
}

int plan_make_payload(int64_t bytes, uint64_t seed, struct slice *out)
{
    uint8_t *data = mem_new((size_t)time_max(bytes, 1), 1);
    struct prng prng;

    if (data == NULL) {
        cli_say("no memory for a payload of %lld bytes", (long long)bytes);
        return ERR_NO_MEMORY;
    }
    prng_init(&prng, seed);
    for (int64_t i = 0; i < bytes; i++) {
        data[i] = (uint8_t)('a' + prng_below(&prng, 26));
    }
    *out = (struct slice){data, (size_t)bytes};
    return 0;
}

void plan_free_payload(struct slice *payload)
{
    mem_free((void *)(uintptr_t)payload->data);
    payload->data = NULL;
}

static int read_numbers(const struct args *args, struct plan *plan)
{
    struct load_options *load = &plan->load;
    int64_t concurrency = CONCURRENCY_DEFAULT;
    int64_t port = 0;

    if (args_number(args, "rate", 0, PLAN_RATE_MAX, &load->rate) != 0 ||
        args_number(args, "outstanding", 1, LOAD_OUTSTANDING_MAX, &load->outstanding) != 0 ||
        args_number(args, "batch", 1, BATCH_ITEM_COUNT_MAX, &load->batch) != 0 ||
        args_number(args, "count", 1, LOAD_COUNT_MAX, &plan->count) != 0 ||
        args_number(args, "concurrency", 1, CONCURRENCY_MAX, &concurrency) != 0 ||
        args_number(args, "receiver-port", 0, UINT16_MAX, &port) != 0) {
        return CLI_USAGE;
    }
    plan->concurrency = (uint32_t)concurrency;
    plan->port = (uint16_t)port;
    plan->address = args_text(args, "receiver", "127.0.0.1");
    plan->keep = args_has(args, "keep");
    load->is_batched = MODES[plan->mode].is_batched || load->batch > 1;
    return CLI_OK;
}

static int read_spans(const struct args *args, struct plan *plan)
{
    struct load_options *load = &plan->load;
    const char *delay = plan->delay;

    plan->duration_ms = DURATION_MS;
    plan->await_ms = PLAN_AWAIT_MS;
    load->patience_ms = PATIENCE_MS;
    if (args_span(args, "duration", &plan->duration_ms) != 0 ||
        args_span(args, "warmup", &load->warmup_ms) != 0 ||
        args_span(args, "patience", &load->patience_ms) != 0 ||
        args_span(args, "await", &plan->await_ms) != 0 ||
        args_span(args, "lead", &plan->lead_ms) != 0) {
        return CLI_USAGE;
    }
    if (plan->duration_ms < 1 || plan->duration_ms > DURATION_MS_MAX ||
        load->warmup_ms > DURATION_MS_MAX || load->patience_ms > DURATION_MS_MAX ||
        plan->lead_ms > DURATION_MS_MAX || plan->await_ms > DURATION_MS_MAX) {
        return cli_usage("--duration must be 1ms to 1d, --warmup, --patience, --await and --lead "
                         "at most 1d (DURATION_MS_MAX)");
    }
    if (delays_parse(delay, &plan->mix.delays) != 0) {
        return cli_usage("--delay \"%s\" is no delay; one looks like 5s, 1s..10s, exp:30s, or some "
                         "of them with commas, each drawn equally often; at most %d of them "
                         "(DELAY_PART_COUNT_MAX) and a hundred years (DELAY_MS_MAX)",
                         delay, DELAY_PART_COUNT_MAX);
    }
    return CLI_OK;
}

static int read_mix(const struct args *args, struct plan *plan)
{
    int64_t payload_bytes = PAYLOAD_DEFAULT;
    int64_t keyed_percent = 0;
    int64_t seed = -1;

    if (args_number(args, "payload-bytes", 0, PAYLOAD_BYTES_MAX, &payload_bytes) != 0 ||
        args_number(args, "keyed", 0, 100, &keyed_percent) != 0 ||
        args_number(args, "seed", 0, INT64_MAX / 16, &seed) != 0) {
        return CLI_USAGE;
    }
    if (payload_bytes * plan->load.batch > RPC_MESSAGE_BYTES_MAX * 9 / 10) {
        return cli_usage("--batch %lld tasks of --payload-bytes %lld are more than a message may "
                         "have, %d bytes (RPC_MESSAGE_BYTES_MAX); make one of them smaller",
                         (long long)plan->load.batch, (long long)payload_bytes,
                         RPC_MESSAGE_BYTES_MAX);
    }
    plan->mix.seed = seed < 0 ? entropy_u64() : (uint64_t)seed;
    plan->mix.keyed_permille = (uint32_t)keyed_percent * 10;
    return plan_make_payload(payload_bytes, plan->mix.seed, &plan->mix.payload) == 0 ? CLI_OK
                                                                                     : CLI_ERROR;
}

/* What makes no sense of a mode. */
static int check(const struct args *args, const struct plan *plan)
{
    const char *name = bench_mode_name(plan->mode);

    if (plan->mode == BENCH_MIXED && plan->load.is_batched) {
        return cli_usage("bench mixed makes single calls: leave out --batch");
    }
    if (plan->mode == BENCH_DRAIN && args_has(args, "delay")) {
        return cli_usage("bench drain has all tasks due at one instant: leave out --delay; --lead "
                         "says how far ahead that is");
    }
    if (plan->mode != BENCH_DRAIN && args_has(args, "lead")) {
        return cli_usage("--lead is for bench drain; bench %s has --delay", name);
    }
    return CLI_OK;
}

/* How long and how many. */
static void bound(struct plan *plan)
{
    struct load_options *load = &plan->load;

    load->count = plan->count > 0 ? plan->count : LOAD_COUNT_MAX;
    if (plan->mode != BENCH_DRAIN) {
        load->duration_ms = load->warmup_ms + plan->duration_ms;
    }
}

int plan_read(enum bench_mode mode, const struct args *args, struct plan *out)
{
    const struct defaults *defaults = &MODES[mode];
    int code;

    memset(out, 0, sizeof(*out));
    out->mode = mode;
    out->count = defaults->count;
    out->delay = args_text(args, "delay", defaults->delay);
    out->load.rate = defaults->rate;
    out->load.outstanding = defaults->outstanding;
    out->load.batch = defaults->batch;
    out->load.warmup_ms = defaults->warmup_ms;
    code = read_numbers(args, out);
    if (code == CLI_OK) {
        code = read_spans(args, out);
    }
    if (code == CLI_OK) {
        code = read_mix(args, out);
    }
    if (code == CLI_OK) {
        code = check(args, out);
    }
    bound(out);
    return code;
}

void plan_fini(struct plan *plan)
{
    plan_free_payload(&plan->mix.payload);
}
