#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a cluster of real processes must hold under load, one scenario a promise.

  hold.py [--build PRESET] [--rate N] [--restarts N] [SCENARIO …]

Ends with "N passed, N failed".
"""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(HERE, "../../tools"), HERE]
import cluster as harness  # noqa: E402
import hold_database  # noqa: E402
import hold_moves  # noqa: E402

SCENARIOS = {"rolling": hold_moves.rolling, "pods": hold_moves.pods, "scale": hold_moves.scale,
             "outage": hold_database.outage, "snapshot": hold_database.snapshot}


def main():
    parser = harness.scenario_parser(__doc__.splitlines()[0], SCENARIOS, 2000)
    parser.add_argument("--restarts", type=int, default=20)
    parser.add_argument("--seconds", type=int, default=60, help="how long a fault lasts")
    parser.add_argument("--tasks", type=int, default=100_000, help="that come due in an outage")
    parser.add_argument("--pause", type=int, default=5, help="seconds between steps")
    parser.add_argument("--strict", action="store_true", help="a busy machine excuses nothing")
    return harness.play(SCENARIOS, parser.parse_args())


if __name__ == "__main__":
    harness.exit_with(main)
