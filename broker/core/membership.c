/* SPDX-License-Identifier: Apache-2.0
 *
 * Who is there and what that means for us.
 */
#include "broker/core/membership.h"

#include "broker/core/shard.h"
#include "broker/core/writer.h"
#include "coordinator/assign.h"
#include "lib/base/beat.h"
#include "lib/base/check.h"
#include "lib/base/err.h"
#include "lib/base/mem.h"

#include <string.h>

/* A database that we could not write to is tried again this often. */
#define PROBE_US (2 * US_PER_S)

/*
 * Whether a younger member has the same name. A broker that was killed and started again is listed
 * twice until the old session ends; two that were given one name by mistake, for ever. Either way
 * one of them counts, or placement would stand still for everybody.
 */
static bool is_superseded(const struct broker *broker, size_t index)
{
    const struct member *member = &broker->members[index];

    for (size_t i = 0; i < broker->member_count; i++) {
        const struct member *other = &broker->members[i];

        if (i == index || strcmp(other->name, member->name) != 0) {
            continue;
        }
        if (other->started_ms > member->started_ms ||
            (other->started_ms == member->started_ms &&
             strcmp(other->instance, member->instance) > 0)) {
            return true;
        }
    }
    return false;
}

/* Whether a member can write to no database at all: it is on its way out, or as good as. */
static bool is_powerless(const struct broker *broker, size_t index)
{
    uint32_t all = (UINT32_C(1) << broker->options.database_count) - 1;

    return (broker->members[index].cannot & all) == all;
}

static bool is_anybody_able(const struct broker *broker)
{
    for (size_t i = 0; i < broker->member_count; i++) {
        if (!is_superseded(broker, i) && !is_powerless(broker, i)) {
            return true;
        }
    }
    return false;
}

/*
 * Whether placement counts a member. One that leaves is gone already as far as placement goes, so
 * that its shards move once, to where they stay, and nobody else's move at all.
 */
static bool counts(const struct broker *broker, size_t index)
{
    return !is_superseded(broker, index) &&
           (!is_powerless(broker, index) || !is_anybody_able(broker));
}

/* The members that count, as placement wants them. */
static size_t list_members(const struct broker *broker, struct assign_member *members)
{
    size_t count = 0;

    for (size_t i = 0; i < broker->member_count; i++) {
        if (counts(broker, i)) {
            members[count].name = slice_of(broker->members[i].name);
            members[count].cannot = broker->members[i].cannot;
            count++;
        }
    }
    return count;
}

/* Place of a member in that list; ASSIGN_NONE if it does not count. */
static uint32_t place_of(const struct broker *broker, size_t index)
{
    uint32_t before = 0;

    if (!counts(broker, index)) {
        return ASSIGN_NONE;
    }
    for (size_t i = 0; i < index; i++) {
        before += counts(broker, i);
    }
    return before;
}

/* Placement for the present members, into `owners`. False when it cannot be had. */
static bool place(struct broker *broker)
{
    uint32_t shard_count = broker->options.cluster.shard_count;
    struct assign_member *members;
    struct assign_shard *shards;

    if (broker->is_placed) {
        return true; // Most lists bring news of shards only, and come often.
    }
    members = mem_new(broker->member_count, sizeof(*members));
    shards = mem_new(shard_count, sizeof(*shards));
    if (members != NULL && shards != NULL) {
        size_t member_count = list_members(broker, members);

        for (uint32_t i = 0; i < shard_count; i++) {
            shards[i] = (struct assign_shard){i, broker->shards[i].database};
        }
        broker->is_placed = assign(members, member_count, shards, shard_count, broker->owners) == 0;
    }
    mem_free(members);
    mem_free(shards);
    return broker->is_placed;
}

/* Whether a list says what placement goes by as the present one does. */
static bool is_placed_alike(const struct broker *broker, const struct member *members, size_t count)
{
    if (count != broker->member_count) {
        return false;
    }
    for (size_t i = 0; i < count; i++) {
        const struct member *old = &broker->members[i];

        if (members[i].cannot != old->cannot || members[i].started_ms != old->started_ms ||
            strcmp(members[i].instance, old->instance) != 0 ||
            strcmp(members[i].name, old->name) != 0) {
            return false;
        }
    }
    return true;
}

/* Our place in the list, or the count of members if we are not in it. */
static size_t find_self(const struct broker *broker)
{
    for (size_t i = 0; i < broker->member_count; i++) {
        if (strcmp(broker->members[i].instance, broker->self.instance) == 0) {
            return i;
        }
    }
    return broker->member_count;
}

/*
 * Bring `is_desired` of all shards up to date.
 *
 * only_gain: leave what we have alone: a list that is still changing gives no reason to move, but
 *            a shard that nobody owns must not wait.
 */
static void apply_placement(struct broker *broker, bool only_gain)
{
    size_t self = find_self(broker);
    uint32_t self_place;

    if (self == broker->member_count || broker->is_draining) {
        return;
    }
    self_place = place_of(broker, self);
    if (!place(broker)) { // Short of memory: nothing moves until the next look, which is soon.
        broker->placement_at = time_min(broker->placement_at, broker->now.boot + MEMBERS_QUIET_US);
        return;
    }
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct shard *shard = &broker->shards[i];
        bool is_ours = broker->owners[i] == self_place;

        if (is_ours != shard->is_desired && (is_ours || !only_gain)) {
            shard->is_desired = is_ours;
            shard_touch(shard);
        }
    }
}

size_t broker_placed_members(const struct broker *broker, const struct member **out)
{
    bool has_self = false;
    size_t count = 0;

    for (size_t i = 0; i < broker->member_count; i++) {
        const struct member *member = &broker->members[i];

        has_self = has_self || strcmp(member->name, broker->self.name) == 0;
        if (counts(broker, i)) {
            out[count++] = member;
        }
    }
    if (!has_self) {
        out[count++] = &broker->self;
    }
    return count;
}

const struct member *broker_member_named(const struct broker *broker, const char *name)
{
    if (strcmp(broker->self.name, name) == 0) {
        return &broker->self;
    }
    for (size_t i = 0; i < broker->member_count; i++) {
        if (!is_superseded(broker, i) && strcmp(broker->members[i].name, name) == 0) {
            return &broker->members[i];
        }
    }
    return NULL;
}

void broker_on_members(struct broker *broker, const struct now *now, const struct member *members,
                       size_t count)
{
    REQUIRE(count <= MEMBER_COUNT_MAX);
    broker_set_now(broker, now);
    broker->is_placed = broker->is_placed && is_placed_alike(broker, members, count);
    if (count > 0) {
        memcpy(broker->members, members, count * sizeof(*members));
    }
    broker->member_count = count;
    broker->placement_at = now->boot + MEMBERS_QUIET_US;
    apply_placement(broker, true);
}

void broker_on_session(struct broker *broker, const struct now *now, enum coord_session session)
{
    broker_set_now(broker, now);
    broker->is_away = session == COORD_AWAY;
    switch (session) {
    case COORD_AWAY:
        break; // What we hold goes on; the database stops us if somebody else takes it.
    case COORD_CONNECTED:
    case COORD_NEW:
        broker->is_session = true;
        broker->publish_at = now->boot;
        for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
            shard_touch(&broker->shards[i]);
        }
        break;
    case COORD_LOST:
        broker->is_session = false;
        for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
            shard_lost(&broker->shards[i]);
        }
        break;
    }
}

void broker_on_shard_free(struct broker *broker, const struct now *now, uint32_t shard)
{
    broker_set_now(broker, now);
    if (shard < broker->options.cluster.shard_count) {
        shard_retry_at(&broker->shards[shard], now->boot);
        shard_touch(&broker->shards[shard]);
    }
}

void broker_on_shard_lost(struct broker *broker, const struct now *now, uint32_t shard)
{
    broker_set_now(broker, now);
    if (shard < broker->options.cluster.shard_count) {
        shard_lost(&broker->shards[shard]);
    }
}

void broker_on_timeline(struct broker *broker, const struct now *now, uint32_t database)
{
    broker_set_now(broker, now);
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        if (shard->database == database && shard_is_held(shard)) {
            shard_fenced(shard); // A new generation: what the old one knew may be lost.
        }
    }
    writer_doubt_rows(&broker->databases[database].writer);
}

/* Publishing. */

static void publish_done(struct coord_request *request)
{
    struct broker *broker = request->owner;

    broker->is_publishing = false;
    if (request->result != 0) {
        broker->publish_at = broker->now.boot + broker->options.retry_us;
    }
}

static void publish(struct broker *broker)
{
    memset(&broker->self.owns, 0, sizeof(broker->self.owns));
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        if (broker->shards[i].state == SHARD_ACTIVE) {
            shard_set_add(&broker->self.owns, i);
        }
    }
    // Who leaves says that it can serve nothing, so that the others take its shards at once and not
    // when its last attempt has ended.
    broker->self.cannot =
        broker->is_draining ? (UINT32_C(1) << broker->options.database_count) - 1 : broker->cannot;
    broker->published = broker->self;
    broker->publish = (struct coord_request){
        .kind = COORD_PUBLISH, .member = &broker->published, .cb = publish_done, .owner = broker};
    broker->publish_at = BOOT_NEVER;
    broker->is_publishing = broker->env.coord->submit(broker->env.coord, &broker->publish) == 0;
    if (!broker->is_publishing) {
        broker->publish_at = broker->now.boot + broker->options.retry_us;
    }
}

/* Epochs. */

static void epochs_done(struct store_read *read)
{
    struct database *database = read->owner;
    struct broker *broker = database->writer.broker;

    database->is_checking = false;
    if (read->result != 0) {
        return;
    }
    for (size_t i = 0; i < read->check_count; i++) {
        struct shard *shard = &broker->shards[read->checks[i].shard];

        if (!read->checks[i].ours && shard->epoch == read->checks[i].epoch &&
            (shard->state == SHARD_LOADING || shard->state == SHARD_ACTIVE ||
             shard->state == SHARD_DRAINING)) {
            shard_fenced(shard);
        }
    }
}

/* An owner that has nothing to write must notice all the same that it is one no more. */
static void check_epochs(struct broker *broker, uint32_t index)
{
    struct database *database = &broker->databases[index];
    size_t count = 0;

    database->check_at =
        beat_after(broker->now.boot, beat_us(broker->options.session_timeout_ms) *
                                         beat_per_check(broker->options.session_timeout_ms));
    if (database->is_checking) {
        return;
    }
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        const struct shard *shard = &broker->shards[i];

        if (shard->database == index &&
            (shard->state == SHARD_LOADING || shard->state == SHARD_ACTIVE)) {
            database->checks[count++] = (struct epoch_check){shard->id, shard->epoch, false};
        }
    }
    if (count == 0) {
        return;
    }
    database->epochs = (struct store_read){.kind = STORE_READ_EPOCHS,
                                           .database = index,
                                           .checks = database->checks,
                                           .check_count = count,
                                           .cb = epochs_done,
                                           .owner = database};
    database->is_checking = broker->env.store->read(broker->env.store, &database->epochs) == 0;
}

void membership_step(struct broker *broker)
{
    if (broker->now.boot >= broker->placement_at) {
        broker->placement_at = BOOT_NEVER;
        apply_placement(broker, false);
    }
    if (broker->is_session && !broker->is_publishing && broker->now.boot >= broker->publish_at) {
        publish(broker);
    }
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        if (broker->now.boot >= broker->databases[i].check_at) {
            check_epochs(broker, i);
        }
    }
}

/* Give up the shards of a database that we have failed to write to for a session timeout. Not while
 * the coordinator is away: nobody else could take them, and neither could we when the database is
 * back before it. */
static void give_up(struct broker *broker, uint32_t index)
{
    broker->cannot |= 1U << index;
    broker->publish_at = broker->now.boot;
    for (uint32_t i = 0; i < broker->options.cluster.shard_count; i++) {
        struct shard *shard = &broker->shards[i];

        if (shard->database == index && shard_is_held(shard)) {
            shard_fenced(shard);
            shard_retry_at(shard,
                           broker->now.boot + broker->options.session_timeout_ms * US_PER_MS);
        }
    }
}

void membership_scan(struct broker *broker)
{
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        struct writer *writer = &broker->databases[i].writer;
        bool is_out = (broker->cannot >> i & 1U) != 0;
        boot_us limit = writer->failing_since + broker->options.session_timeout_ms * US_PER_MS;

        if (writer->failing_since == 0 && is_out) {
            broker->cannot &= ~(1U << i);
            broker->publish_at = broker->now.boot;
        } else if (writer->failing_since != 0 && !is_out && !broker->is_away &&
                   broker->now.boot >= limit) {
            give_up(broker, i);
        }
        if (writer->failing_since != 0) { // The sweep is a write that needs no shard.
            writer->sweep_at = time_min(writer->sweep_at, broker->now.boot + PROBE_US);
        }
    }
}

boot_us membership_next_wake(const struct broker *broker)
{
    boot_us wake = broker->placement_at;

    if (broker->is_session && !broker->is_publishing) {
        wake = time_min(wake, broker->publish_at);
    }
    for (uint32_t i = 0; i < broker->options.database_count; i++) {
        wake = time_min(wake, broker->databases[i].check_at);
    }
    return wake;
}
