#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A rolling restart (SIGTERM, wait, start) of both brokers while attempts that take a second are
running: their outcomes reach the new owners of their shards, so nothing is lost and nothing is done
twice. Ends with "N passed, N failed".
"""
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16
RATE = 100
LOAD_S = 24
ATTEMPT_S = 1   # How long the receiver takes.
TIMEOUT_S = 5   # How long it may take; an outcome that is not learned costs this, and a repeat.
MARGIN_S = 2    # start_by and the deadline's margin
DRAIN_S = 25    # Longest drain that is orderly: within the default drain.timeout.


def taken(broker):
    """Outcomes that others have told this broker."""
    for line in broker.get("/metrics")[1].splitlines():
        if line.startswith('foliot_reports_received_total{result="taken"}'):
            return int(line.rsplit(" ", 1)[1])
    return 0


def restart(cluster, name, other):
    """SIGTERM while it has attempts running; how many outcomes the other was told."""
    victim = cluster.brokers[name]
    harness.until("attempts to be running",
                  lambda: victim.metric("foliot_attempts_in_flight") >= RATE / 8)
    before = taken(cluster.brokers[other])
    victim.signal(signal.SIGTERM)
    status = victim.popen.wait(DRAIN_S)
    if status != 0:
        raise RuntimeError(f"{name} ended with {status}: see {victim.err}")
    harness.until("the outcomes to be counted", lambda: taken(cluster.brokers[other]) > before, 5)
    told = taken(cluster.brokers[other]) - before
    cluster.start_broker(name)
    cluster.wait_ready()
    cluster.wait_shared()
    return told


def run(cluster):
    for name in ("a", "b"):
        cluster.start_broker(name)
    cluster.wait_ready()
    cluster.start_receiver("--delay", f"{ATTEMPT_S}s")
    cluster.cli("queue", "create", "rolling", "--target", f"receiver://{cluster.target}",
                "--attempt-timeout", f"{TIMEOUT_S}s")
    load = cluster.start_load("load", "--queue", "rolling", "--rate", str(RATE), "--count",
                              str(RATE * LOAD_S), "--delay-max", "1s", "--keyed", "--patience",
                              "60s")
    told = [restart(cluster, "a", "b"), restart(cluster, "b", "a")]
    harness.until("the load to end", lambda: not load.alive(), LOAD_S + 60)
    time.sleep(1 + ATTEMPT_S + TIMEOUT_S + MARGIN_S + 1)  # A repeat would have come by then.
    judge = harness.Judge(SHARDS)
    judge.read_load(load.out)
    judge.read_receiver(cluster.receiver.out)
    print(f"    answered {len(judge.answered)}, attempts {judge.count}, outcomes told to the new "
          f"owner {told}, repeats {judge.repeats()}, lost {len(judge.lost())}", flush=True)
    faults = auditor.faults(cluster.pages)
    if len(judge.answered) != RATE * LOAD_S:
        faults.append(f"only {len(judge.answered)} tasks were answered")
    if judge.lost() or judge.early():
        faults.append(f"lost {judge.lost()[:5]}, early {judge.early()[:5]}")
    repeated = [lines for lines in judge.attempts.values() if len(lines) > 1]
    if repeated:
        faults.append(f"{len(repeated)} tasks were repeated, such as {repeated[0]}")
    return faults


def main():
    build = pathlib.Path(os.environ.get("FOLIOT_BUILD_DIR", ROOT / "build/dev")).name
    print("  a rolling restart repeats nothing and loses nothing", flush=True)
    with harness.Cluster(build, SHARDS, broker_options=auditor.OPTIONS) as cluster:
        try:
            faults = run(cluster)
        except RuntimeError as error:
            faults = [str(error)]
    for fault in faults:
        print(f"    FAIL {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
