/* SPDX-License-Identifier: Apache-2.0
 *
 * The coordinator's contract on ZooKeeper.
 */
#include "tests/contract/coord_contract.h"
#include "tests/contract/coord_world_zk.h"

int main(int argc, char **argv)
{
    static const struct must_case cases[] = {COORD_CONTRACT_CASES};

    fixture_need_servers(argv);
    return must_main(argc, argv, cases, ARRAY_COUNT(cases));
}
