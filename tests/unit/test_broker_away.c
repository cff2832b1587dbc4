/* SPDX-License-Identifier: Apache-2.0
 *
 * A database that takes no writes for longer than a session timeout, with and without a coordinator
 * to give its shards to.
 */
#include "tests/unit/broker_rig.h"

#define OUTAGE_MS 6000 /* longer than the rig's session timeout */

/* Time passes, and the database answers nothing: writes end unknown, all else is refused. */
static void pass_without_database(struct rig *rig, span_ms span)
{
    for (wall_ms end = rig_time(rig) + span; rig_time(rig) < end;) {
        rig_set_time(rig, rig_time(rig) + 1);
        for (struct store_mem_request *write; (write = rig_write(rig)) != NULL;) {
            store_mem_give_up(rig->mem, write);
            store_mem_abort(rig->mem, store_mem_pending(rig->mem, 0));
        }
        while (store_mem_pending_count(rig->mem) > 0) {
            store_mem_refuse(rig->mem, store_mem_pending(rig->mem, 0));
        }
        broker_tick(rig->broker, &rig->now);
    }
}

static int64_t epoch_of(const struct rig *rig, uint32_t shard)
{
    struct shard_view view;

    broker_inspect_shard(rig->broker, shard, &view);
    return view.epoch;
}

/* A create whose write is lost, and what becomes of its shard in an outage. */
static struct call begin_outage(struct rig *rig)
{
    struct call call;

    rig_open(rig);
    call = rig_create(rig, 1, rig_time(rig) + 3600000);
    return call;
}

Test(broker_away, shards_are_kept_while_nobody_can_be_told_to_take_them)
{
    static struct rig rig;
    struct call call = begin_outage(&rig);
    struct call later = call;
    int64_t generation = rig.generation;

    broker_on_session(rig.broker, &rig.now, COORD_AWAY);
    broker_call(rig.broker, &rig.now, &call);
    pass_without_database(&rig, OUTAGE_MS);
    list_foreach (link, &rig.requests) {
        const struct coord_request *request = CONTAINER_OF(link, struct coord_request, link);

        cr_assert_neq(request->kind, COORD_RELEASE, "a shard is given up");
        cr_assert_neq(request->kind, COORD_ACQUIRE, "a shard was dropped");
    }
    rig_pass(&rig, 3000);
    cr_assert_eq(rig.generation, generation, "it had to acquire shards anew");
    for (uint32_t i = 0; i < SHARDS; i++) {
        cr_assert_neq(epoch_of(&rig, i), 0, "shard %u is not served", i);
    }
    rig_ask(&rig, &later);
    cr_assert_eq(later.result, 0);
    rig_close(&rig);
}

Test(broker_away, shards_are_given_up_when_the_coordinator_is_back_before_the_database)
{
    static struct rig rig;
    struct call call = begin_outage(&rig);

    broker_on_session(rig.broker, &rig.now, COORD_AWAY);
    broker_call(rig.broker, &rig.now, &call);
    pass_without_database(&rig, OUTAGE_MS);
    broker_on_session(rig.broker, &rig.now, COORD_CONNECTED);
    pass_without_database(&rig, 1000);
    for (uint32_t i = 0; i < SHARDS; i++) {
        cr_assert_eq(epoch_of(&rig, i), 0, "shard %u is held without a database", i);
    }
    rig_close(&rig);
}
