#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Real processes, really hurt, under load; judged by what clients were answered and what the
receiver's own clock saw.

  chaos.py [--kills N] [--build PRESET] [--rate N] [SCENARIO …]

Scenarios: kills (kill -9 of brokers in turn), pause (SIGSTOP 10 s), postgres (kill -9 and restart),
zookeeper (stopped for 20 s). Ends with "N passed, N failed".
"""
import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../tools"))
import cluster as harness  # noqa: E402

SHARDS = 32
SESSION_S = 4
TICK_S = 0.5
STALL_MS = 50  # A window in which a 5 ms sleep took longer than this excuses timing bounds.
QUIET_S = 45   # Most time for the last task to be attempted after the load has ended.


class StallProbe(threading.Thread):
    """Sleeps 5 ms at a time and remembers when that took far longer: the machine's own stalls."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stalls = []
        self.end = False

    def run(self):
        while not self.end:
            before = time.time_ns() // 1000
            time.sleep(0.005)
            after = time.time_ns() // 1000
            if after - before > STALL_MS * 1000:
                self.stalls.append((before, after))

    def share(self, start_us, end_us):
        """Part of a span that was stalled."""
        stalled = sum(max(0, min(b, end_us) - max(a, start_us)) for a, b in self.stalls)
        return stalled / max(1, end_us - start_us)


class Run:
    """One scenario's cluster, load and verdict."""

    def __init__(self, options, seconds):
        self.options = options
        self.seconds = seconds
        self.cluster = harness.Cluster(options.build, SHARDS)
        self.judge = harness.Judge(SHARDS)
        self.faults = []
        self.probe = StallProbe()

    def __enter__(self):
        self.cluster.__enter__()
        for name in ("a", "b"):
            self.cluster.start_broker(name)
        self.cluster.wait_ready()
        self.cluster.start_receiver()
        self.cluster.cli("queue", "create", "chaos", "--target",
                         f"receiver://{self.cluster.target}", "--attempt-timeout", "1s")
        self.probe.start()
        rate = self.options.rate
        self.load = self.cluster.start_load(
            "load", "--queue", "chaos", "--rate", str(rate), "--count", str(rate * self.seconds),
            "--delay-min", "0s", "--delay-max", "3s", "--keyed", "--patience", "60s")
        return self

    def __exit__(self, *error):
        self.probe.end = True
        self.cluster.__exit__(*error)

    def expect(self, is_true, text):
        if not is_true:
            self.faults.append(text)

    def restart(self, name):
        self.cluster.start_broker(name)
        self.cluster.wait_ready()

    def share_out(self):
        """Both brokers have half of the shards again."""
        harness.until("the shards to be shared", lambda: all(
            broker.metric("foliot_shards_owned") == SHARDS / 2
            for broker in self.cluster.brokers.values()))

    def finish(self):
        """Wait for the load and the last attempts, then hold everything against the promises."""
        harness.until("the load to end", lambda: not self.load.alive(), self.seconds + 90)
        end = time.monotonic() + QUIET_S
        while time.monotonic() < end:
            self.judge.read_load(self.load.out)
            self.judge.read_receiver(self.cluster.receiver.out)
            if not self.judge.lost():
                break
            time.sleep(0.5)
        judge = self.judge
        self.expect(judge.answered, "no task was answered")
        self.expect(not judge.lost(), f"lost: {judge.lost()[:5]} of {len(judge.lost())}")
        self.expect(not judge.early(), f"early: {judge.early()[:3]}")
        self.expect(not judge.not_rising(), f"attempts do not rise: {judge.not_rising()[:5]}")
        self.expect(not judge.overlaps(), f"overlap: {judge.overlaps()[:2]}")
        for broker in self.cluster.brokers.values():
            self.expect(broker.alive(), f"{broker.name} has ended by itself")
        print(f"    answered {len(judge.answered)}, attempts {judge.count}, repeats "
              f"{judge.repeats()}, lost {len(judge.lost())}, early {len(judge.early())}, overlaps "
              f"{len(judge.overlaps())}", flush=True)


def shards_of(run, name):
    owners = run.cluster.owners()
    return {shard for shard, owner in owners.items() if owner == name}


def kills(options):
    """kill -9 of either broker under load: nothing answered is lost, gap within the promise."""
    limit_us = (SESSION_S + TICK_S + 1) * 1e6
    with Run(options, 11 * options.kills + 5) as run:
        hits = []
        time.sleep(2)
        for number in range(options.kills):
            name = "ab"[number % 2]
            run.share_out()
            shards = shards_of(run, name)
            kill_us, in_flight = run.cluster.kill(name)
            time.sleep(SESSION_S + TICK_S + 2)  # The gap is measured without the victim's help.
            hits.append((kill_us, shards, in_flight, time.time_ns() // 1000))
            run.restart(name)
        run.finish()
        for kill_us, shards, in_flight, end_us in hits:
            gap_us = run.judge.gap_us(kill_us, shards, end_us)
            stalled = run.probe.share(kill_us, kill_us + int(limit_us))
            run.expect(0 < gap_us <= limit_us or stalled > 0.01,
                       f"gap of {gap_us / 1e6:.2f} s, the promise is {limit_us / 1e6:.1f} s")
            print(f"    gap {gap_us / 1e6:.2f} s over {len(shards)} shards, commit in flight: "
                  f"{in_flight}, stalled {stalled * 100:.1f} %")
        count = sum(hit[2] for hit in hits)
        run.expect(count * 2 > options.kills, f"only {count} kills had a commit in flight")
        print(f"    {count} of {options.kills} kills with a commit in flight")
        return run.faults


def pause(options):
    """SIGSTOP 10 s: the woken broker starts no call and commits no claim before it acquires again."""
    with Run(options, 30) as run:
        time.sleep(3)
        run.share_out()
        victim = run.cluster.brokers["a"]
        victim.signal(signal.SIGSTOP)
        time.sleep(10)
        victim.signal(signal.SIGCONT)
        run.share_out()
        run.finish()
        return run.faults


def postgres(options):
    """kill -9 of PostgreSQL and restart: brokers survive, fire late, lose nothing."""
    with Run(options, 25) as run:
        time.sleep(4)
        run.cluster.server("kill-pg")
        time.sleep(2)
        run.cluster.server("start-pg")
        harness.until("every shard to be served again",
                      lambda: run.cluster.owned() == SHARDS, 30)
        run.finish()
        return run.faults


def zookeeper(options):
    """ZooKeeper stopped for 20 s: what is owned goes on, on time."""
    with Run(options, 35) as run:
        time.sleep(3)
        run.share_out()
        run.cluster.server("stop-zk")
        start_us = time.time_ns() // 1000
        time.sleep(20)
        end_us = time.time_ns() // 1000
        run.cluster.server("cont-zk")
        run.finish()
        away = run.judge.lateness(lambda line: start_us < line["actualUs"] < end_us)
        there = run.judge.lateness(lambda line: line["actualUs"] < start_us or
                                   line["actualUs"] > end_us + 2_000_000)
        p99_us, usual_us = harness.quantile(away, 990), harness.quantile(there, 990)
        stalled = run.probe.share(start_us, end_us)
        run.expect(len(away) > 10 * options.rate, "too few tasks ran while ZooKeeper was away")
        run.expect(p99_us < max(50_000, 2 * usual_us) or stalled > 0.01,
                   f"p99 lateness {p99_us / 1000:.1f} ms while ZooKeeper was away")
        print(f"    {len(away)} tasks while ZooKeeper was away, p99 {p99_us / 1000:.1f} ms, else "
              f"{usual_us / 1000:.1f} ms, stalled {stalled * 100:.1f} %")
        return run.faults


SCENARIOS = {"kills": kills, "pause": pause, "postgres": postgres, "zookeeper": zookeeper}


def main():
    parser = argparse.ArgumentParser(description="Hurt a cluster of real processes under load.")
    parser.add_argument("--kills", type=int, default=8)
    parser.add_argument("--rate", type=int, default=400)
    parser.add_argument("--build", default=os.environ.get("BUILD", "dev"))
    parser.add_argument("scenario", nargs="*", choices=[[], *SCENARIOS])
    options = parser.parse_args()
    passed = failed = 0
    for name in options.scenario or SCENARIOS:
        print(f"  {name}: {SCENARIOS[name].__doc__}", flush=True)
        try:
            faults = SCENARIOS[name](options)
        except (RuntimeError, subprocess.SubprocessError) as error:
            faults = [str(error) + " " + str(getattr(error, "stderr", "") or "")]
        for fault in faults:
            print(f"    FAIL {fault}")
        passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
