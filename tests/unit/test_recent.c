/* SPDX-License-Identifier: Apache-2.0
 *
 * What the memory of recent cancels promises: bounded, the oldest go first, a shard's go with it.
 */
#include "broker/core/recent.h"

#include "lib/base/mem.h"

#include <criterion/criterion.h>

struct rig {
    struct broker broker;
    struct shard shards[2];
};

static void rig_open(struct rig *rig)
{
    rig->broker = (struct broker){.shards = rig->shards};
    for (uint32_t i = 0; i < 2; i++) {
        rig->shards[i] = (struct shard){.id = i, .broker = &rig->broker};
        map_init(&rig->shards[i].recent, RECENTS_MAX);
    }
    cr_assert_eq(recent_init(&rig->broker), 0);
}

static void rig_close(struct rig *rig)
{
    recent_forget(&rig->shards[0]);
    recent_forget(&rig->shards[1]);
    recent_fini(&rig->broker);
    cr_assert_eq(mem_block_count(), 0);
}

/* Every other task is in the second shard. */
static uint32_t shard_of(int64_t seq)
{
    return seq % 2 == 0 ? 0 : 1;
}

static struct task_id id_of(uint32_t shard, int64_t seq)
{
    return (struct task_id){.seq = seq, .slot = (uint16_t)shard};
}

Test(recent, the_newest_are_remembered_and_the_oldest_go_first)
{
    static struct rig rig;
    const int64_t count = 3 * (int64_t)RECENTS_MAX;

    rig_open(&rig);
    for (int64_t seq = 1; seq <= count; seq++) {
        recent_add(&rig.shards[shard_of(seq)], id_of(shard_of(seq), seq), (uint32_t)(seq % 3));
    }
    cr_assert_eq(map_count(&rig.shards[0].recent) + map_count(&rig.shards[1].recent), RECENTS_MAX);
    for (int64_t seq = 1; seq <= count; seq++) {
        const struct recent *recent =
            recent_find(&rig.shards[shard_of(seq)], id_of(shard_of(seq), seq));

        cr_assert_eq(recent != NULL, seq > count - RECENTS_MAX, "%ld", (long)seq);
        cr_assert(recent == NULL || recent->attempt == seq % 3);
    }
    rig_close(&rig);
}

Test(recent, a_shard_takes_its_own_along_and_nobody_elses)
{
    static struct rig rig;

    rig_open(&rig);
    recent_add(&rig.shards[0], id_of(0, 5), 0); // One number in two shards is two tasks.
    recent_add(&rig.shards[1], id_of(1, 5), 2);
    recent_forget(&rig.shards[0]);
    cr_assert_null(recent_find(&rig.shards[0], id_of(0, 5)));
    cr_assert_eq(recent_find(&rig.shards[1], id_of(1, 5))->attempt, 2);
    cr_assert_null(recent_find(&rig.shards[1], id_of(3, 5)), "another slot is another id");
    for (int64_t seq = 6; seq < 6 + (int64_t)RECENTS_MAX; seq++) {
        recent_add(&rig.shards[0], id_of(0, seq), 1);
    }
    cr_assert_null(recent_find(&rig.shards[1], id_of(1, 5)), "the ring has come round");
    cr_assert_not_null(recent_find(&rig.shards[0], id_of(0, 6)));
    rig_close(&rig);
}
