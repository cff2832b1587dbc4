#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""foliot bench against a real broker (`foliot dev`): every mode gives figures that agree with each
other, and leaves nothing behind. Figures of speed are not judged here. Ends with "N passed, N
failed"."""
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time

import cases
import devmode

FOLIOT = devmode.FOLIOT
LIMIT_S = 60
TRIES = 5
SHORT = ("--duration", "400ms", "--warmup", "100ms")
NEAR = (*SHORT, "--delay", "100ms..300ms")


class World:
    def __init__(self, dev):
        self.dev = dev

    def command(self, *words):
        return [FOLIOT, *words, "--address", self.dev.address]

    def run(self, *words, code=0):
        done = subprocess.run(self.command(*words), timeout=LIMIT_S, capture_output=True, text=True,
                              check=False, env={**os.environ, "XDG_CONFIG_HOME": "/nonexistent"})
        assert done.returncode == code, (words, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def bench(self, mode, *options):
        """The one run of a mode. What holds of each is seen to: nothing early, missing, failed."""
        run, = json.loads(self.run("bench", mode, *options, "-o", "json"))["runs"]
        assert run["mode"] == mode and not run["interrupted"], run
        assert (run["early"], run["missing"]) == (0, 0), run
        assert run["received"] == run["awaited"], run
        assert sum(bucket["count"] for bucket in run["histogram"]) == run["lateness"]["count"], run
        for call in run["calls"]:
            assert (call["failed"], call["unknown"]) == (0, 0), run
            answer = call["answer"]
            assert answer["minUs"] <= answer["p50Us"] <= answer["p99Us"] <= answer["maxUs"], run
        return run

    def queues(self):
        return self.run("queue", "list", "-o", "name").split()


def call(run, name):
    return next(call for call in run["calls"] if call["call"] == name)


def precision_and_steady_keep_to_their_rate(world):
    for mode, rate in (("precision", "200"), ("steady", "1000")):
        run = world.bench(mode, *NEAR, "--rate", rate, "--keyed", "30")
        assert call(run, "create")["done"] == run["received"] == int(rate) // 2, run
        assert 0 < run["lateness"]["count"] <= run["received"], run
        assert run["lateness"]["minUs"] >= 0, run


def creates_are_of_far_tasks_that_are_taken_away(world):
    for mode in ("create", "create-batch"):
        for _ in range(TRIES):  # A program that stands still for the span has measured nothing.
            run = world.bench(mode, *SHORT)
            made = call(run, "create")
            assert run["awaited"] == 0 and run["lateness"]["count"] == 0, run
            if made["measured"] > 0:
                break
        assert made["done"] >= made["measured"] > 0 and made["perSecond"] > 0, run


def what_is_not_waited_for_is_taken_away_too(world):
    run = world.bench("create-batch", *SHORT, "-c", "500", "--warmup", "0s", "--delay", "30m", "--await",
                      "0s", "--keyed", "100")
    assert call(run, "create")["done"] == 500 and run["awaited"] == 0, run


def a_drain_begins_when_all_are_due(world):
    run = world.bench("drain", "-c", "2000")
    assert run["received"] == 2000 and not run["createdAfterDue"], run
    assert run["lastLatenessUs"] >= run["firstLatenessUs"] >= 0, run
    assert abs(run["drainPerSecond"] - 2000 * 1e6 / run["lastLatenessUs"]) < 2, run


def a_drain_whose_tasks_came_too_late_says_so(world):
    out = world.run("bench", "drain", "-c", "20000", "--lead", "10ms", "--columns", "mode,count")
    assert "give more --lead" in out and re.search("^drain: create +20000$", out, re.M), out


def every_cancel_is_of_a_task_that_was_there(world):
    for options in ((), ("--batch", "50", "--outstanding", "2")):
        run = world.bench("cancel", "-c", "500", "--duration", "20s", *options)
        assert call(run, "cancel")["done"] == 500 and call(run, "cancel")["existing"] == 0, run


def a_mix_has_calls_of_each_kind(world):
    run = world.bench("mixed", "--duration", "1s", "--warmup", "0s", "--rate", "1000", "--delay",
                      "100ms..200ms,1d")
    kinds = {entry["call"]: entry["done"] for entry in run["calls"]}
    assert sum(kinds.values()) == 1000 and min(kinds.values()) > 0 and len(kinds) == 4, kinds
    assert kinds["create"] > 700 and 0 < run["received"] < kinds["create"], run


def no_queue_is_left_behind_unless_it_is_to_be_kept(world):
    assert world.queues() == ["default"], world.queues()
    world.bench("create", *SHORT, "-c", "20", "--warmup", "0s", "--keep")
    kept, = set(world.queues()) - {"default"}
    assert kept.startswith("bench-"), kept
    assert len(world.run("task", "list", "-q", kept, "-o", "name").split()) == 20
    world.run("task", "cancel", "-q", kept, "--all", "--yes")
    world.run("queue", "drain", kept)
    world.run("queue", "delete", kept)


def all_modes_run_one_after_the_other(world):
    """And a terminal sees how far they are."""
    master, slave = pty.openpty()
    with subprocess.Popen(world.command("bench", "-c", "300", "--duration", "300ms", "--warmup", "0s"),
                          stdout=subprocess.PIPE, stderr=slave, text=True) as process:
        os.close(slave)
        out = process.stdout.read()
        assert process.wait(LIMIT_S) == 0, out
    seen = os.read(master, 65536).decode()
    os.close(master)
    modes = re.findall(r"^([a-z-]+)(?:: create)? +\d+ ", out, re.M)
    assert modes == ["precision", "create", "create-batch", "drain", "drain", "steady", "cancel",
                     "mixed"], out
    assert re.search(r"precision \d\.\d s: answered \d+", seen) and seen.endswith("\x1b[K"), seen


def a_signal_ends_a_run_with_what_there_is(world):
    # What is made in the warm-up does not count.
    with subprocess.Popen(world.command("bench", "steady", "--duration", "60s", "--warmup", "0s",
                                        "--rate", "200", "-o", "json"),
                          stdout=subprocess.PIPE) as process:
        end = time.monotonic() + LIMIT_S
        while len(world.run("task", "list", "-o", "name").split()) < 20:
            assert time.monotonic() < end
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        run, = json.loads(process.stdout.read())["runs"]
        process.wait(LIMIT_S)
    assert run["interrupted"] and call(run, "create")["done"] < 12000, run
    assert world.queues() == ["default"], "the queue was taken away"


if __name__ == "__main__":
    sys.exit(cases.play_on_dev(cases.of(globals()), World))
