/* SPDX-License-Identifier: Apache-2.0
 *
 * One bit per direction of each pair, and the faults that set them.
 */
#include "tests/sim/sim_link.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "tests/sim/sim_coord.h"

_Static_assert(SIM_END_COUNT <= 32, "a row is one word");

/* A swizzle stops and restores one link after another, up to this far apart. */
#define SWIZZLE_STEP_US (2 * US_PER_S)

/* A message that is late is so by up to this: others overtake it. */
#define LATE_US_MAX (3 * US_PER_S)

/* A cut of the seed, and its end. */
struct cut {
    struct sim_event event;
    struct sim_links *links;
    uint32_t a;
    uint32_t b;
    bool is_both; /* directions */
    bool is_on;
};

struct sim_links {
    struct sim *sim;
    struct prng prng;
    uint32_t cut[SIM_END_COUNT]; /* [from]: bit per end that it does not reach */
    struct sim_event next_cut;
    struct sim_event next_swizzle;
    struct cut one;                         /* the cut that comes by itself */
    struct cut swizzle[SIM_NODE_COUNT_MAX]; /* one per broker */
};

static uint32_t bit(uint32_t end)
{
    REQUIRE(end < SIM_END_COUNT);
    return UINT32_C(1) << end;
}

/* The coordinator's connections feel it at once; all others ask when they send. */
static void changed(struct sim_links *links, uint32_t a, uint32_t b)
{
    if (a == SIM_END_COORD || b == SIM_END_COORD) {
        sim_coord_refresh(links->sim->coord);
    }
}

void sim_link_cut(struct sim_links *links, uint32_t from, uint32_t to)
{
    if ((links->cut[from] & bit(to)) == 0) {
        TRACE(&links->sim->trace, "cut", from, to);
        links->cut[from] |= bit(to);
        changed(links, from, to);
    }
}

void sim_link_mend(struct sim_links *links, uint32_t from, uint32_t to)
{
    if ((links->cut[from] & bit(to)) != 0) {
        TRACE(&links->sim->trace, "mend", from, to);
        links->cut[from] &= ~bit(to);
        changed(links, from, to);
    }
}

bool sim_link_passes(const struct sim_links *links, uint32_t from, uint32_t to)
{
    return (links->cut[from] & bit(to)) == 0;
}

bool sim_link_is_whole(const struct sim_links *links, uint32_t a, uint32_t b)
{
    return sim_link_passes(links, a, b) && sim_link_passes(links, b, a);
}

size_t sim_link_send(struct sim_links *links, uint32_t from, uint32_t to,
                     int64_t spans[SIM_COPIES_MAX])
{
    struct sim *sim = links->sim;
    const struct sim_options *options = &sim->options;
    size_t count = 1;

    if (!sim_link_passes(links, from, to)) {
        return 0;
    }
    spans[0] = sim_span(&links->prng, options->network_us);
    if (sim->is_healed) {
        return count;
    }
    if (prng_chance(&links->prng, options->call_lost_permille)) {
        return 0;
    }
    if (prng_chance(&links->prng, options->link_late_permille)) {
        spans[0] += prng_between(&links->prng, 0, LATE_US_MAX);
    }
    if (prng_chance(&links->prng, options->link_twice_permille)) {
        spans[count++] = spans[0] + prng_between(&links->prng, 0, LATE_US_MAX);
    }
    return count;
}

/* --- faults of the seed --- */

static void set_cut(struct cut *cut, bool is_on)
{
    struct sim_links *links = cut->links;

    cut->is_on = is_on;
    if (is_on) {
        sim_link_cut(links, cut->a, cut->b);
        if (cut->is_both) {
            sim_link_cut(links, cut->b, cut->a);
        }
    } else {
        sim_link_mend(links, cut->a, cut->b);
        sim_link_mend(links, cut->b, cut->a);
    }
}

static void on_one_end(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    (void)sim;
    if (!is_dropped) {
        set_cut(CONTAINER_OF(event, struct cut, event), false);
    }
}

/* Something that a broker talks to. */
static uint32_t pick_end(struct sim_links *links, uint32_t not_this)
{
    const struct sim_options *options = &links->sim->options;
    uint32_t end;

    do {
        switch (prng_below(&links->prng, 5)) {
        case 0:
            end = SIM_END_COORD;
            break;
        case 1:
            end = SIM_END_USERS;
            break;
        case 2:
            end = SIM_END_DATABASE(prng_below(&links->prng, options->database_count));
            break;
        case 3:
            end = SIM_END_TARGETS;
            break;
        default:
            end = SIM_END_NODE(prng_below(&links->prng, options->node_count));
            break;
        }
    } while (end == not_this);
    return end;
}

static void on_next_cut(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_links *links = CONTAINER_OF(event, struct sim_links, next_cut);
    struct cut *cut = &links->one;
    uint32_t node = (uint32_t)prng_below(&links->prng, sim->options.node_count);
    uint32_t other = pick_end(links, node);
    bool is_from_node = prng_chance(&links->prng, 500);

    if (is_dropped) {
        return;
    }
    if (!cut->is_on) {
        cut->a = is_from_node ? node : other;
        cut->b = is_from_node ? other : node;
        cut->is_both = prng_chance(&links->prng, 300);
        set_cut(cut, true);
        sim_after(sim, &cut->event, sim_span(&links->prng, sim->options.cut_us));
    }
    sim_after(sim, event, sim_span(&links->prng, sim->options.link_cut_every_us));
}

static void on_swizzle(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct cut *cut = CONTAINER_OF(event, struct cut, event);

    if (is_dropped) {
        return;
    }
    set_cut(cut, !cut->is_on);
    if (cut->is_on) { // Each is restored at a moment of its own: in another order.
        sim_after(sim, &cut->event,
                  SWIZZLE_STEP_US * SIM_NODE_COUNT_MAX / 2 +
                      prng_between(&cut->links->prng, 0, SWIZZLE_STEP_US * SIM_NODE_COUNT_MAX));
    }
}

/* A random part of the brokers loses its link to one end, one by one. */
static void on_next_swizzle(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_links *links = CONTAINER_OF(event, struct sim_links, next_swizzle);
    uint32_t end = pick_end(links, UINT32_MAX);
    bool is_both = prng_chance(&links->prng, 600);

    for (uint32_t i = 0; i < sim->options.node_count && !is_dropped; i++) {
        struct cut *cut = &links->swizzle[i];

        if (!cut->event.is_planned && i != end && prng_chance(&links->prng, 600)) {
            cut->a = i;
            cut->b = end;
            cut->is_both = is_both;
            sim_after(sim, &cut->event,
                      prng_between(&links->prng, 0, SWIZZLE_STEP_US * SIM_NODE_COUNT_MAX / 2));
        }
    }
    if (!is_dropped) {
        sim_after(sim, event, sim_span(&links->prng, sim->options.swizzle_every_us));
    }
}

void sim_links_start(struct sim_links *links)
{
    const struct sim_options *options = &links->sim->options;

    if (options->link_cut_every_us > 0) {
        sim_after(links->sim, &links->next_cut, sim_span(&links->prng, options->link_cut_every_us));
    }
    if (options->swizzle_every_us > 0) {
        sim_after(links->sim, &links->next_swizzle,
                  sim_span(&links->prng, options->swizzle_every_us));
    }
}

void sim_links_heal(struct sim_links *links)
{
    sim_cancel(links->sim, &links->next_cut);
    sim_cancel(links->sim, &links->next_swizzle);
    sim_cancel(links->sim, &links->one.event);
    for (uint32_t i = 0; i < SIM_NODE_COUNT_MAX; i++) {
        sim_cancel(links->sim, &links->swizzle[i].event);
    }
    for (uint32_t from = 0; from < SIM_END_COUNT; from++) {
        for (uint32_t to = 0; to < SIM_END_COUNT; to++) {
            sim_link_mend(links, from, to);
        }
    }
}

struct sim_links *sim_links_new(struct sim *sim)
{
    struct sim_links *links = sim_need(1, sizeof(*links));

    links->sim = sim;
    prng_init_named(&links->prng, sim->options.seed, "links");
    links->next_cut = (struct sim_event){.fire = on_next_cut};
    links->next_swizzle = (struct sim_event){.fire = on_next_swizzle};
    links->one = (struct cut){.event = {.fire = on_one_end}, .links = links};
    for (uint32_t i = 0; i < SIM_NODE_COUNT_MAX; i++) {
        links->swizzle[i] = (struct cut){.event = {.fire = on_swizzle}, .links = links};
    }
    return links;
}

void sim_links_free(struct sim_links *links)
{
    mem_free(links);
}
