/* SPDX-License-Identifier: Apache-2.0
 *
 * PlanMembers and DrainBroker.
 */
#include "proto/codec_plan.h"

#include "lib/base/check.h"
#include "lib/base/err.h"
#include "proto/message.h"
#include "proto/values.h"

#include <foliot/v1/cluster.pb-c.h>
#include <string.h>

#define MOVES_NUMBER  1
#define SHARES_NUMBER 2

_Static_assert(SHARD_COUNT_MAX + 2 * MEMBER_COUNT_MAX <= BATCH_ITEM_COUNT_MAX,
               "a plan has no more elements than the reader lets pass");

static int check_name(const char *name, const char *field, struct fault *fault)
{
    size_t len = strlen(name);

    if (len == 0 || len > MEMBER_NAME_BYTES_MAX) {
        return refuse_value(&(struct place){"", field, fault}, "NAME_INVALID",
                            "is a broker's name of %zu bytes; it has 1 to %d "
                            "(MEMBER_NAME_BYTES_MAX), as GetTopology shows them",
                            len, MEMBER_NAME_BYTES_MAX);
    }
    return 0;
}

static int check_names(char *const *names, size_t count, const char *field, struct fault *fault)
{
    int err = 0;

    if (count > MEMBER_COUNT_MAX) {
        return refuse_value(&(struct place){"", field, fault}, "VALUE_OUT_OF_RANGE",
                            "names %zu brokers, a cluster has at most %d (MEMBER_COUNT_MAX)", count,
                            MEMBER_COUNT_MAX);
    }
    for (size_t i = 0; i < count && err == 0; i++) {
        err = check_name(names[i], field, fault);
    }
    return err;
}

int codec_read_plan(struct slice bytes, struct arena *arena, struct plan_request *out,
                    struct fault *fault)
{
    const Foliot__V1__PlanMembersRequest *request;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__plan_members_request__descriptor, bytes, arena, &message, fault);

    if (err != 0) {
        return err;
    }
    request = (const Foliot__V1__PlanMembersRequest *)(void *)message;
    err = check_names(request->add, request->n_add, "add", fault);
    if (err == 0) {
        err = check_names(request->remove, request->n_remove, "remove", fault);
    }
    *out = (struct plan_request){(const char *const *)request->add, request->n_add,
                                 (const char *const *)request->remove, request->n_remove};
    return err;
}

static void fill_names(const char *const *names, size_t count, char **out)
{
    for (size_t i = 0; i < count; i++) {
        out[i] = wire_text(names[i]);
    }
}

int codec_write_plan(const struct plan_request *request, struct buf *out)
{
    Foliot__V1__PlanMembersRequest message;
    char *add[MEMBER_COUNT_MAX];
    char *remove[MEMBER_COUNT_MAX];

    REQUIRE(request->add_count <= MEMBER_COUNT_MAX && request->remove_count <= MEMBER_COUNT_MAX);
    fill_names(request->add, request->add_count, add);
    fill_names(request->remove, request->remove_count, remove);
    foliot__v1__plan_members_request__init(&message);
    message.n_add = request->add_count;
    message.add = add;
    message.n_remove = request->remove_count;
    message.remove = remove;
    return message_write(&message.base, out);
}

int codec_write_plan_move(const struct plan_move *move, struct buf *out)
{
    Foliot__V1__ShardMove message;

    foliot__v1__shard_move__init(&message);
    message.shard = move->shard;
    message.database = wire_text(move->database);
    message.from = wire_text(move->from);
    message.to = wire_text(move->to);
    return message_write_element(MOVES_NUMBER, &message.base, out);
}

int codec_write_plan_share(const struct plan_share *share, struct buf *out)
{
    Foliot__V1__BrokerShare message;

    foliot__v1__broker_share__init(&message);
    message.broker = wire_text(share->broker);
    message.before = share->before;
    message.after = share->after;
    return message_write_element(SHARES_NUMBER, &message.base, out);
}

int codec_read_plan_reply(struct slice bytes, struct arena *arena, struct plan *out,
                          struct fault *fault)
{
    const Foliot__V1__PlanMembersResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__plan_members_response__descriptor, bytes, arena, &message, fault);

    if (err == 0) {
        reply = (const Foliot__V1__PlanMembersResponse *)(void *)message;
        *out = (struct plan){reply->n_moves, reply->n_shares, reply};
    }
    return err;
}

void codec_read_plan_move(const struct plan *plan, size_t index, struct plan_move *out)
{
    const Foliot__V1__PlanMembersResponse *reply = plan->message;
    const Foliot__V1__ShardMove *move;

    REQUIRE(index < plan->move_count);
    move = reply->moves[index];
    *out = (struct plan_move){move->shard, move->database, move->from, move->to};
}

void codec_read_plan_share(const struct plan *plan, size_t index, struct plan_share *out)
{
    const Foliot__V1__PlanMembersResponse *reply = plan->message;
    const Foliot__V1__BrokerShare *share;

    REQUIRE(index < plan->share_count);
    share = reply->shares[index];
    *out = (struct plan_share){share->broker, share->before, share->after};
}

int codec_read_drain(struct slice bytes, struct arena *arena, const char **out, struct fault *fault)
{
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__drain_broker_request__descriptor, bytes, arena, &message, fault);

    if (err == 0) {
        *out = ((const Foliot__V1__DrainBrokerRequest *)(void *)message)->broker;
        err = check_name(*out, "broker", fault);
    }
    return err;
}

int codec_write_drain(const char *broker, struct buf *out)
{
    Foliot__V1__DrainBrokerRequest message;

    foliot__v1__drain_broker_request__init(&message);
    message.broker = wire_text(broker);
    return message_write(&message.base, out);
}

int codec_write_drain_reply(const struct drain_reply *reply, struct buf *out)
{
    Foliot__V1__DrainBrokerResponse message;

    foliot__v1__drain_broker_response__init(&message);
    message.broker = wire_text(reply->broker);
    message.instance = wire_text(reply->instance);
    message.shard_count = reply->shard_count;
    return message_write(&message.base, out);
}

int codec_read_drain_reply(struct slice bytes, struct arena *arena, struct drain_reply *out,
                           struct fault *fault)
{
    const Foliot__V1__DrainBrokerResponse *reply;
    ProtobufCMessage *message;
    int err =
        message_read(&foliot__v1__drain_broker_response__descriptor, bytes, arena, &message, fault);

    if (err == 0) {
        reply = (const Foliot__V1__DrainBrokerResponse *)(void *)message;
        *out = (struct drain_reply){reply->broker, reply->instance, reply->shard_count};
    }
    return err;
}
