/* SPDX-License-Identifier: Apache-2.0
 *
 * Races on purpose: two threads write one number without order.
 */
#include "tests/lib/must.h"

#include <pthread.h>

static int number;

static void *add(void *ctx)
{
    (void)ctx;
    for (int i = 0; i < 100000; i++) {
        number++;
    }
    return NULL;
}

static void races(void)
{
    pthread_t other;

    MUST_EQ(pthread_create(&other, NULL, add, NULL), 0);
    (void)add(NULL);
    MUST_EQ(pthread_join(other, NULL), 0);
}

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {MUST_CASE(races)};

    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
