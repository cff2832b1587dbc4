/* SPDX-License-Identifier: Apache-2.0
 *
 * One seed, run: in this process with its story, or in a child, so that a crash costs one seed.
 */
#ifndef FOLIOT_TESTS_SIM_SIM_SEED_H
#define FOLIOT_TESTS_SIM_SIM_SEED_H

#include "tests/sim/check.h"
#include "tests/sim/sim_tell.h"

/* Options that may be set beside a seed. */
#define SIM_SETS_MAX 128

/* "NAME=VALUE". */
struct sim_set {
    char text[48];
};

/* What to run. Whole: the same request is the same run. */
struct sim_request {
    uint64_t seed;
    bool is_quiet;    /* options are of a quiet cluster, not drawn: for what is left of a failure */
    uint32_t minutes; /* virtual, of the first phase; 0: drawn */
    enum sim_mutant mutant;
    const struct sim_edge *edge;       /* wire mode; NULL: message mode */
    struct sim_set sets[SIM_SETS_MAX]; /* options that are not as the seed has them, in order */
    size_t set_count;
};

/* How it is looked at. */
struct sim_look {
    bool is_told;  /* every event, as it comes */
    bool is_quiet; /* not even failures */
    struct sim_tell_filter filter;
};

/* What came of it. */
struct sim_result {
    int32_t verdict; /* enum sim_verdict */
    char promise[16];
    uint64_t digest;
    int64_t virtual_us;
    uint64_t event_count;
    struct check_figures figures;
};

/* Set one more option, as "NAME=VALUE". False: there is no such option, or no room. */
bool sim_request_set(struct sim_request *request, const char *text, size_t len);

/* The options of a request: its seed's, or a quiet cluster's, with what is set. */
void sim_request_options(const struct sim_request *request, struct sim_options *options);

/* Print the command that runs it, behind `foliot-sim `, and an end of line. */
void sim_request_print(const struct sim_request *request);

/* Run in this process. */
void sim_seed_run(const struct sim_request *request, const struct sim_look *look,
                  struct sim_result *result);

/* Run in a child. False: no process could be had. */
bool sim_seed_fork(const struct sim_request *request, const struct sim_look *look,
                   struct sim_result *result);

#endif
