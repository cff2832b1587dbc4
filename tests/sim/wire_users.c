/* SPDX-License-Identifier: Apache-2.0
 *
 * Users with real channels to the brokers. What a status means is read as docs/ERRORS.md has it:
 * UNAVAILABLE and RESOURCE_EXHAUSTED of a broker, and what the channel proves to be unprocessed,
 * did not happen; whatever else is no answer of a broker may have happened.
 */
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"
#include "lib/rpc/grpc_header.h"
#include "lib/rpc/rpc_client.h"
#include "proto/fault.h"
#include "tests/sim/check_parts.h"
#include "tests/sim/sim_node.h"
#include "tests/sim/wire.h"

#include "foliot/v1/queue.pb-c.h"
#include "foliot/v1/task.pb-c.h"

#include <stdio.h>
#include <string.h>

#define NS_PER_MS 1000000

/* Patience of users. */
#define PATIENCE_US_MIN (300 * US_PER_MS)
#define PATIENCE_US_MAX (15 * US_PER_S)

/* Largest payload of the load, with some room. */
#define PAYLOAD_ROOM 2048

struct wire_users {
    struct wire_proc proc;
    struct prng draws;
    struct rpc_channel *channels[SIM_NODE_COUNT_MAX];
    struct list asks; /* under way */
};

/* One call. Not moved until its reply. */
struct ask {
    struct list link;
    struct wire_users *users;
    struct sim_errand *errand;
    struct rpc_request request;
    uint8_t *message;
    char id[TASK_ID_TEXT_LEN + 1];
    char key[16];
    char queue[32];
    uint8_t payload[PAYLOAD_ROOM];
};

/* ---- requests ---- */

static Google__Protobuf__Timestamp *set_time(Google__Protobuf__Timestamp *to, wall_ms at_ms)
{
    google__protobuf__timestamp__init(to);
    to->seconds = at_ms / MS_PER_S;
    to->nanos = (int32_t)(at_ms % MS_PER_S * NS_PER_MS);
    return to;
}

static Google__Protobuf__Duration *set_span(Google__Protobuf__Duration *to, span_ms span)
{
    google__protobuf__duration__init(to);
    to->seconds = span / MS_PER_S;
    to->nanos = (int32_t)(span % MS_PER_S * NS_PER_MS);
    return to;
}

static void set_message(struct ask *ask, const char *path, const ProtobufCMessage *message)
{
    size_t len = protobuf_c_message_get_packed_size(message);

    ask->message = mem_new(1, len + 1);
    REQUIRE(ask->message != NULL);
    ask->request.path = path;
    ask->request.payload =
        (struct slice){ask->message, protobuf_c_message_pack(message, ask->message)};
}

static ProtobufCBinaryData payload_of(struct ask *ask)
{
    struct slice payload = ask->errand->call->task.payload;
    uint64_t token = check_token(payload);

    REQUIRE(payload.len <= sizeof(ask->payload));
    memcpy(ask->payload, &token, sizeof(token));
    for (size_t i = sizeof(token); i < payload.len; i++) {
        ask->payload[i] = wire_pattern(token, i);
    }
    return (ProtobufCBinaryData){payload.len, ask->payload};
}

static void set_create(struct ask *ask)
{
    const struct call *call = ask->errand->call;
    Foliot__V1__CreateTaskRequest request;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Timestamp latest;
    Google__Protobuf__Timestamp expire;
    Google__Protobuf__Duration delay;
    char tenant[] = "sim";

    foliot__v1__create_task_request__init(&request);
    request.namespace_ = tenant;
    request.queue = ask->queue;
    request.payload = payload_of(ask);
    if (call->is_delay) {
        request.when_case = FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DELAY;
        request.delay = set_span(&delay, call->delay_ms);
    } else {
        request.when_case = FOLIOT__V1__CREATE_TASK_REQUEST__WHEN_DUE_TIME;
        request.due_time = set_time(&due, call->task.due_ms);
    }
    if (ask->errand->key != 0) {
        request.key = ask->key;
        request.key_policy = (Foliot__V1__KeyPolicy)call->key_policy;
    }
    if (call->replace_latest_ms != 0 && call->key_policy == KEY_REPLACE) {
        request.latest_time = set_time(&latest, call->replace_latest_ms);
    }
    if (call->task.expire_ms != 0) {
        request.expire_time = set_time(&expire, call->task.expire_ms);
    }
    set_message(ask, "/foliot.v1.TaskService/Create", &request.base);
}

/* By key or by id. */
static bool is_by_key(const struct ask *ask)
{
    return ask->errand->call->task.id.seq == 0;
}

static void set_cancel(struct ask *ask)
{
    Foliot__V1__CancelTaskRequest request;
    char tenant[] = "sim";

    foliot__v1__cancel_task_request__init(&request);
    request.namespace_ = tenant;
    request.queue = ask->queue;
    request.task_case = is_by_key(ask) ? FOLIOT__V1__CANCEL_TASK_REQUEST__TASK_KEY
                                       : FOLIOT__V1__CANCEL_TASK_REQUEST__TASK_ID;
    request.id = is_by_key(ask) ? ask->key : ask->id;
    set_message(ask, "/foliot.v1.TaskService/Cancel", &request.base);
}

static void set_get(struct ask *ask)
{
    Foliot__V1__GetTaskRequest request;
    char tenant[] = "sim";

    foliot__v1__get_task_request__init(&request);
    request.namespace_ = tenant;
    request.queue = ask->queue;
    request.task_case = is_by_key(ask) ? FOLIOT__V1__GET_TASK_REQUEST__TASK_KEY
                                       : FOLIOT__V1__GET_TASK_REQUEST__TASK_ID;
    request.id = is_by_key(ask) ? ask->key : ask->id;
    set_message(ask, "/foliot.v1.TaskService/Get", &request.base);
}

static void set_update(struct ask *ask)
{
    const struct call *call = ask->errand->call;
    Foliot__V1__UpdateTaskRequest request;
    Google__Protobuf__Timestamp due;
    Google__Protobuf__Duration delay;
    char tenant[] = "sim";

    foliot__v1__update_task_request__init(&request);
    request.namespace_ = tenant;
    request.queue = ask->queue;
    request.task_case = is_by_key(ask) ? FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_KEY
                                       : FOLIOT__V1__UPDATE_TASK_REQUEST__TASK_ID;
    request.id = is_by_key(ask) ? ask->key : ask->id;
    if (call->set_due && call->is_delay) {
        request.when_case = FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DELAY;
        request.delay = set_span(&delay, call->delay_ms);
    } else if (call->set_due) {
        request.when_case = FOLIOT__V1__UPDATE_TASK_REQUEST__WHEN_DUE_TIME;
        request.due_time = set_time(&due, call->task.due_ms);
    }
    if (call->set_payload) {
        request.change_case = FOLIOT__V1__UPDATE_TASK_REQUEST__CHANGE_PAYLOAD;
        request.payload = payload_of(ask);
    }
    set_message(ask, "/foliot.v1.TaskService/Update", &request.base);
}

static void set_redrive(struct ask *ask, char *page_token)
{
    Foliot__V1__RedriveDeadRequest request;
    char *ids[] = {ask->id};
    char tenant[] = "sim";

    foliot__v1__redrive_dead_request__init(&request);
    request.namespace_ = tenant;
    request.queue = ask->queue;
    request.n_ids = ARRAY_COUNT(ids);
    request.ids = ids;
    request.page_token = page_token;
    set_message(ask, "/foliot.v1.QueueService/RedriveDead", &request.base);
}

static void set_request(struct ask *ask)
{
    char none[] = "";

    switch (ask->errand->call->kind) {
    case CALL_CREATE:
        set_create(ask);
        break;
    case CALL_GET:
        set_get(ask);
        break;
    case CALL_CANCEL:
        set_cancel(ask);
        break;
    case CALL_UPDATE:
        set_update(ask);
        break;
    case CALL_REDRIVE:
        set_redrive(ask, none);
        break;
    case CALL_SCAN:
    case CALL_PURGE:
        UNREACHABLE(); // The load makes no such calls.
    }
}

/* ---- answers ---- */

static wall_ms time_of(const Google__Protobuf__Timestamp *time)
{
    return time == NULL ? WALL_NEVER : time->seconds * MS_PER_S + time->nanos / NS_PER_MS;
}

/* Whose answer it is. False: no id. */
static bool read_id(struct call *call, const char *text, uint32_t shard_count)
{
    if (task_id_parse(slice_of(text), &call->found) != 0) {
        return false;
    }
    call->shard = shard_of_slot(call->found.slot, shard_count);
    return true;
}

static bool read_create(struct call *call, struct slice bytes, uint32_t shard_count)
{
    Foliot__V1__CreateTaskResponse *response =
        foliot__v1__create_task_response__unpack(NULL, bytes.len, bytes.data);
    bool is_fine = response != NULL && read_id(call, response->id, shard_count);

    if (is_fine) {
        call->created = response->created != 0;
        call->found_due_ms = time_of(response->due_time);
    }
    foliot__v1__create_task_response__free_unpacked(response, NULL);
    return is_fine;
}

static bool read_cancel(struct call *call, struct slice bytes, uint32_t shard_count)
{
    Foliot__V1__CancelTaskResponse *response =
        foliot__v1__cancel_task_response__unpack(NULL, bytes.len, bytes.data);
    bool is_fine = response != NULL &&
                   response->outcome >= FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_CANCELLED &&
                   response->outcome <= FOLIOT__V1__CANCEL_OUTCOME__CANCEL_OUTCOME_NOT_FOUND &&
                   (read_id(call, response->id, shard_count) || response->id[0] == '\0');

    if (is_fine) {
        call->cancel = (enum cancel_outcome)response->outcome;
        call->attempt = response->attempt;
    }
    foliot__v1__cancel_task_response__free_unpacked(response, NULL);
    return is_fine;
}

static bool read_update(struct call *call, struct slice bytes, uint32_t shard_count)
{
    Foliot__V1__UpdateTaskResponse *response =
        foliot__v1__update_task_response__unpack(NULL, bytes.len, bytes.data);
    bool is_fine = response != NULL && read_id(call, response->id, shard_count);

    if (is_fine) {
        call->attempt = response->may_be_running_attempt;
        call->found_due_ms = time_of(response->due_time);
    }
    foliot__v1__update_task_response__free_unpacked(response, NULL);
    return is_fine;
}

/* The number in "queue-7". False: it is no such name. */
static bool read_queue(const char *name, uint32_t *out)
{
    static const char START[] = "queue-";
    int64_t number = 0;

    if (strncmp(name, START, sizeof(START) - 1) != 0 ||
        grpc_number_parse(slice_of(name + sizeof(START) - 1), &number) != 0) {
        return false;
    }
    *out = (uint32_t)number;
    return true;
}

static bool read_get(struct call *call, struct slice bytes, uint32_t shard_count)
{
    Foliot__V1__GetTaskResponse *response =
        foliot__v1__get_task_response__unpack(NULL, bytes.len, bytes.data);
    bool is_fine = response != NULL && response->task != NULL &&
                   read_id(call, response->task->id, shard_count) &&
                   read_queue(response->task->queue, &call->row.queue);

    if (is_fine) {
        call->row.id = call->found;
    }
    foliot__v1__get_task_response__free_unpacked(response, NULL);
    return is_fine;
}

/* The page token of a redrive that has not come to its end; empty otherwise. */
static bool read_redrive(struct call *call, struct slice bytes, char *token, size_t size)
{
    Foliot__V1__RedriveDeadResponse *response =
        foliot__v1__redrive_dead_response__unpack(NULL, bytes.len, bytes.data);

    if (response == NULL) {
        return false;
    }
    token[0] = '\0';
    if (response->redriven == 0 && response->skipped > 0) {
        call->result = ERR_EXISTS;
    } else if (response->redriven == 0) {
        (void)snprintf(token, size, "%s", response->next_page_token);
        call->result = token[0] == '\0' ? ERR_NOT_FOUND : 0;
    }
    foliot__v1__redrive_dead_response__free_unpacked(response, NULL);
    return true;
}

static bool read_answer(struct ask *ask, struct slice bytes, char *token, size_t size)
{
    struct call *call = ask->errand->call;
    uint32_t shard_count = ask->users->proc.sim->options.shard_count;

    call->result = 0;
    token[0] = '\0';
    switch (call->kind) {
    case CALL_CREATE:
        return read_create(call, bytes, shard_count);
    case CALL_GET:
        return read_get(call, bytes, shard_count);
    case CALL_CANCEL:
        return read_cancel(call, bytes, shard_count);
    case CALL_UPDATE:
        return read_update(call, bytes, shard_count);
    case CALL_REDRIVE:
        return read_redrive(call, bytes, token, size);
    case CALL_SCAN:
    case CALL_PURGE:
        break;
    }
    UNREACHABLE();
}

/* A broker's no. The result that it stands for; 0: it may have happened, nobody knows. */
static int result_of_fault(const struct ask *ask, const struct fault *fault)
{
    if (fault->status == RPC_UNAVAILABLE) {
        return ERR_UNAVAILABLE;
    }
    if (fault->status == RPC_RESOURCE_EXHAUSTED) {
        return ERR_FULL;
    }
    if (fault->status == RPC_UNKNOWN && strcmp(fault->reason, "OUTCOME_UNKNOWN") == 0) {
        return ERR_OUTCOME_UNKNOWN;
    }
    if (fault->status == RPC_ALREADY_EXISTS ||
        (fault->status == RPC_INVALID_ARGUMENT && ask->errand->call->task.expire_ms != 0 &&
         strcmp(fault->reason, "TIME_OUT_OF_RANGE") == 0)) {
        return ERR_EXISTS; // Or an end before its due time: no either way, and final.
    }
    if (fault->status == RPC_FAILED_PRECONDITION && strcmp(fault->reason, "QUEUE_DRAINING") == 0) {
        return ERR_CONFLICT;
    }
    if (fault->status == RPC_NOT_FOUND && strcmp(fault->reason, "TASK_NOT_FOUND") == 0) {
        return ERR_NOT_FOUND;
    }
    if (fault->status == RPC_NOT_FOUND && strcmp(fault->reason, "TASK_GONE") == 0) {
        return ERR_GONE;
    }
    if (fault->status != RPC_DEADLINE_EXCEEDED && fault->status != RPC_CANCELLED &&
        ask->users->proc.sim->options.no_memory_permille == 0) { // Else its reason may be lost.
        sim_fail(ask->users->proc.sim, SIM_UNSAFE, "K-8",
                 "a call of kind %u was answered %d %s: %s", ask->errand->call->kind,
                 (int)fault->status, fault->reason, fault->message);
    }
    return 0;
}

static void end_ask(struct ask *ask, bool is_lost)
{
    struct sim *sim = ask->users->proc.sim;
    struct sim_errand *errand = ask->errand;
    bool was_in_core;

    list_del(&ask->link);
    mem_free(ask->message);
    mem_free(ask);
    was_in_core = sim_enter_world(sim);
    errand->done(errand, is_lost);
    sim_leave_world(sim, was_in_core);
}

static void put_through(struct ask *ask);

static void on_reply(struct rpc_request *request, const struct rpc_reply *reply, void *ctx)
{
    struct ask *ask = ctx;
    struct call *call = ask->errand->call;
    struct fault fault;
    char token[256];

    (void)request;
    TRACE(&ask->users->proc.sim->trace, "replied", (int64_t)ask->errand->number, reply->status,
          reply->unprocessed, reply->from_peer);
    if (reply->status == RPC_OK) {
        if (!read_answer(ask, reply->payload, token, sizeof(token))) {
            sim_fail(ask->users->proc.sim, SIM_UNSAFE, "wire", "an answer arrived torn");
            end_ask(ask, true);
            return;
        }
        if (token[0] != '\0') {
            mem_free(ask->message);
            set_redrive(ask, token);
            put_through(ask);
            return;
        }
        end_ask(ask, false);
        return;
    }
    if (reply->unprocessed) {
        call->result = ERR_UNAVAILABLE;
    } else if (reply->from_peer) {
        fault_decode(&fault, reply->status, reply->message, reply->details);
        call->result = result_of_fault(ask, &fault);
    } else {
        call->result =
            ask->users->proc.sim->options.mutant == SIM_MUTANT_WIRE_PROOF ? ERR_UNAVAILABLE : 0;
    }
    end_ask(ask, call->result == 0);
}

/* ---- calls ---- */

static void put_through(struct ask *ask)
{
    struct wire_users *users = ask->users;
    struct rpc_channel *channel = users->channels[ask->errand->to->number];
    const char *path = ask->request.path;
    struct slice payload = ask->request.payload;

    ask->request = (struct rpc_request){
        .path = path,
        .payload = payload,
        .deadline_us = loop_now_us(users->proc.loop) +
                       prng_between(&users->draws, PATIENCE_US_MIN, PATIENCE_US_MAX),
        .cb = on_reply,
        .ctx = ask};
    if (rpc_channel_call(channel, &ask->request) != 0) {
        ask->errand->call->result = ERR_UNAVAILABLE;
        end_ask(ask, false);
    }
}

void wire_users_carry(struct wire_users *users, struct sim_errand *errand)
{
    struct wire_visit former = wire_enter(&users->proc);
    struct ask *ask = mem_new(1, sizeof(*ask));

    REQUIRE(ask != NULL);
    (void)loop_sample_us(users->proc.loop);
    ask->users = users;
    ask->errand = errand;
    task_id_format(errand->call->task.id, ask->id);
    (void)snprintf(ask->key, sizeof(ask->key), "%08llx", (unsigned long long)errand->key);
    (void)snprintf(ask->queue, sizeof(ask->queue), "queue-%u", errand->call->task.queue);
    list_add(&users->asks, &ask->link);
    set_request(ask);
    put_through(ask);
    wire_leave(former);
}

/* ---- life ---- */

struct wire_users *wire_users_new(struct sim *sim)
{
    struct wire_users *users = sim_need(1, sizeof(*users));
    struct wire_visit former;

    wire_proc_init(&users->proc, sim, NULL, "10.0.9.9");
    prng_init_named(&users->draws, sim->options.seed, "wire-users");
    list_init(&users->asks);
    former = wire_enter(&users->proc);
    REQUIRE(loop_open(&users->proc.loop) == 0);
    for (uint32_t i = 0; i < sim->options.node_count; i++) {
        struct rpc_channel_options options;
        char target[32];

        (void)snprintf(target, sizeof(target), "10.0.0.%u:%d", i + 1, WIRE_NODE_PORT);
        rpc_channel_options_init(&options);
        options.target = target;
        REQUIRE(rpc_channel_open(users->proc.loop, &options, &users->channels[i]) == 0);
    }
    wire_leave(former);
    return users;
}

/* Calls under way are dropped: the run is over. */
void wire_users_free(struct wire_users *users)
{
    struct list *link;

    while ((link = list_first(&users->asks)) != NULL) {
        end_ask(LIST_ENTRY(link, struct ask, link), true);
    }
    wire_loop_drop(users->proc.loop);
    wire_proc_forget(&users->proc);
    mem_free(users);
}
