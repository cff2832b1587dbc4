#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Overdue rows of a paused queue slow neither a take-over nor another queue, take no memory, and run
when the pause ends. Ends with "N passed, N failed".

  test_blocked.py [COUNT]   default 100 000; the ten million of DESIGN 9 in make check-long (then
                            without the end of the pause), figures in docs/PERFORMANCE.md
"""
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16
OVERDUE = 320            # tasks of the other queue, an hour overdue
IN_MEMORY_MAX = 20_000   # a line of 4 times the concurrency, and a page of each shard
RESUME_MAX = 1_000_000   # with more, the pause does not end
SLOWER_MAX_S = 3         # than a take-over without those rows
LATER_MAX_US = 20_000    # half of the other queue's tasks, than without them
LARGER_MAX_BYTES = 32 << 20  # a line, its payloads and what a page of each shard takes

# Ids of epochs that no owner has: 1; 2 and 3. An epoch is the id from bit 31 on.
STUCK, OTHER = "000000008", "00000001"

INSERT = """
INSERT INTO foliot_data.task_{shard:04} (seq, due_ms, created_ms, queue, attempt, failures, unknowns,
    slot, payload)
SELECT ({epoch}::bigint << 31) + i, {now_ms} - {overdue}, {now_ms} - 864000000,
    (SELECT id FROM foliot_data.queue WHERE name = '{queue}'), 0, 0, 0, {shard},
    convert_to(repeat('x', 100), 'UTF8') FROM generate_series(1, {count}) i"""


def fill(psql, queue, epoch, count, overdue):
    for shard in range(SHARDS):
        psql.ask(INSERT.format(shard=shard, epoch=epoch, now_ms=int(time.time() * 1000), queue=queue,
                               overdue=overdue, count=count // SHARDS))


def received(cluster, prefix):
    """Attempts of ids that begin so, behind the slot."""
    return [line["taskId"] for line in harness.json_lines(cluster.receiver.out)
            if line.get("taskId", "")[4:].startswith(prefix)]


def take_over(cluster, psql, name, epoch):
    """Start a broker where there is none, with overdue tasks of the other queue; how long until
    they have run."""
    before = len(received(cluster, OTHER))
    fill(psql, "other", epoch, OVERDUE, 3_600_000)
    start = time.monotonic()
    broker = cluster.start_broker(name)
    harness.until("the other queue's overdue tasks to run",
                  lambda: len(received(cluster, OTHER)) >= before + OVERDUE, 120)
    took = time.monotonic() - start
    cluster.wait_ready(60)
    return broker, took


def lateness_beside(cluster):
    """Lateness of the other queue's tasks as they come."""
    load = cluster.start_load("load", "--queue", "other", "--count", "1600", "--rate", "200",
                              "--delay-min", "500ms", "--delay-max", "2s")
    harness.until("the load to end", lambda: not load.alive(), 60)
    judge = harness.Judge(SHARDS)
    judge.read_load(load.out)

    def all_have_run():
        judge.read_receiver(cluster.receiver.out)
        return not judge.lost()

    harness.until("all of the load to run", all_have_run, 20)
    return sorted(judge.attempts[task][0]["latenessUs"] for task in judge.answered)


def resume(cluster, psql, count):
    """The pause ends: each of them runs, once."""
    start = time.monotonic()
    psql.ask("UPDATE foliot_data.queue SET is_paused = false, version = version + 1"
             " WHERE name = 'stuck'")
    harness.until("all that waited to run",
                  lambda: len(received(cluster, STUCK)) >= count, 120)
    print(f"    after the pause {count / (time.monotonic() - start):.0f} tasks/s", flush=True)
    ids = received(cluster, STUCK)
    return [] if len(set(ids)) == count else [f"{len(ids)} attempts of {len(set(ids))} tasks"]


def run(cluster, count):
    cluster.start_receiver()
    first = cluster.start_broker("a")
    cluster.wait_ready()
    for queue in ("stuck", "other"):
        cluster.cli("queue", "create", queue, "--target", f"receiver://{cluster.target}")
    first.stop()
    psql = harness.Psql(cluster.pg[0])
    first, alone_s = take_over(cluster, psql, "a", 2)
    alone_us = lateness_beside(cluster)
    alone_bytes = first.metric("process_resident_memory_bytes")
    first.stop()
    psql.ask("UPDATE foliot_data.queue SET is_paused = true, version = version + 1"
             " WHERE name = 'stuck'")
    fill(psql, "stuck", 1, count, 86_400_000)
    broker, took_s = take_over(cluster, psql, "a", 3)
    late_us = lateness_beside(cluster)
    held = broker.metric("foliot_tasks_in_memory")
    rss = broker.metric("process_resident_memory_bytes")
    print(f"    {count} overdue rows beside: take-over {alone_s:.2f} s without, {took_s:.2f} s with "
          f"them; lateness p50/p99 {harness.quantile(alone_us, 500) / 1000:.1f}/"
          f"{harness.quantile(alone_us, 990) / 1000:.1f} ms without, "
          f"{harness.quantile(late_us, 500) / 1000:.1f}/"
          f"{harness.quantile(late_us, 990) / 1000:.1f} ms with; "
          f"in memory {held:.0f}, resident {alone_bytes / 1048576:.0f} MiB without, "
          f"{rss / 1048576:.0f} MiB with", flush=True)
    faults = []
    if took_s > alone_s + SLOWER_MAX_S:
        faults.append("the take-over was slower")
    if harness.quantile(late_us, 500) > harness.quantile(alone_us, 500) + LATER_MAX_US:
        faults.append("the other queue's tasks were later")
    if rss > alone_bytes + LARGER_MAX_BYTES:
        faults.append("the broker's memory grew")
    if held > IN_MEMORY_MAX:
        faults.append(f"{held:.0f} tasks are in memory, at most {IN_MEMORY_MAX}")
    if received(cluster, STUCK):
        faults.append("tasks of a paused queue have run")
    faults += resume(cluster, psql, count) if count <= RESUME_MAX else []
    return faults + auditor.faults(cluster.pages)


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    print("  overdue rows of a paused queue stand in nobody's way", flush=True)
    with harness.Cluster(os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev")),
                         SHARDS, broker_options=auditor.OPTIONS) as cluster:
        try:
            faults = run(cluster, count // SHARDS * SHARDS)
        except RuntimeError as error:
            faults = [str(error)]
    for fault in faults:
        print(f"    FAIL {fault}")
    print(f"{0 if faults else 1} passed, {1 if faults else 0} failed")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
