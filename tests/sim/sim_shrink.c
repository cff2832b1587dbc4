/* SPDX-License-Identifier: Apache-2.0
 *
 * First the time, which makes every further run shorter; then all options at once, then each half
 * of those that are left, down to single ones (delta debugging); then fewer calls.
 */
#include "tests/sim/sim_shrink.h"

#include "lib/base/list.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

/* Options are halved, or doubled, this often at most. */
#define STEPS_MAX 12

struct shrink {
    struct sim_request *best;
    const struct sim_result *failed;
    int64_t virtual_us; /* length of the best */
    time_t until;
    uint32_t runs;
};

/* An option that is not as in a quiet cluster. */
struct change {
    size_t option;
    int64_t quiet;
};

static time_t now_s(void)
{
    struct timespec now;

    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec;
}

static bool is_out_of_time(const struct shrink *shrink)
{
    return now_s() >= shrink->until;
}

/* Whether a request still breaks the same promise; if so it is the best. */
static bool try_request(struct shrink *shrink, const struct sim_request *request)
{
    static const struct sim_look quiet = {.is_quiet = true};
    struct sim_result result;

    if (is_out_of_time(shrink) || !sim_seed_fork(request, &quiet, &result)) {
        return false;
    }
    shrink->runs++;
    if (result.verdict != shrink->failed->verdict ||
        strcmp(result.promise, shrink->failed->promise) != 0) {
        return false;
    }
    *shrink->best = *request;
    shrink->virtual_us = result.virtual_us;
    return true;
}

/* Set an option by its place, instead of a setting of the same name. */
static bool put(struct sim_request *request, size_t option, int64_t value)
{
    char text[sizeof(request->sets[0].text)];
    size_t name_len;
    int len = snprintf(text, sizeof(text), "%s=", sim_options_name(option));
    size_t kept = 0;

    name_len = (size_t)len;
    for (size_t i = 0; i < request->set_count; i++) {
        if (strncmp(request->sets[i].text, text, name_len) != 0) {
            request->sets[kept++] = request->sets[i];
        }
    }
    request->set_count = kept;
    len = snprintf(text, sizeof(text), "%s=%lld", sim_options_name(option), (long long)value);
    return len > 0 && (size_t)len < sizeof(text) && sim_request_set(request, text, (size_t)len);
}

static int64_t value_of(const struct sim_request *request, size_t option)
{
    struct sim_options options;

    sim_request_options(request, &options);
    return sim_options_get(&options, option);
}

/* End the faults just after the failure, if it came during them: up to there nothing changes. */
static void shorten(struct shrink *shrink, size_t faults)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        struct sim_request request = *shrink->best;
        int64_t now_us = value_of(&request, faults);
        int64_t next_us = shrink->virtual_us + 1 < now_us ? shrink->virtual_us + 1 : now_us / 2;

        if (!put(&request, faults, next_us) || !try_request(shrink, &request)) {
            return;
        }
    }
}

/* Fewer calls, twice as rarely each time. */
static void thin(struct shrink *shrink, size_t calls)
{
    for (int i = 0; i < STEPS_MAX; i++) {
        struct sim_request request = *shrink->best;

        if (!put(&request, calls, 2 * value_of(&request, calls)) ||
            !try_request(shrink, &request)) {
            return;
        }
    }
}

/* Set some of the changes back together, if that has not been done yet. */
static void set_back(struct shrink *shrink, const struct change *changes, size_t count)
{
    struct sim_request request = *shrink->best;
    bool is_change = false;

    for (size_t i = 0; i < count; i++) {
        is_change = is_change || value_of(&request, changes[i].option) != changes[i].quiet;
        if (!put(&request, changes[i].option, changes[i].quiet)) {
            return;
        }
    }
    if (is_change) {
        (void)try_request(shrink, &request);
    }
}

/* All of them together, then halves, and so on down to single ones. */
static void set_back_all(struct shrink *shrink, const struct change *changes, size_t count)
{
    for (size_t size = count; size > 0; size /= 2) {
        for (size_t i = 0; i < count && !is_out_of_time(shrink); i += size) {
            set_back(shrink, changes + i, size < count - i ? size : count - i);
        }
    }
}

/* Which options are not as in a quiet cluster. Returns their count. */
static size_t list_changes(const struct sim_request *request, size_t not_this, size_t nor_this,
                           struct change *changes)
{
    struct sim_options options;
    struct sim_options quiet;
    size_t count = 0;

    sim_request_options(request, &options);
    sim_options_quiet(&quiet, request->seed);
    for (size_t i = 0; i < sim_options_count(); i++) {
        int64_t quiet_value = sim_options_get(&quiet, i);

        if (i != not_this && i != nor_this && sim_options_get(&options, i) != quiet_value &&
            count < SIM_SETS_MAX) {
            changes[count++] = (struct change){i, quiet_value};
        }
    }
    return count;
}

/* Say the same by what differs from a quiet cluster: a short line, and one that stays true when
 * more is drawn from seeds. */
static void restate(struct shrink *shrink)
{
    struct sim_request request = *shrink->best;
    struct sim_options options;
    struct sim_options quiet;

    sim_request_options(&request, &options);
    sim_options_quiet(&quiet, request.seed);
    request.is_quiet = true;
    request.minutes = 0;
    request.set_count = 0;
    for (size_t i = 0; i < sim_options_count(); i++) {
        int64_t value = sim_options_get(&options, i);

        if (value != sim_options_get(&quiet, i) && !put(&request, i, value)) {
            return;
        }
    }
    (void)try_request(shrink, &request);
}

uint32_t sim_shrink(struct sim_request *request, const struct sim_result *failed, uint32_t limit_s)
{
    struct shrink shrink = {.best = request,
                            .failed = failed,
                            .virtual_us = failed->virtual_us,
                            .until = now_s() + limit_s};
    size_t faults = sim_options_find("faults_us");
    size_t calls = sim_options_find("call_every_us");
    struct change changes[SIM_SETS_MAX];
    size_t before;
    size_t count = list_changes(request, faults, calls, changes);

    shorten(&shrink, faults);
    do {
        before = count;
        set_back_all(&shrink, changes, count);
        count = list_changes(request, faults, calls, changes);
    } while (count < before);
    thin(&shrink, calls);
    shorten(&shrink, faults);
    shrink.until += 2; // The last word is worth a run more.
    restate(&shrink);
    return shrink.runs;
}
