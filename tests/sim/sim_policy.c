/* SPDX-License-Identifier: Apache-2.0
 *
 * Changes of policies.
 */
#include "tests/sim/sim_policy.h"

#include "lib/base/check.h"
#include "lib/base/mem.h"
#include "lib/model/queue.h"
#include "tests/sim/sim_load.h"

/* Queues of a run. */
#define QUEUES_MAX 16U

/* A pause lasts up to this, if it says its end. */
#define PAUSE_MS_MAX 60000

/* What of a queue is not as it was made. */
struct policy {
    struct sim_policy_bounds bounds;
    uint32_t version;
    bool is_paused;
    bool is_draining;
    bool is_flipped;         /* at most once the other way round */
    wall_ms paused_until_ms; /* 0: until it is resumed */
    uint32_t concurrency;    /* 0: as it was made */
    uint32_t failures;       /* 0: as it was made */
    uint32_t unknowns;       /* 0: as it was made */
};

struct sim_policies {
    struct sim *sim;
    struct prng prng;
    struct sim_event next;
    struct policy queues[QUEUES_MAX];
};

static void widen(struct sim_policy_bounds *bounds, const struct queue *queue, bool is_first)
{
    const struct retry_policy *retry = &queue->retry;

    if (is_first) {
        *bounds = (struct sim_policy_bounds){.failures_min = retry->failures_max,
                                             .unknowns_min = retry->unknowns_max,
                                             .result_memory_ms = queue->result_memory_ms};
    }
    bounds->failures_min = (uint32_t)time_min(bounds->failures_min, retry->failures_max);
    bounds->failures_max = (uint32_t)time_max(bounds->failures_max, retry->failures_max);
    bounds->unknowns_min = (uint32_t)time_min(bounds->unknowns_min, retry->unknowns_max);
    bounds->unknowns_max = (uint32_t)time_max(bounds->unknowns_max, retry->unknowns_max);
    bounds->result_memory_ms = time_min(bounds->result_memory_ms, queue->result_memory_ms);
    bounds->was_repeating = bounds->was_repeating || !queue->at_most_once;
    bounds->was_at_most_once = bounds->was_at_most_once || queue->at_most_once;
    bounds->was_draining = bounds->was_draining || queue->is_draining;
}

uint32_t sim_policies_put(struct sim_policies *policies, uint32_t number, struct queue *queue)
{
    struct policy *policy = &policies->queues[number];

    REQUIRE(number < QUEUES_MAX);
    if (policy->bounds.is_pause_changed) {
        queue->is_paused = policy->is_paused;
        queue->paused_until_ms = policy->is_paused ? policy->paused_until_ms : 0;
    }
    queue->is_draining = policy->is_draining;
    queue->at_most_once = queue->at_most_once != policy->is_flipped;
    if (policy->concurrency != 0) {
        queue->concurrency_max = policy->concurrency;
    }
    if (policy->failures != 0) {
        queue->retry.failures_max = policy->failures;
    }
    if (policy->unknowns != 0) {
        queue->retry.unknowns_max = policy->unknowns;
    }
    widen(&policy->bounds, queue, policy->version == 0);
    return policy->version++;
}

const struct sim_policy_bounds *sim_policies_bounds(const struct sim_policies *policies,
                                                    uint32_t number)
{
    REQUIRE(number < QUEUES_MAX);
    return &policies->queues[number].bounds;
}

static void change_pause(struct sim_policies *policies, struct policy *policy)
{
    policy->is_paused = !policy->is_paused;
    policy->bounds.is_pause_changed = true;
    policy->paused_until_ms = 0;
    if (policy->is_paused && prng_chance(&policies->prng, 600)) {
        policy->paused_until_ms = sim_clock(policies->sim, 0) / US_PER_MS +
                                  prng_between(&policies->prng, 1, PAUSE_MS_MAX);
    }
}

static void change(struct sim_policies *policies, struct policy *policy)
{
    struct prng *prng = &policies->prng;

    switch (prng_below(prng, 8)) {
    case 0:
    case 1:
    case 2:
        change_pause(policies, policy);
        break;
    case 3:
        policy->concurrency = (uint32_t)prng_between(prng, 1, 50);
        break;
    case 4:
        policy->concurrency = 0;
        break;
    case 5:
        policy->failures = (uint32_t)prng_between(prng, 1, 8);
        policy->unknowns = (uint32_t)prng_between(prng, 1, 5);
        break;
    case 6:
        policy->is_draining = !policy->is_draining;
        break;
    default:
        policy->is_flipped = prng_chance(prng, 200) != policy->is_flipped;
        break;
    }
}

static void on_next(struct sim *sim, struct sim_event *event, bool is_dropped)
{
    struct sim_policies *policies = CONTAINER_OF(event, struct sim_policies, next);
    uint32_t number;

    if (is_dropped) {
        return;
    }
    number = (uint32_t)prng_between(&policies->prng, 1, sim->options.queue_count);
    change(policies, &policies->queues[number]);
    sim_load_put(sim->load, number);
    sim_after(sim, event, sim_span(&policies->prng, sim->options.policy_every_us));
}

void sim_policies_start(struct sim_policies *policies)
{
    if (policies->sim->options.policy_every_us > 0) {
        sim_after(policies->sim, &policies->next,
                  sim_span(&policies->prng, policies->sim->options.policy_every_us));
    }
}

void sim_policies_heal(struct sim_policies *policies)
{
    sim_cancel(policies->sim, &policies->next);
    for (uint32_t i = 1; i <= policies->sim->options.queue_count; i++) {
        struct policy *policy = &policies->queues[i];

        if (policy->is_paused || policy->is_draining || policy->concurrency != 0) {
            policy->is_paused = false;
            policy->is_draining = false;
            policy->concurrency = 0;
            sim_load_put(policies->sim->load, i);
        }
    }
}

struct sim_policies *sim_policies_new(struct sim *sim)
{
    struct sim_policies *policies = sim_need(1, sizeof(*policies));

    policies->sim = sim;
    policies->next = (struct sim_event){.fire = on_next};
    prng_init_named(&policies->prng, sim->options.seed, "policies");
    return policies;
}

void sim_policies_free(struct sim_policies *policies)
{
    mem_free(policies);
}
