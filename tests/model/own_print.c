/* SPDX-License-Identifier: Apache-2.0
 *
 * States of the model of ownership, for people.
 */
#include "tests/model/own.h"

#include <stdio.h>

static void print_tx(const char *who, const struct own_tx *tx)
{
    static const char *const KINDS[] = {"-",        "bump",   "insert", "claim",
                                        "un-claim", "settle", "cancel", "update",
                                        "redrive",  "expire", "ping"};
    static const char *const STATES[] = {"-",      "sent",   "executed", "done",
                                         "fenced", "missed", "lost"};

    if (tx->kind != K_NONE) {
        printf(" %s %s of attempt %u under epoch %u.%u is %s", who, KINDS[tx->kind], tx->attempt,
               tx->epoch / (unsigned)BUMPS, tx->epoch % (unsigned)BUMPS, STATES[tx->state]);
    }
}

static void print_db(const struct own_db *db)
{
    printf("database epoch %u.%u:", db->epoch / (unsigned)BUMPS, db->epoch % (unsigned)BUMPS);
    if (db->has) {
        printf(" task due in %u, attempt %u%s", db->due, db->attempt,
               db->updated ? ", updated" : "");
    } else {
        printf(db->dead ? " dead letter of attempt %u" : " no task", db->dead_attempt);
    }
    for (unsigned i = 0; i < BROKERS; i++) {
        for (unsigned attempt = 1; attempt <= ATTEMPTS; attempt++) {
            if (db->claims[i][attempt] > 0) {
                printf(", claim of attempt %u by %u until %u", attempt, i,
                       db->claims[i][attempt] - 1U);
            }
        }
    }
}

static void print_broker(const struct own_broker *broker, unsigned number)
{
    static const char *const PHASES[] = {"idle",   "created",   "version", "generation", "bumping",
                                         "ACTIVE", "releasing", "dropped", "looking"};

    printf("      broker %u: %s%s, epoch %u.%u", number,
           broker->up ? PHASES[broker->phase] : "down", broker->session ? "" : ", session gone",
           broker->epoch / (unsigned)BUMPS, broker->epoch % (unsigned)BUMPS);
    if (broker->has) {
        printf(", knows due in %u, attempt %u", broker->due, broker->attempt);
    }
    if (broker->claim > 0) {
        printf(", claim %u until %u, start by %u%s%s%s", broker->claim, broker->left,
               broker->start_by, broker->is_armed ? ", not started" : "",
               broker->is_begun ? ", begun" : "", broker->is_inherited ? ", inherited" : "");
    }
    print_tx("its", &broker->tx);
    printf("\n");
}

void own_print(const void *of)
{
    static const char *const ANSWERS[] = {"-",           "pending", "OK",  "MAYBE",
                                          "UNAVAILABLE", "UNKNOWN", "GONE"};
    const struct own_state *state = of;

    printf("      owner %u, version %u; ", state->owner, state->version);
    print_db(&state->db);
    for (unsigned i = 1; i <= ATTEMPTS; i++) {
        if (state->run[i] > 0) {
            printf(", RUNS %u for %u", i, state->run_left[i]);
        }
        if (state->outcome[i] > 0) {
            printf(", outcome of %u under way", i);
        }
    }
    printf("\n");
    for (unsigned i = 0; i < (unsigned)own.brokers; i++) {
        print_broker(&state->brokers[i], i);
    }
    if (state->orphans[0].kind != K_NONE) {
        printf("      ");
        print_tx("an orphaned", &state->orphans[0]);
        print_tx("an orphaned", &state->orphans[1]);
        printf("\n");
    }
    if ((state->answers[0] | state->answers[1] | state->answers[2] | state->answers[3]) != 0) {
        printf("      answers: create %s, cancel %s, update %s, redrive %s\n",
               ANSWERS[state->answers[I_CREATE]], ANSWERS[state->answers[I_CANCEL]],
               ANSWERS[state->answers[I_UPDATE]], ANSWERS[state->answers[I_REDRIVE]]);
    }
}
