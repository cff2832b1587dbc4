#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clocks that step in a real cluster (DESIGN 8): a broker's changes nothing but the offset that it
shows; a database's takes due times along when it goes forward, and holds them when it goes back.
Both are seen in the metrics. Ends with "N passed, N failed".
"""
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 8
DAY_S = 86400
RATE = 50
LOAD_S = 9
LATE_US = 5_000_000  # Far more than a stall costs, far less than a step.


class Clock:
    """A file that says by how much the clocks of those who were started with it are off."""

    def __init__(self, library, path):
        self.library, self.path = library, path
        self.set(0)
        path.chmod(0o644)

    def set(self, seconds):
        if not self.path.exists():
            self.path.write_bytes(bytes(8))
        with open(self.path, "r+b") as file:
            file.write(int(seconds * 1e9).to_bytes(8, sys.byteorder, signed=True))

    def __enter__(self):
        os.environ["LD_PRELOAD"] = str(self.library)
        os.environ["STEP_CLOCK_FILE"] = str(self.path)

    def __exit__(self, *_):
        del os.environ["LD_PRELOAD"], os.environ["STEP_CLOCK_FILE"]


class World(harness.Cluster):
    """Its servers, and broker a, have clocks of their own."""

    def __init__(self, build, library):
        super().__init__(build, SHARDS, broker_options=auditor.OPTIONS)
        self.base = Clock(library, self.folder / "base.clock")
        self.own = Clock(library, self.folder / "a.clock")

    def start_servers(self):
        with self.base:
            super().start_servers()

    def start(self):
        with self.own:
            self.start_broker("a")
        self.start_broker("b")
        self.wait_ready()
        self.wait_shared()
        self.start_receiver()
        self.cli("queue", "create", "q", "--target", f"receiver://{self.target}")

    def offset(self, name):
        return self.brokers[name].metric("foliot_db_clock_offset_seconds")

    def steps(self):
        return [broker.metric("foliot_db_clock_steps_total") for broker in self.brokers.values()]

    def held(self):
        return [broker.metric("foliot_db_clock_held_seconds") for broker in self.brokers.values()]


def a_brokers_clock_changes_nothing(world):
    before = [broker.metric("foliot_epochs_raised_total") for broker in world.brokers.values()]
    load = world.start_load("load", "--queue", "q", "--rate", str(RATE), "--count",
                            str(RATE * LOAD_S), "--delay-max", "1s")
    for off_s in (DAY_S, -DAY_S, 0):
        world.own.set(off_s)
        harness.until("a to show its offset", lambda off_s=off_s:
                      abs(world.offset("a") + off_s) < 5)
        assert abs(world.offset("b")) < 5, world.offset("b")
    harness.until("the load to end", lambda: not load.alive(), LOAD_S + 60)
    judge = harness.Judge(SHARDS)
    judge.read_load(load.out)
    assert len(judge.answered) == RATE * LOAD_S, len(judge.answered)

    def is_over():
        judge.read_receiver(world.receiver.out)
        return not judge.lost()
    harness.until("every task to be fired", is_over)
    assert not judge.early(), judge.early()[:3]
    late = [line for lines in judge.attempts.values() for line in lines
            if line["latenessUs"] > LATE_US]
    assert not late, late[:3]
    after = [broker.metric("foliot_epochs_raised_total") for broker in world.brokers.values()]
    assert after == before and world.steps() == [0, 0], (before, after, world.steps())


def a_databases_clock_is_followed_forward_and_held_back(world):
    world.base.set(20)
    harness.until("both to see the step", lambda: min(world.steps()) >= 1)
    harness.until("both to show it", lambda: all(
        abs(world.offset(name) - 20) < 5 for name in world.brokers))
    assert world.held() == [0, 0], world.held()
    world.base.set(10)
    harness.until("both to hold", lambda: min(world.held()) > 1)
    assert min(world.steps()) >= 2, world.steps()
    begun = time.monotonic()
    world.cli("task", "create", "--queue", "q", "--delay", "0s")
    harness.until("the clock to have caught up", lambda: world.held() == [0, 0], 40)
    assert time.monotonic() - begun < 30


def nothing_is_left_to_the_auditor(world):
    left = auditor.faults(world.pages)
    assert not left, left


def main():
    folder = pathlib.Path(os.environ.get("FOLIOT_BUILD_DIR", ROOT / "build/dev"))
    library = folder / "tests/chaos/libstep_clock.so"
    with World(folder.name, library) as world:
        world.start()
        passed, failed = cases.run((a_brokers_clock_changes_nothing,
                                    a_databases_clock_is_followed_forward_and_held_back,
                                    nothing_is_left_to_the_auditor), world)
    return cases.finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
