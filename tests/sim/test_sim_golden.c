/* SPDX-License-Identifier: Apache-2.0
 *
 * The main stories as transcripts: who asks whom for what, with epochs, claims, starts, settles and
 * virtual times. They are kept in golden/, and a change of the protocol is read there as a diff.
 * `test_sim_golden --update` writes them anew. Delays are a microsecond, so that little but the
 * protocol itself is seen.
 */
#include "lib/base/mem.h"
#include "tests/lib/must.h"
#include "tests/sim/sim_clock.h"
#include "tests/sim/sim_standby.h"
#include "tests/sim/sim_tell.h"
#include "tests/sim/story.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Longest transcript. A reviewer reads it. */
#define TRANSCRIPT_BYTES_MAX 65536
#define TRANSCRIPT_LINES_MAX 250

struct transcript {
    struct sim *sim; /* NULL: nothing is written down */
    struct sim_tell_filter filter;
    struct buf text;
};

static bool is_update;

static void on_trace(void *ctx, const char *what, const int64_t *values, size_t count)
{
    struct transcript *transcript = ctx;
    struct sim_told told;
    bool was_in_core;

    if (transcript->sim == NULL) {
        return;
    }
    was_in_core = sim_enter_world(transcript->sim);
    sim_told_set(&told, transcript->sim, what, values, count);
    sim_tell(transcript->sim, &transcript->filter, &told, &transcript->text);
    sim_leave_world(transcript->sim, was_in_core);
}

/* What the story says itself, between the events. */
static void say(struct transcript *transcript, const char *words)
{
    (void)buf_printf(&transcript->text, "\n%8.3f -- %s\n",
                     (double)(transcript->sim->now - transcript->filter.from) / 1e6, words);
}

/* Two brokers, four shards, one database; nothing takes any time but what the protocol waits for.
 */
static struct sim *open_story(struct transcript *transcript, int64_t target_us, bool has_standby)
{
    struct sim_options options;

    *transcript = (struct transcript){.filter = {.is_brief = true}};
    buf_init(&transcript->text, TRANSCRIPT_BYTES_MAX);
    sim_options_quiet(&options, 1);
    options.session_timeout_ms = 2000; // So short that a take-over meets claims that may be live.
    options.store_us = 1;
    options.network_us = 1;
    options.coord_us = 1;
    options.members_us = 0;
    options.turn_us = 0;
    options.target_us = target_us;
    options.has_standby = has_standby;
    options.standby_lag_us = has_standby ? US_PER_S : 0;
    return story_open_traced(&options, on_trace, transcript);
}

static void begin(struct transcript *transcript, struct sim *sim, const char *title)
{
    transcript->sim = sim;
    transcript->filter.from = sim->now;
    (void)buf_printf(
        &transcript->text,
        "%s\n\nSeconds; * is done from outside; who; shard; its epoch (generation.bump); "
        "what. A task is named by the\nepoch that made it and its number there.\n",
        title);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "r");
    char *text = sim_need(TRANSCRIPT_BYTES_MAX + 1, 1);

    if (file != NULL) {
        text[fread(text, 1, TRANSCRIPT_BYTES_MAX, file)] = '\0';
        (void)fclose(file);
    }
    return text;
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    MUST(file != NULL);
    MUST(fputs(text, file) >= 0);
    MUST(fclose(file) == 0);
}

static size_t line_len(const char *text)
{
    return strcspn(text, "\n");
}

/* The first line that differs, if one does. */
static void must_agree(const char *path, const char *golden, const char *text)
{
    unsigned line = 1;

    while (*golden != '\0' && line_len(golden) == line_len(text) &&
           memcmp(golden, text, line_len(golden) + 1) == 0) {
        golden += line_len(golden) + 1;
        text += line_len(text) + 1;
        line++;
    }
    if (*golden != '\0' || *text != '\0') {
        must_fail(MUST_HERE,
                  "%s, line %u\n  golden: %.*s\n  now:    %.*s\n"
                  "  to see all that has changed: test_sim_golden --update, then git diff",
                  path, line, (int)line_len(golden), golden, (int)line_len(text), text);
    }
}

/* The transcript ends here, and the cluster settles. */
static void end(struct transcript *transcript, const char *name)
{
    struct sim *sim = transcript->sim;
    char path[512];
    const char *text = buf_text(&transcript->text);
    char *golden;
    unsigned lines = 0;

    transcript->sim = NULL;
    (void)snprintf(path, sizeof(path), GOLDEN_DIR "/%s.txt", name);
    for (const char *place = text; *place != '\0'; place++) {
        lines += *place == '\n';
    }
    MUST_LE(lines, TRANSCRIPT_LINES_MAX);
    if (is_update) {
        write_file(path, text);
    }
    golden = read_file(path);
    must_agree(path, golden, text);
    mem_free(golden);
    buf_fini(&transcript->text);
    story_close(sim);
}

static void join(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 1, false);

    sim_node_kill(&sim->nodes[1], -1);
    (void)story_wait_owner(sim, 0, &sim->nodes[1], STORY_GAP_US);
    story_pass(sim, 10 * US_PER_S);
    for (uint32_t i = 0; i < 4; i++) {
        (void)story_create(sim, i, 2000);
    }
    begin(&t, sim,
          "join: a second broker comes to one that owns everything, with a task due in each shard");
    say(&t, "node-1 is started");
    sim_node_start(&sim->nodes[1]);
    story_pass(sim, 4 * US_PER_S);
    end(&t, "join");
}

static void leave(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 800 * US_PER_MS, false);
    struct check_known running;

    running = story_create(sim, 1, 500);
    (void)story_create(sim, 1, 3000);
    begin(&t, sim,
          "leave: a broker is told to go while an attempt of its runs and another task is due");
    story_wait_starts(sim, &running, 1);
    say(&t, "the owner of shard 1 gets SIGTERM");
    sim_node_drain(story_owner(sim, 1));
    story_pass(sim, 4 * US_PER_S);
    end(&t, "leave");
}

static void crash(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 800 * US_PER_MS, false);
    struct check_known running;

    running = story_create(sim, 1, 500);
    (void)story_create(sim, 1, 3000);
    begin(&t, sim,
          "crash: a broker dies in the middle of an attempt; the other takes its shards over");
    story_wait_starts(sim, &running, 1);
    say(&t, "the owner of shard 1 dies, and comes back after 20 s");
    sim_node_kill(story_owner(sim, 1), 20 * US_PER_S);
    story_wait_end(sim, &running);
    story_pass(sim, US_PER_S);
    end(&t, "crash");
}

static void zombie(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 1, false);
    struct sim_node *owner = story_owner(sim, 1);

    begin(&t, sim,
          "zombie: an owner is stopped between a claim and its start, for longer than its session");
    (void)story_create(sim, 1, 1000);
    (void)story_create(sim, 1, 2000);
    story_pass(sim, 998 * US_PER_MS);
    say(&t, "the owner of shard 1 is stopped for 12 s; it has claimed, and has not started");
    sim_node_pause(owner, 12 * US_PER_S);
    story_pass(sim, 12 * US_PER_S - 1);
    say(&t, "it wakes, believing that nothing has happened");
    story_pass(sim, 4 * US_PER_S);
    end(&t, "zombie");
}

static void clock_step(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 1, false);

    begin(&t, sim, "clock step: the database's clock jumps by 0.3 s, forward and then back");
    (void)story_create(sim, 1, 1000);
    (void)story_create(sim, 1, 3000);
    (void)story_create(sim, 1, 5000);
    story_pass(sim, 500 * US_PER_MS);
    say(&t, "forward");
    sim_clock_step(sim, 0, 300 * US_PER_MS);
    story_pass(sim, 2 * US_PER_S);
    say(&t, "back");
    sim_clock_step(sim, 0, -300 * US_PER_MS);
    story_pass(sim, 4 * US_PER_S);
    end(&t, "clock_step");
}

static void promotion(void)
{
    struct transcript t;
    struct sim *sim = open_story(&t, 1, true);

    begin(&t, sim,
          "promotion: a standby that lacks the last 0.5 s takes over; one task fires after it, one "
          "was done in\nthat time, one was created in it");
    (void)story_create(sim, 1, 4000);
    (void)story_create(sim, 1, 1600);
    story_pass(sim, 1700 * US_PER_MS);
    (void)story_create(sim, 1, 4000);
    story_pass(sim, 300 * US_PER_MS);
    say(&t, "the commits since 1.500 are lost: an end, and a create");
    sim_standby_promote(sim->standby, 0, 500 * US_PER_MS);
    story_pass(sim, 4 * US_PER_S);
    end(&t, "promotion");
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {
        MUST_CASE(join),   MUST_CASE(leave),      MUST_CASE(crash),
        MUST_CASE(zombie), MUST_CASE(clock_step), MUST_CASE(promotion),
    };

    for (int i = 1; i < argc; i++) {
        is_update = is_update || strcmp(argv[i], "--update") == 0;
    }
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
