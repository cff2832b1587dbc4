#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The whole product under load: one broker, real PostgreSQL and ZooKeeper, load and receiver, all on
this machine, durable commits on.

  bench_cluster.py [-r RUNS] [NAME …]      names as in --list; default: all, one run each

Each row is a median of RUNS, with the range beside it. Where the machine itself sets the mark, the
row before it says what the machine gives: read the figures as ratios.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402

SHARDS = 128
BUILD = os.environ.get("BUILD", "release")
PAYLOAD = "100"
TICKS = os.sysconf("SC_CLK_TCK")


class Table:
    """Rows of (name, unit), a value per run."""

    def __init__(self):
        self.rows = {}

    def add(self, name, value, unit):
        self.rows.setdefault((name, unit), []).append(value)

    def show(self):
        width = max(len(name) for name, _ in self.rows)
        for (name, unit), values in self.rows.items():
            middle = statistics.median(values)
            spread = f"  ({number(min(values))} … {number(max(values))})" if len(values) > 1 else ""
            print(f"{name:<{width}}  {number(middle):>10} {unit}{spread}")


def number(value):
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if value == int(value) else f"{value:.2f}"


# ---- what a process uses ----


def cpu_us(process):
    """User and system time of a process in µs, from the scheduler's own count where there is one."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.popen.pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1000


def switches(process):
    """How often its threads were woken: voluntary context switches."""
    total = 0
    for task in pathlib.Path(f"/proc/{process.popen.pid}/task").iterdir():
        for line in (task / "status").read_text().splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                total += int(line.split()[1])
    return total


def rss_bytes(process):
    for line in pathlib.Path(f"/proc/{process.popen.pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) * 1024
    return 0


# ---- pieces of a run ----


def broker_of(cluster):
    return next(iter(cluster.brokers.values()))


def make_queue(cluster, name, kind, *options):
    target = {"deliver": f"receiver://{cluster.target}",
              "method": f"grpc://{cluster.target}/bench.Sink/Take"}[kind]
    cluster.cli("queue", "create", name, "--target", target, *options)
    return name


def load(cluster, *options, out="/dev/null"):
    """Run foliot bench record to its end, its lines in a file; its summary."""
    command = [str(cluster.bin / "foliot"), "bench", "record", "-o", "json", "--out", out,
               "--payload-bytes", PAYLOAD, *options]
    for address in cluster.addresses():
        command += ["--server", address]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"the load failed: {done.stderr}")
    return json.loads(done.stdout.splitlines()[-1])


class Receiver:
    """foliot receive that keeps only its summary."""

    def __init__(self, cluster, count):
        self.process = cluster.run(f"receiver.{time.monotonic_ns()}",
                                   [str(cluster.bin / "foliot"), "receive", "--port", "0", "-o",
                                    "json", "--summary", "--count", str(count)])
        first = harness.until("the receiver's port",
                              lambda: next(harness.json_lines(self.process.out), None))
        cluster.target = f"127.0.0.1:{first['port']}"

    def summary(self, limit_s=120):
        harness.until("the receiver to have all attempts", lambda: not self.process.alive(),
                      limit_s)
        return list(harness.json_lines(self.process.out))[-1]


# ---- the rows ----


class Machine:
    """bench_machine beside a row: what the machine gives to anybody meanwhile."""

    def __init__(self, what, seconds):
        self.popen = subprocess.Popen([str(ROOT / f"build/{BUILD}/tests/bench/bench_machine"), what,
                                       str(seconds)], stdout=subprocess.PIPE, text=True)

    def add_to(self, table, note):
        for line in self.popen.communicate()[0].splitlines():
            name, value, unit = line.split("\t")
            table.add(f"[machine] {name}{note}", float(value), unit)


def lateness(cluster, table, kind, label, seconds=10):
    count = 500 * seconds
    receiver = Receiver(cluster, count)
    queue = make_queue(cluster, f"late-{time.monotonic_ns()}", kind)
    broker = broker_of(cluster)
    before = cpu_us(broker)
    machine = Machine("sleep", seconds)
    load(cluster, "--queue", queue, "--rate", "500", "--count", str(count), "--delay-min", "1s",
         "--delay-max", "5s")
    got = receiver.summary()
    machine.add_to(table, f", beside {label}")
    name = f"lateness at 500/s, {label}"
    table.add(f"{name}, p50", got["latenessP50Us"] / 1000, "ms")
    table.add(f"{name}, p99", got["latenessP99Us"] / 1000, "ms")
    table.add(f"{name}, max", got["latenessMaxUs"] / 1000, "ms")
    table.add(f"{name}, early", got["early"], "")
    table.add(f"{name}, broker's CPU", (cpu_us(broker) - before) / count, "µs/task")


def lateness_deliver(cluster, table):
    lateness(cluster, table, "deliver", "Deliver")


def lateness_method(cluster, table):
    lateness(cluster, table, "method", "any gRPC method")


def steady(cluster, table, seconds=8):
    """Create, run and settle at a rate, all at once."""
    for rate in (5_000, 10_000, 20_000):
        count = rate * seconds
        receiver = Receiver(cluster, count)
        queue = make_queue(cluster, f"steady-{time.monotonic_ns()}", "deliver", "--concurrency",
                           "20000")
        broker = broker_of(cluster)
        before = cpu_us(broker)
        made = load(cluster, "--queue", queue, "--rate", str(rate), "--count", str(count),
                    "--batch", "100", "--outstanding", "64", "--delay-min", "1s", "--delay-max",
                    "3s")
        got = receiver.summary()
        settled(broker)
        name = f"steady {rate}/s"
        table.add(f"{name}, creates", count * 1e6 / made["elapsedUs"], "tasks/s")
        table.add(f"{name}, lateness p50", got["latenessP50Us"] / 1000, "ms")
        table.add(f"{name}, lateness p99", got["latenessP99Us"] / 1000, "ms")
        table.add(f"{name}, early", got["early"], "")
        table.add(f"{name}, broker's CPU", (cpu_us(broker) - before) / count, "µs/task")


def due_at(seconds):
    """A whole second of the future: for --at, and as a number."""
    due = int(time.time()) + seconds
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(due)), due


def burst(cluster, table, name, count, *options):
    """All due on one millisecond."""
    receiver = Receiver(cluster, count)
    queue = make_queue(cluster, f"burst-{time.monotonic_ns()}", "deliver", *options)
    text, due = due_at(max(8, count // 8_000))
    broker = broker_of(cluster)
    start = cpu_us(broker)
    load(cluster, "--queue", queue, "--count", str(count), "--batch", "500", "--outstanding", "8",
         "--at", text)
    middle = cpu_us(broker)
    if time.time() > due - 0.5:
        raise RuntimeError("the creates took longer than the time until due")
    got = receiver.summary()
    settled(broker)
    name = f"{count} due on one ms, {name}"
    table.add(f"{name}: first sent after", got["latenessMinUs"] / 1000, "ms")
    table.add(f"{name}: p99", got["latenessP99Us"] / 1000, "ms")
    table.add(f"{name}: all sent after", got["latenessMaxUs"] / 1000, "ms")
    table.add(f"{name}: drain", count * 1e6 / got["latenessMaxUs"], "tasks/s")
    table.add(f"{name}: early", got["early"], "")
    table.add(f"{name}: repeats", got["repeats"], "")
    table.add(f"{name}: broker's CPU to create", (middle - start) / count, "µs/task")
    table.add(f"{name}: broker's CPU to run and settle", (cpu_us(broker) - middle) / count,
              "µs/task")


def settled(broker, limit_s=60):
    harness.until("everything to be settled",
                  lambda: broker.metric("foliot_attempts_in_flight") == 0, limit_s)


def drain(cluster, table):
    burst(cluster, table, "8000 at once", 8_000)
    burst(cluster, table, "concurrency 1000 (default)", 100_000)
    burst(cluster, table, "concurrency 20000", 100_000, "--concurrency", "20000")


def tenants(cluster, table, count=200_000):
    """What a queue of another namespace feels of a burst."""
    target = cluster.start_receiver()
    cluster.cli("queue", "create", "-n", "other", "quiet", "--target",
                f"receiver://{cluster.target}")
    quiet = cluster.start_load("quiet", "-n", "other", "--queue", "quiet", "--rate", "100",
                               "--count", "12000", "--delay-min", "1s", "--delay-max", "2s",
                               "--out", "/dev/null")
    time.sleep(12)
    marks = [("before", time.time() - 9, time.time())]
    receiver = Receiver(cluster, count)
    queue = make_queue(cluster, f"burst-{time.monotonic_ns()}", "deliver", "--concurrency", "20000")
    text, due = due_at(count // 8_000)
    start = time.time()
    load(cluster, "--queue", queue, "--count", str(count), "--batch", "500", "--outstanding", "8",
         "--at", text)
    marks.append(("while the burst is created", start, time.time()))
    got = receiver.summary()
    marks.append(("while it runs", due, due + got["latenessMaxUs"] / 1e6))
    quiet.stop()
    judge = harness.Judge(SHARDS)
    judge.read_receiver(target.out)
    table.add(f"burst of {count}: all sent after", got["latenessMaxUs"] / 1000, "ms")
    for name, begin, end in marks:
        values = judge.lateness(lambda line, b=begin, e=end: b <= line["dueMs"] / 1000 < e)
        for permille in (500, 990):
            table.add(f"another namespace at 100/s, {name}: p{permille // 10}",
                      harness.quantile(values, permille) / 1000, "ms")


def creates(cluster, table):
    Receiver(cluster, 1)
    queue = make_queue(cluster, f"create-{time.monotonic_ns()}", "deliver")
    broker = broker_of(cluster)
    machine = Machine("sync", 3)
    for label, count, options in (
            ("single calls, 64 outstanding", 50_000, ("--batch", "1", "--outstanding", "64")),
            ("batches of 500, 8 outstanding", 200_000, ("--batch", "500", "--outstanding", "8")),
            ("the same, keyed", 100_000, ("--batch", "500", "--outstanding", "8", "--keyed"))):
        before = cpu_us(broker)
        made = load(cluster, "--queue", queue, "--count", str(count), "--delay-min", "300d",
                    "--delay-max", "365d", *options)
        table.add(f"creates, {label}", count * 1e6 / made["elapsedUs"], "tasks/s")
        table.add(f"creates, {label}: answer p50", made["answerP50Us"] / 1000, "ms")
        table.add(f"creates, {label}: answer p99", made["answerP99Us"] / 1000, "ms")
        table.add(f"creates, {label}: broker's CPU", (cpu_us(broker) - before) / count, "µs/task")
    machine.add_to(table, ", beside the creates")


def pending(cluster, table, count=1_000_000):
    Receiver(cluster, 1)
    queue = make_queue(cluster, f"pending-{time.monotonic_ns()}", "deliver")
    broker = broker_of(cluster)
    far = ("--queue", queue, "--batch", "1000", "--outstanding", "8", "--delay-min", "0s",
           "--delay-max", "365d")
    load(cluster, "--count", "20000", *far)  # Buffers have their size now.
    rss, heap = rss_bytes(broker), broker.metric("foliot_heap_bytes")
    made = load(cluster, "--count", str(count), *far)
    name = f"{count} due in a year"
    table.add(f"{name}: creates", count * 1e6 / made["elapsedUs"], "tasks/s")
    table.add(f"{name}: broker's memory before (RSS)", rss / 2**20, "MiB")
    table.add(f"{name}: broker's memory after (RSS)", rss_bytes(broker) / 2**20, "MiB")
    table.add(f"{name}: broker's own allocations, growth",
              (broker.metric("foliot_heap_bytes") - heap) / 1024, "KiB")
    table.add(f"{name}: tasks in memory after", broker.metric("foliot_tasks_in_memory"), "")


def window(cluster, table, count=200_000):
    """Tasks inside the window: bytes each."""
    Receiver(cluster, 1)
    queue = make_queue(cluster, f"window-{time.monotonic_ns()}", "deliver")
    broker = broker_of(cluster)
    near = ("--queue", queue, "--batch", "1000", "--outstanding", "8", "--delay-min", "4m",
            "--delay-max", "5m")
    load(cluster, "--count", "20000", *near)
    rss, heap = rss_bytes(broker), broker.metric("foliot_heap_bytes")
    load(cluster, "--count", str(count), *near)
    name = f"task in the window, payload {PAYLOAD} bytes"
    table.add(f"{name}: own allocations",
              (broker.metric("foliot_heap_bytes") - heap) / count, "bytes")
    table.add(f"{name}: RSS", (rss_bytes(broker) - rss) / count, "bytes")


def idle(cluster, table, seconds=20):
    broker = broker_of(cluster)
    time.sleep(3)
    wakes, used, start = switches(broker), cpu_us(broker), time.monotonic()
    time.sleep(seconds)
    span = time.monotonic() - start
    table.add("idle: wake-ups of all threads", (switches(broker) - wakes) / span, "1/s")
    table.add("idle: CPU", (cpu_us(broker) - used) / span / 1e4, "% of a core")


ROWS = {f.__name__.replace("_", "-"): f for f in
        (idle, lateness_deliver, lateness_method, steady, creates, drain, tenants, pending,
         window)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-r", "--runs", type=int, default=1)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", choices=[[], *ROWS])
    args = parser.parse_args()
    if args.list:
        print("\n".join(ROWS))
        return 0
    table = Table()
    for _ in range(args.runs):
        for name in args.names or ROWS:
            with harness.Cluster(BUILD, SHARDS) as cluster:
                cluster.start_broker("bench")
                cluster.wait_ready()
                ROWS[name](cluster, table)
    table.show()
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except RuntimeError as error:
        print(f"bench_cluster: {error}", file=sys.stderr)
        sys.exit(1)
