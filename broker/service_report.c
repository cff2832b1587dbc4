/* SPDX-License-Identifier: Apache-2.0
 *
 * Outcomes of attempts whose shard has moved while they ran: told to the owner of now, again and
 * again until it has taken one, the claim's deadline has passed, or it is of no use. Best effort:
 * an owner that hears nothing waits for the deadline. And the other side: what an owner is told.
 * source: DESIGN 7, Release
 */
#include "broker/service_parts.h"

#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "proto/codec_peer.h"

#include <string.h>

/* Outcomes that wait to be told at once; a broker that goes leaves at most what it had running. */
#define REPORTS_MAX 16384U

/* Between two tries: doubles from the first to the last. A moved shard has its owner soon. */
#define REPORT_WAIT_MS_FIRST 20
#define REPORT_WAIT_MS_MAX   1000

/* One try takes at most this. */
#define REPORT_TRY_MS 5000

/* With no clock to read the claim's deadline by, it is told for this long. */
#define REPORT_BLIND_MS 60000

#define REPORT_BYTES_MAX (RESPONSE_BYTES_MAX + ERROR_TEXT_BYTES_MAX + 1024)

/* Responses of all reports that wait: beyond it an outcome is told without. */
#define REPORT_RESPONSES_MAX 67108864

_Static_assert((int)OUTCOME_DONE == (int)DELIVERY_DONE &&
                   (int)OUTCOME_RETRY == (int)DELIVERY_RETRY &&
                   (int)OUTCOME_DEAD == (int)DELIVERY_DEAD &&
                   (int)OUTCOME_OBSOLETE == (int)DELIVERY_OBSOLETE,
               "outcomes have the same numbers between brokers");
/* One outcome on its way. */
struct telling {
    struct list link; /* in service.tellings */
    struct service *service;
    struct report report; /* error_text and response are in `text` */
    boot_us give_up_us;   /* by then its claim is over */
    span_ms wait_ms;      /* before the next try */
    bool is_out;          /* `request` is with a peer */
    struct rpc_request request;
    struct buf bytes; /* of the request */
    struct loop_timer again;
    uint8_t text[]; /* of the receiver: its error, then its response */
};

static void tell(struct telling *telling);

/* ---- telling ---- */

static void free_telling(struct telling *telling)
{
    struct service *service = telling->service;

    loop_timer_stop(&telling->again);
    list_del(&telling->link);
    buf_fini(&telling->bytes);
    service->report_bytes -= telling->report.response.len;
    mem_free(telling);
    service->reports_waiting--;
    service_leave(service, 0);
}

static void tell_later(struct telling *telling)
{
    struct service *service = telling->service;
    boot_us at_us = time_add(loop_now_us(service->options.loop), telling->wait_ms * US_PER_MS);

    if (service->is_closing || at_us >= telling->give_up_us) {
        service->reports_dropped++;
        free_telling(telling);
        return;
    }
    telling->wait_ms = time_min(telling->wait_ms * 2, REPORT_WAIT_MS_MAX);
    loop_timer_start(&telling->again, at_us);
}

static void on_again(struct loop_timer *timer, void *ctx)
{
    (void)timer;
    tell(ctx);
}

/* Whether an answer is a word of its own that another try would only repeat. */
static bool is_final(const struct rpc_reply *reply)
{
    return reply->from_peer && reply->status != RPC_UNAVAILABLE &&
           reply->status != RPC_RESOURCE_EXHAUSTED && reply->status != RPC_DEADLINE_EXCEEDED;
}

static void on_told(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct telling *telling = ctx;

    (void)request;
    telling->is_out = false;
    if (reply->status == RPC_OK) {
        telling->service->reports_told++;
        free_telling(telling);
    } else if (is_final(reply)) {
        telling->service->reports_useless++;
        free_telling(telling);
    } else {
        tell_later(telling);
    }
}

static int ask_peer(struct telling *telling, const char *address)
{
    struct service *service = telling->service;
    boot_us end_us = time_add(loop_now_us(service->options.loop), REPORT_TRY_MS * US_PER_MS);

    telling->request = (struct rpc_request){
        .path = PEER_REPORT_PATH,
        .payload = buf_slice(&telling->bytes),
        .deadline_us = time_min(end_us, telling->give_up_us),
        .cb = on_told,
        .ctx = telling,
    };
    return service->is_closing ? ERR_CLOSED
                               : peers_call(service->peers, address, &telling->request);
}

/* The shard has come back to us meanwhile. */
static void tell_ourselves(struct telling *telling)
{
    struct service *service = telling->service;
    int err = broker_on_report(service->options.broker, service->options.now, &telling->report);

    if (err == ERR_UNAVAILABLE || err == ERR_FENCED) {
        tell_later(telling);
        return;
    }
    service->reports_told += err == 0;
    service->reports_useless += err != 0;
    free_telling(telling);
}

static void tell(struct telling *telling)
{
    const char *address = NULL;

    switch (broker_route(telling->service->options.broker, telling->report.shard, &address)) {
    case ROUTE_SELF:
        tell_ourselves(telling);
        return;
    case ROUTE_OTHER:
        telling->is_out = ask_peer(telling, address) == 0;
        break;
    case ROUTE_NOBODY:
        break;
    }
    if (!telling->is_out) {
        tell_later(telling);
    }
}

/* Our moment by which the claim's deadline has passed for sure. */
static boot_us give_up_of(const struct service *service, const struct report *report)
{
    uint32_t database = service->options.cluster->database_of[report->shard];
    int64_t proven_us = service->options.now->database[database].proven_us;
    int64_t left_us = REPORT_BLIND_MS * US_PER_MS;

    if (proven_us != INT64_MIN) {
        left_us = time_sub(time_mul(report->deadline_ms, US_PER_MS), proven_us);
    }
    return time_add(loop_now_us(service->options.loop), left_us);
}

static int write_report(struct telling *telling)
{
    const struct report *report = &telling->report;

    return codec_write_report(
        &(struct peer_report){
            .id = report->id,
            .attempt = report->attempt,
            .outcome = (enum delivery_outcome)report->outcome,
            .error = report->error_text,
            .response = report->response,
            .retry_after_ms = time_clamp(report->retry_after_ms, 0, DELAY_MS_MAX),
            .deadline_ms = report->deadline_ms,
        },
        &telling->bytes);
}

/* Keep what the receiver said, as long as there is room for responses. */
static struct telling *new_telling(const struct service *service, const struct report *report)
{
    size_t error_len = report->error_text.len;
    size_t response_len = report->response.len;
    struct telling *telling;

    if (service->report_bytes + response_len > REPORT_RESPONSES_MAX) {
        response_len = 0;
    }
    telling = mem_new(1, sizeof(*telling) + error_len + response_len);
    if (telling == NULL) {
        return NULL;
    }
    telling->report = *report;
    telling->report.error_text = (struct slice){telling->text, error_len};
    telling->report.response = (struct slice){telling->text + error_len, response_len};
    if (error_len > 0) {
        memcpy(telling->text, report->error_text.data, error_len);
    }
    if (response_len > 0) {
        memcpy(telling->text + error_len, report->response.data, response_len);
    }
    return telling;
}

void service_tell(struct service *service, const struct report *report)
{
    struct telling *telling = NULL;

    if (!service->is_closing && service->reports_waiting < REPORTS_MAX) {
        telling = new_telling(service, report);
    }
    if (telling == NULL) {
        service->reports_dropped++;
        return;
    }
    telling->service = service;
    service->report_bytes += telling->report.response.len;
    telling->give_up_us = give_up_of(service, report);
    telling->wait_ms = REPORT_WAIT_MS_FIRST;
    buf_init(&telling->bytes, REPORT_BYTES_MAX);
    loop_timer_init(&telling->again, service->options.loop, on_again, telling);
    list_init(&telling->link);
    list_add(&service->tellings, &telling->link);
    service->reports_waiting++;
    service_enter(service, 0);
    if (write_report(telling) != 0) {
        service->reports_dropped++;
        free_telling(telling);
        return;
    }
    // Not at once: the core is in the middle of letting go.
    loop_timer_start_in(&telling->again, 0);
}

void service_drop_reports(struct service *service)
{
    list_foreach_safe (node, after, &service->tellings) {
        struct telling *telling = LIST_ENTRY(node, struct telling, link);

        if (!telling->is_out) { // The others end with the peers.
            service->reports_dropped++;
            free_telling(telling);
        }
    }
}

/* ---- being told ---- */

static void refuse_report(struct service *service, struct rpc_call *rpc, int err,
                          const struct report *report)
{
    struct fault fault;

    service->reports_refused++;
    switch (err) {
    case ERR_FENCED:
        service_owner_fault(&fault, report->shard, true);
        break;
    case ERR_NOT_FOUND:
        fault_set(&fault, RPC_NOT_FOUND, REASON_CLAIM_NOT_LIVE, NULL,
                  "the attempt is not the live claim of a pending task: its outcome is of no use");
        break;
    default:
        fault_set_err(&fault, err, "cannot take the outcome yet");
        break;
    }
    service_fail(service, rpc, &fault);
}

void service_report(struct rpc_call *rpc, struct slice request, void *ctx)
{
    struct service *service = ctx;
    struct broker *broker = service->options.broker;
    struct peer_report told;
    struct report report;
    struct arena arena;
    struct fault fault;
    int err;

    arena_init(&arena, 0);
    err = codec_read_report(request, &arena, &told, &fault);
    if (err != 0) {
        service->reports_refused++;
        service_fail(service, rpc, &fault);
        arena_fini(&arena);
        return;
    }
    report = (struct report){
        .id = told.id,
        .shard = shard_of_slot(told.id.slot, broker_shard_count(broker)),
        .attempt = told.attempt,
        .outcome = (enum outcome)told.outcome,
        .retry_after_ms = told.retry_after_ms,
        .deadline_ms = told.deadline_ms,
        .error_text = told.error,
        .response = told.response,
    };
    err = broker_on_report(broker, service->options.now, &report);
    if (err != 0) {
        refuse_report(service, rpc, err, &report);
    } else {
        service->reports_taken++;
        (void)service_scratch(service);
        service_reply(service, rpc, 0);
    }
    arena_fini(&arena);
}
