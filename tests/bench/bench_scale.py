#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a task costs as the cluster grows: processor time of the broker and of PostgreSQL, as ratios to the
smallest size. One broker on real servers, or two for a take-over.

  bench_scale.py pending 10000 100000 1000000     cost of a task with so many pending beside it
  bench_scale.py shards 9 128 1024                … in a cluster of so many shards
  bench_scale.py queues 1 10 100 1000             … when its load is spread over so many queues
  bench_scale.py brokers 1 2 4 8                  … over so many brokers, all simulated in one process
  bench_scale.py takeover 10000 100000            kill -9 with so many tasks in the window
  bench_scale.py fill 5000000 25000000            create so many, due within a year, in one queue; twice
                                                  with --set shared_buffers=4GB --set max_wal_size=16GB
  bench_scale.py demo                             36 000 tasks in ten minutes (FACTOR=10: in one)

--tasks N: tasks of each measurement, default 20 000. --set: settings that PostgreSQL is started with. Read
the ratios: processor time depends on what else the machine does, by a fifth and more.
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests/bench"))
import bench_cluster as bench  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 128
TAKEOVER_SHARDS = 32
TAKEOVER_RATE = 1000
MEASURED_US = 30_000_000  # after the kill; what was claimed at it waits for its deadline, of 10 s
WARM = 2_000
RATE = 4000
LOADS = 8
LOG = "SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')"
INSERT = """
INSERT INTO foliot_data.task_{shard:04} (seq, due_ms, created_ms, queue, attempt, failures, unknowns,
    slot, payload)
SELECT (1::bigint << 31) + i, {now_ms} + 86400000 + (i * 7919::bigint) % 31536000000, {now_ms},
    (SELECT id FROM foliot_data.queue WHERE name = 'far'), 0, 0, 0, {shard},
    convert_to(repeat('x', 100), 'UTF8') FROM generate_series(1, {count}) i"""


def server_cpu_us(cluster):
    """Of all processes of PostgreSQL: they are below the folder of the servers."""
    total = 0
    for folder in pathlib.Path("/proc").iterdir():
        try:
            if (folder.name.isdigit() and b"postgres" in (folder / "cmdline").read_bytes()[:80] and
                    str(cluster.folder) in os.readlink(folder / "cwd")):
                total += int((folder / "schedstat").read_text().split()[0])
        except OSError:
            continue  # It has ended, or is not ours to read.
    return total / 1000


def run_tasks(cluster, queues, count):
    """Create, run and settle; processor time of broker and server for each task, in µs."""
    receiver = bench.Receiver(cluster, count)
    names = [bench.make_queue(cluster, f"q{i}-{time.monotonic_ns()}", "deliver", "--concurrency",
                              "2000") for i in range(queues)]
    broker = bench.broker_of(cluster)
    before, served = bench.cpu_us(broker), server_cpu_us(cluster)
    loads = []
    for name in names:
        loads.append(cluster.start_load(
            f"load.{name}", "--queue", name, "--rate", str(RATE // min(queues, LOADS)), "--count",
            str(count // queues), "--batch", str(min(100, count // queues)), "--delay-min", "1s",
            "--delay-max", "3s", "--out", "/dev/null"))
        # A thousand programs at a time would measure themselves.
        harness.until("a load to end", lambda: sum(one.alive() for one in loads) < LOADS, 300)
    harness.until("loads to end", lambda: not any(one.alive() for one in loads), 300)
    receiver.summary(300)
    bench.settled(broker)
    return (bench.cpu_us(broker) - before) / count, (server_cpu_us(cluster) - served) / count


def set_up(cluster, settings):
    """Start PostgreSQL again, with these."""
    for setting in settings:
        name, _, value = setting.partition("=")
        try:
            cluster.as_admin(f"ALTER SYSTEM SET {name} = '{value}'")
        except RuntimeError as error:
            cluster.close()
            sys.exit(f"bench_scale: --set {setting}: {error}")
    cluster.server("kill-pg")
    cluster.server("start-pg")


def start(shards=SHARDS, settings=()):
    cluster = harness.Cluster(bench.BUILD, shards)
    cluster.__enter__()
    if settings:
        set_up(cluster, settings)
    cluster.start_broker("a")
    cluster.wait_ready(120)
    return cluster


def show(what, rows):
    """Rows of (size, broker, server)."""
    print(f"\n{what:>12}  {'broker':>9}  {'server':>9}   ratio to the first")
    for size, broker, server in rows:
        print(f"{size:>12}  {broker:>6.1f} µs  {server:>6.1f} µs   {broker / rows[0][1]:.2f}  "
              f"{server / max(rows[0][2], 0.001):.2f}", flush=True)


def pending(sizes, options):
    """More and more rows due in a year, in the same cluster."""
    rows, there = [], 0
    cluster = start()
    try:
        bench.Receiver(cluster, 1)
        cluster.cli("queue", "create", "far", "--target", f"receiver://{cluster.target}")
        psql = harness.Psql(cluster.pg[0])
        run_tasks(cluster, 1, WARM)
        for size in sizes:
            for shard in range(SHARDS):
                low, high = there // SHARDS, size // SHARDS
                psql.ask(INSERT.format(shard=shard, now_ms=int(time.time() * 1000), count=high - low)
                         .replace("<< 31) + i", f"<< 31) + {low} + i"))
            there = size
            rows.append((size, *run_tasks(cluster, 1, options.tasks)))
        psql.close()
    finally:
        cluster.close()
    show("pending", rows)


def shards(sizes, options):
    rows = []
    for size in sizes:
        cluster = start(size)
        try:
            run_tasks(cluster, 1, WARM)
            rows.append((size, *run_tasks(cluster, 1, options.tasks)))
        finally:
            cluster.close()
    show("shards", rows)


def queues(sizes, options):
    rows = []
    cluster = start()
    try:
        run_tasks(cluster, 1, WARM)
        for size in sizes:
            rows.append((size, *run_tasks(cluster, size, options.tasks // size * size)))
    finally:
        cluster.close()
    show("queues", rows)


def fill(sizes, options):
    """Creates alone, until so many are pending in one queue: what they cost between two sizes."""
    cluster = start(settings=options.set)
    try:
        cluster.cli("queue", "create", "far", "--target", "receiver://127.0.0.1:1")
        psql = harness.Psql(cluster.pg[0])
        print(f"\n{'pending':>12}  {'creates/s':>9}  {'server':>9}  log of each", flush=True)
        there = 0
        for size in sizes:
            log, served = int(psql.ask(LOG)[0]), server_cpu_us(cluster)
            start_s = time.monotonic()
            load = cluster.start_load(
                f"load.{size}", "--queue", "far", "--count", str(size - there), "--batch", "1000",
                "--outstanding", "8", "--delay-min", "30d", "--delay-max", "365d", "--out", "/dev/null")
            if load.popen.wait() != 0:
                raise RuntimeError(f"creates have failed: see {load.err}")
            took_s, made, there = time.monotonic() - start_s, size - there, size
            print(f"{size:>12}  {made / took_s:>9.0f}  {(server_cpu_us(cluster) - served) / made:>6.1f} µs"
                  f"  {(int(psql.ask(LOG)[0]) - log) / made:.0f} bytes", flush=True)
        psql.close()
    finally:
        cluster.close()


def full_speed_us(judge, kill_us):
    """From the kill to the end of the last second of which fewer than 95 of 100 tasks ran on time."""
    due, on_time = {}, {}
    for lines in judge.attempts.values():
        second, is_late = lines[0]["dueMs"] // 1000, lines[0]["latenessUs"] > harness.ON_TIME_US
        due[second] = due.get(second, 0) + 1
        on_time[second] = on_time.get(second, 0) + (not is_late)
    slow = [second for second in due if (second + 1) * 1_000_000 > kill_us and
            on_time[second] < 0.95 * due[second]]
    return (max(slow) + 1) * 1_000_000 - kill_us if slow else 0


def takeover(sizes, _):
    """A second broker takes the first one's shards over while 1 000 tasks a second are due: until when any was
    late, and until when a second had more than a few late ones. All that were due have to have come."""
    print(f"\n{'in window':>12}  {'all shards':>10}  {'gap':>8}  {'full speed':>10}   after the kill")
    for size in sizes:
        cluster = start(TAKEOVER_SHARDS)
        try:
            receiver = cluster.start_receiver()
            cluster.cli("queue", "create", "near", "--target", f"receiver://{cluster.target}")
            bench.load(cluster, "--queue", "near", "--count", str(size), "--batch", "500",
                       "--outstanding", "8", "--delay-min", "4m", "--delay-max", "290s")
            made = str(cluster.folder / "made")
            bench.load(cluster, "--queue", "near", "--count", str(40 * TAKEOVER_RATE), "--batch", "500",
                       "--delay-min", "1s", "--delay-max", "40s", out=made)
            cluster.start_broker("b")
            harness.until("the second broker", cluster.brokers["b"].is_ready, 60)
            lost = {shard for shard, name in cluster.owners().items() if name == "a"}
            kill = cluster.kill("a")
            kill_us = kill.at_us
            harness.until("every shard to have an owner",
                          lambda: cluster.owned() == TAKEOVER_SHARDS, 60)
            owned_s = time.time() - kill_us / 1e6
            harness.until("half a minute to pass",
                          lambda: time.time() > (kill_us + MEASURED_US) / 1e6 + 2, 40)
            judge = harness.Judge(TAKEOVER_SHARDS)
            judge.read_load(made)
            judge.read_receiver(receiver.out)
            never = [task for task in judge.lost()
                     if judge.answered[task] * 1000 < kill_us + MEASURED_US]
            if never:
                raise RuntimeError(f"{len(never)} tasks due within half a minute of the kill never came")
            gap_us, _ = judge.outage(kill, lost)
            full_us = full_speed_us(judge, kill_us)
            print(f"{size:>12}  {owned_s:>8.2f} s  {gap_us / 1e6:>6.2f} s  {full_us / 1e6:>8.1f} s",
                  flush=True)
        finally:
            cluster.close()


def demo(_, __):
    """The author's own load: 36 000 tasks in ten minutes, 60 a second."""
    factor = int(os.environ.get("FACTOR", "1"))
    cluster = start()
    try:
        receiver = bench.Receiver(cluster, 36_000)
        queue = bench.make_queue(cluster, "demo", "deliver")
        broker = bench.broker_of(cluster)
        before = bench.cpu_us(broker)
        made = bench.load(cluster, "--queue", queue, "--count", "36000", "--rate", str(60 * factor),
                          "--delay-min", "1s", "--delay-max", "60s")
        got = receiver.summary(120)
        print(f"\n36 000 tasks in {made['elapsedUs'] / 60e6:.1f} min: lateness p50 "
              f"{got['latenessP50Us'] / 1000:.2f}, p99 {got['latenessP99Us'] / 1000:.2f} ms, early "
              f"{got['early']}, repeats {got['repeats']}; broker "
              f"{(bench.cpu_us(broker) - before) / 36_000:.0f} µs/task, "
              f"{bench.rss_bytes(broker) / 2**20:.1f} MiB", flush=True)
    finally:
        cluster.close()


def brokers(sizes, _):
    """500 tasks a second for five virtual minutes and 128 shards, all brokers in one simulated world."""
    print(f"\n{'brokers':>12}  {'all of it':>9}   ratio to the first")
    first = None
    for size in sizes:
        done = subprocess.run(
            [ROOT / "build" / bench.BUILD / "tests/sim/foliot-sim", "--seed", "1", "--minutes", "10", "--quiet",
             "--shape", f"{size}x128", "--set", "call_every_us=2000", "--set", "burst=0", "--set",
             "faults_us=300000000"], capture_output=True, text=True, check=True)
        seconds, starts = re.search(r"in ([\d.]+) s of one core.* (\d+) starts", done.stdout).groups()
        cost = float(seconds) * 1e6 / int(starts)
        first = first or cost
        print(f"{size:>12}  {cost:>6.1f} µs   {cost / first:.2f}", flush=True)


ROWS = {f.__name__: f for f in (pending, fill, shards, queues, takeover, demo, brokers)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="?", choices=ROWS, help="default: a short form of two")
    parser.add_argument("sizes", nargs="*", type=int)
    parser.add_argument("--tasks", type=int, default=20_000)
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    args = parser.parse_args()
    if args.what:
        ROWS[args.what](args.sizes, args)
    else:
        shards([9, 128, 1024], args)
        pending([10_000, 100_000], args)
    return 0


if __name__ == "__main__":
    harness.exit_with(main)
