#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `make bench` prints: each measure of the product beside its target and beside the limit that
was measured in the same run, on private ports in a scratch folder, one machine carrying all.

  report.py [--quick] [--pending N] [-o text|markdown|json] [ROW …]      rows as in --list

--quick, or QUICK=1, makes each row short: under five minutes on a quiet machine. --pending
50000000 is the long row of as many far tasks; without it there are a million, with --quick none.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402
import processes  # noqa: E402

BUILD = os.environ.get("BUILD", "release")
BENCH = ROOT / "build" / BUILD / "tests/bench"
SHARDS = 128
TICKS = os.sysconf("SC_CLK_TCK")
SESSION_S, TICK_S, SLACK_S = 4, 0.5, 1
HELD_MS = 100   # A steady rate is held if p99 of lateness is below this,
HELD_SHARE = 0.98  # and as many tasks are created as the schedule has.


class Table:
    """The rows, and what the machine gave meanwhile."""

    def __init__(self):
        self.rows = []
        self.machine = []

    def add(self, measure, ours, unit, target=None, then="", lower=False, limits=(), note=""):
        """target: the bound; `lower`: smaller is better. limits: (name, value) in the same unit."""
        holds = None if target is None else (ours <= target if lower else ours >= target)
        self.rows.append({
            "measure": measure, "ours": ours, "unit": unit, "target": target,
            "sense": "at most" if lower else "at least", "then": then, "holds": holds, "note": note,
            "limits": [{"name": name, "value": value, "ratio": ours / value if value else None}
                       for name, value in limits]})
        print(f"  {measure}: {number(ours)} {unit}", file=sys.stderr, flush=True)


def number(value):
    if isinstance(value, str):
        return value
    if abs(value) >= 1000:
        return f"{value:,.0f}".replace(",", " ")
    return f"{value:.0f}" if value == int(value) else f"{value:.3g}"


def deployed_env():
    """What a broker's environment is where systemd starts it."""
    unit = (harness.ROOT / "deploy/systemd/foliotd.service").read_text(encoding="utf-8")
    name, value = re.search(r"^Environment=(GLIBC_TUNABLES)=(.*)$", unit, re.M).groups()
    return {name: value}


def figures(*command, env=None):
    """The lines of a program that prints "name<TAB>value<TAB>unit"."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, env={**os.environ, **(env or {})}, timeout=900)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stdout}{done.stderr}")
    found = {}
    for line in done.stdout.splitlines():
        name, value, _ = line.split("\t")
        found[name] = float(value)
    return found


def find(found, part):
    """The figure whose name ends so."""
    return next(value for name, value in found.items() if name.endswith(part))


# ---- processor time ----


def ticks_of(pid):
    """User and system time of a process and of its children that have ended."""
    try:
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15])


class World:
    """One broker on real servers, and the programs that are measured against it."""

    def __init__(self, options, cluster):
        self.options = options
        self.cluster = cluster
        self.broker = next(iter(cluster.brokers.values()), None)
        lines = subprocess.run([str(ROOT / "tools/servers"), "env", str(cluster.servers)],
                               check=True, capture_output=True, text=True).stdout
        self.env = {name: value for name, value in
                    re.findall(r"^export (\w+)='(.*)'$", lines, re.M)}

    def tidy(self):
        """What rows before have deleted is cleaned away: else autovacuum does it in one that comes later."""
        psql = harness.Psql(self.cluster.pg[0])
        psql.ask("SET client_min_messages = error")  # Of what is the superuser's.
        psql.ask("VACUUM")
        psql.close()

    def seconds(self, quick, full):
        return quick if self.options.quick else full

    def poller(self, *words):
        return figures(BENCH / "bench_poller", *words, env=self.env)

    def libpq(self, *words):
        return figures(BENCH / "bench_libpq", *words, env=self.env)

    def pids(self):
        """Process ids by what they are."""
        state = json.loads((self.cluster.servers / "state.json").read_text())
        roots = {server["kind"]: server["pid"] for server in state["servers"]}
        backends = [pid for pid, parent, _, _ in processes.processes() if parent == roots["pg"]]
        return {"broker": [self.broker.popen.pid], "postgres": [roots["pg"], *backends],
                "zookeeper": [roots["zk"]]}

    def cpu_us(self):
        return {name: sum(ticks_of(pid) for pid in pids) * 1e6 / TICKS
                for name, pids in self.pids().items()}

    def bench(self, mode, *options):
        """A run of foliot bench, and the processor time of each process in it, per task."""
        before = self.cpu_us()
        command = [str(self.cluster.bin / "foliot"), "bench", mode, "-o", "json", *options,
                   "--address", self.broker.grpc]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
        if not done.stdout:
            raise RuntimeError(f"{command}: {done.stderr}")
        run, = json.loads(done.stdout)["runs"]
        after = self.cpu_us()
        count = max(1, sum(call["done"] for call in run["calls"]))
        run["cpu"] = {name: (after[name] - before[name]) / count for name in before}
        run["cpu"]["load and receiver"] = run["clientCpuUs"] / count
        return run

    def record(self, *options):
        """Tasks that stay, in a queue of their own."""
        queue = f"kept-{time.monotonic_ns()}"
        self.cluster.cli("queue", "create", queue, "--target", "receiver://127.0.0.1:1")
        command = [str(self.cluster.bin / "foliot"), "bench", "record", "-q", queue, "--out",
                   "/dev/null", "-o", "json", "--batch", "1000", "--outstanding", "8", *options,
                   "--address", self.broker.grpc]
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=7200)
        return json.loads(done.stdout.splitlines()[-1])


def cpu_note(run):
    parts = ", ".join(f"{name} {number(used)}" for name, used in run["cpu"].items())
    return f"µs/task: {parts}"


def create_rate(run):
    return run["calls"][0]["perSecond"]


# ---- rows without servers ----


def machine(options, table):
    """The machine's own reference figures."""
    for what in ("loop", "memory", "sync", "sleep", "loopback"):
        found = figures(BENCH / "bench_machine", what, "1" if options.quick else "3")
        for name, value in found.items():
            if not name.endswith("max"):
                table.machine.append({"name": name, "value": value})


def empty_call(options):
    """Empty calls a second, 64 outstanding, and the server's time of one."""
    done = subprocess.run([BENCH / "bench_rpc", "50000" if options.quick else "200000"],
                          capture_output=True, text=True, check=True)
    row = next(line.split() for line in done.stdout.splitlines()
               if line.split()[:2] == ["64", "0"])
    return float(row[2]), float(row[3])


def wheel(options, table):
    """ns per operation, of the large count: (add, cancel, expire) by structure."""
    count = 1_000_000 if options.quick else 10_000_000
    done = subprocess.run([BENCH / "bench_wheel", str(count)], capture_output=True, text=True,
                          check=True)
    found = {}
    for line in done.stdout.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) == 7 and "/" in cells[1] and cells[0] not in ("structure",):
            found[cells[0]] = [float(cell.split("/")[1]) for cell in cells[1:4]]
    others = {name: value for name, value in found.items()
              if not name.startswith("wheel")}
    for index, (name, bound) in enumerate((("add", 60), ("cancel", None), ("expire", 60))):
        table.add(f"wheel at {number(count)}: {name}", found["wheel"][index], "ns", bound,
                  "ahead of heap and tree", True,
                  [(other, value[index]) for other, value in others.items()])


def simulator(options, table):
    """Five brokers, 128 shards, one core."""
    program = ROOT / "build" / BUILD / "tests/sim/foliot-sim"
    done = subprocess.run([program, "--first", "1", "--seeds", "1" if options.quick else "4",
                           "--minutes", "10", "--shape", "5x128", "--set", "call_every_us=20000",
                           "--set", "burst=0"], capture_output=True, text=True, check=True)
    speed = re.search(r"of one core: (\d+) times real time", done.stdout)
    table.add("simulator, 5 brokers, 128 shards, one core", float(speed.group(1)), "× real time",
              500, "2 000")


# ---- rows of one broker ----


def lateness(world, table):
    seconds = world.seconds(5, 20)
    run = world.bench("precision", "--rate", "500", "--duration", f"{seconds}s")
    bare = world.poller("late", seconds, 500)
    late = run["lateness"]
    slept = next(row["value"] for row in table.machine if row["name"].endswith("wakes late, p99"))
    table.add("lateness at 500/s, p50", late["p50Us"] / 1000, "ms", 1, "", True,
              [("poller", find(bare, "lateness p50"))])
    table.add("lateness at 500/s, p99", late["p99Us"] / 1000, "ms", 3, "", True,
              [("poller", find(bare, "lateness p99")), ("sleeping thread", slept)], cpu_note(run))
    table.add("lateness at 500/s, early", run["early"], "", 0, "", True)
    run = world.bench("steady", "--rate", "10000", "--duration", f"{seconds}s")
    table.add("lateness at 10 000/s, p99", run["lateness"]["p99Us"] / 1000, "ms", None, "≤ 10 ms",
              True, note=cpu_note(run))


def creates(world, table):
    seconds = world.seconds(3, 10)
    calls, call_us = empty_call(world.options)
    common = ("--duration", f"{seconds}s", "--keep")
    run = world.bench("create", *common)
    bare = world.poller("single", seconds, 64)
    table.add("creates, single calls, 64 outstanding", create_rate(run), "1/s", 20_000, "40 000",
              False, [("poller", find(bare, "one by one")), ("empty gRPC call", calls)],
              f"{cpu_note(run)}; server's time of an empty call {number(call_us)} µs")
    run = world.bench("create-batch", *common)
    alone = find(world.libpq("plain", seconds), "no key")
    bare = find(world.poller("batch", seconds), "batches of 500")
    table.add("creates, batch, no key", create_rate(run), "1/s", 100_000, "70 % of libpq", False,
              [("libpq alone", alone), ("poller", bare)], cpu_note(run))


def keyed(world, table):
    seconds = world.seconds(3, 10)
    run = world.bench("create-batch", "--duration", f"{seconds}s", "--keyed", "100", "--delay",
                      "0s..1h,0s..30d", "--await", "0s", "--keep")
    alone = find(world.libpq("keyed", seconds), "keyed")
    table.add("creates, batch, keyed, all shards", create_rate(run), "1/s", 30_000,
              "70 % of libpq", False, [("libpq alone", alone)], cpu_note(run))


def drain(world, table):
    count = world.seconds(100_000, 1_000_000)
    run = world.bench("drain", "--count", str(count), "--lead", f"{count // 20_000 + 4}s")
    bare = find(world.poller("drain", 1, world.seconds(100_000, 500_000)), "drain")
    late = "; some were created after they were due" if run["createdAfterDue"] else ""
    table.add(f"drain of {number(count)} due at one instant", run["drainPerSecond"], "1/s", 60_000,
              "1 000 000 in 10 s", False, [("poller", bare)],
              f"first after {run['firstLatenessUs'] / 1000:.1f} ms, early {run['early']}, repeats "
              f"{run['repeats']}{late}; {cpu_note(run)}")


def held(rates, attempt):
    """(highest rate that is held, what was seen of each)."""
    best, seen = 0, []
    for rate in rates:
        p99_ms, share = attempt(rate)
        seen.append(f"{rate // 1000}k: {number(p99_ms)} ms")
        if p99_ms >= HELD_MS or share < HELD_SHARE:
            break
        best = rate
    return best, "p99 of " + ", ".join(seen)


def steady(world, table):
    rates = world.seconds([20_000, 40_000], [10_000, 20_000, 30_000, 40_000, 50_000, 60_000, 80_000])
    seconds = world.seconds(4, 10)
    runs = {}

    def ours(rate):
        run = world.bench("steady", "--rate", str(rate), "--duration", f"{seconds}s", "--warmup",
                          "2s")
        runs[rate] = run
        missing = 0 if run["missing"] else 1
        return run["lateness"]["p99Us"] / 1000, missing * create_rate(run) / rate

    def bare(rate):
        found = world.poller("steady", seconds + 2, rate)
        return find(found, "lateness p99"), find(found, "creates") / rate

    best, seen = held(rates, ours)
    limit, limit_seen = held(rates, bare)
    table.add("steady create, run, settle, p99 < 100 ms", best, "1/s", 40_000, "80 000", False,
              [("poller", limit)], f"{seen}; poller {limit_seen}")
    run = runs.get(20_000) or next(iter(runs.values()))
    table.add("broker CPU per task at 20 000/s", run["cpu"]["broker"], "µs", 12, "6", True,
              note=cpu_note(run))


def window(world, table):
    count = world.seconds(100_000, 300_000)
    near = ("--delay-min", "4m", "--delay-max", "5m")
    world.record("--count", "20000", *near)  # Buffers have their size now.
    time.sleep(3)  # Snapshots of metrics are up to 1.3 s old.
    heap, resident = world.broker.metric("foliot_heap_bytes"), rss_bytes(world.broker)
    world.record("--count", str(count), *near)
    time.sleep(3)
    table.add("memory per task in the window, payload 100 bytes",
              (world.broker.metric("foliot_heap_bytes") - heap) / count, "bytes", 164, "", True,
              note=f"resident {number((rss_bytes(world.broker) - resident) / count)} bytes")


def rss_bytes(process):
    text = pathlib.Path(f"/proc/{process.popen.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text).group(1)) * 1024


def pending(world, table):
    count = world.options.pending
    if count == 0:
        return
    made = world.record("--count", str(count), "--delay-min", "30d", "--delay-max", "365d")
    table.add(f"{number(count)} pending, broker memory", rss_bytes(world.broker) / 2**20, "MiB",
              1024, "600 million over several databases", True,
              note=f"created at {number(count * 1e6 / made['elapsedUs'])}/s")


# ---- two brokers: a planned move, and a kill ----


def pauses(judge, owned, start_us, end_us):
    """Worst lateness of each shard's tasks that were due meanwhile, sorted: (of these, of others)."""
    worst = {}
    for task, lines in judge.attempts.items():
        due_us = lines[0]["dueMs"] * 1000
        if start_us <= due_us < end_us:
            shard = harness.shard_of(task, judge.shards)
            worst[shard] = max(worst.get(shard, 0), lines[0]["latenessUs"])
    return (sorted(worst.get(shard, 0) for shard in owned),
            sorted(late for shard, late in worst.items() if shard not in owned))


def now_us():
    return time.time_ns() // 1000


def moves(options, table):
    shards = 32
    with harness.Cluster(BUILD, shards) as cluster:
        cluster.broker_env = deployed_env()
        for name in ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.start_receiver()
        cluster.cli("queue", "create", "moved", "--target", f"receiver://{cluster.target}",
                    "--attempt-timeout", "1s")
        load = cluster.start_load("load", "--queue", "moved", "--rate", "1000", "--count", "300000",
                                  "--delay-min", "0s", "--delay-max", "2s", "--keyed")
        time.sleep(4)
        judge = harness.Judge(shards)
        moved = {shard for shard, owner in cluster.owners().items() if owner == "b"}
        start_us = now_us()
        cluster.brokers["b"].stop()
        end_us = now_us() + 1_000_000
        time.sleep(2)
        cluster.start_broker("b")
        cluster.wait_ready()
        cluster.wait_shared()
        time.sleep(2)
        gone = {shard for shard, owner in cluster.owners().items() if owner == "b"}
        kill = cluster.kill("b")
        time.sleep(SESSION_S + TICK_S + SLACK_S + 3)
        load.signal(15)
        harness.until("the load to end", lambda: not load.alive(), 60)
        time.sleep(4)
        judge.read_load(load.out)
        judge.read_receiver(cluster.receiver.out)
    ours, others = pauses(judge, moved, start_us, end_us)
    gap_us, _ = judge.outage(kill, gone)
    table.add("planned move, pause per moved shard, p99", harness.quantile(ours, 990) / 1000, "ms",
              200, "50 ms", True,
              note=f"{len(ours)} shards moved; of the others p99 "
                   f"{harness.quantile(others, 990) / 1000:.1f} ms")
    table.add("kill -9, gap", gap_us / 1e6, "s", SESSION_S + TICK_S + SLACK_S, "", True,
              note=f"session timeout {SESSION_S} s")
    table.add("kill -9 and planned move: lost, early", len(judge.lost()) + len(judge.early()), "", 0,
              "", True, note=f"{len(judge.answered)} tasks answered, repeats {judge.repeats()}")


ALONE = {row.__name__: row for row in (wheel, simulator, moves)}
SERVED = {row.__name__: row for row in (lateness, creates, drain, steady, window, keyed, pending)}


# ---- the report ----


def about(options):
    def output(*command):
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
        return done.stdout.strip()

    model = re.search(r"^model name\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M)
    memory = re.search(r"MemTotal:\s+(\d+)", pathlib.Path("/proc/meminfo").read_text()).group(1)
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": output("git", "rev-parse", "--short", "HEAD"),
        "machine": f"{os.cpu_count()} cores ({model.group(1) if model else platform.machine()}), "
                   f"{int(memory) // 2**20} GiB",
        "postgresql": output("/usr/lib/postgresql/15/bin/postgres", "--version"),
        "loadBefore": os.getloadavg()[0],
        "quick": options.quick,
    }


def limit_text(row):
    return "; ".join(f"{limit['name']} {number(limit['value'])} ({limit['ratio']:.2f})"
                     for limit in row["limits"] if limit["ratio"] is not None)


def target_text(row):
    if row["target"] is None:
        return ""
    sign = "≤" if row["sense"] == "at most" else "≥"
    return f"{sign} {number(row['target'])}"


def cells(row):
    verdict = {True: "yes", False: "NO", None: ""}[row["holds"]]
    return [row["measure"], f"{number(row['ours'])} {row['unit']}".strip(), target_text(row), verdict,
            row["then"], limit_text(row), row["note"]]


HEADINGS = ["measure", "ours", "target", "held", "then", "limit in this run (ours / limit)", "notes"]


def show_text(info, table):
    rows = [HEADINGS[:6], *(cells(row)[:6] for row in table.rows)]
    widths = [max(len(row[i]) for row in rows) for i in range(6)]
    print(f"\n{info['machine']}, {info['postgresql']}, commit {info['commit']}, {info['date']}, load "
          f"average {info['loadBefore']:.1f} before it\n")
    for row, given in zip(rows, [None, *table.rows]):
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
        if given and given["note"]:
            print(f"    {given['note']}")
    print("\nthe machine itself: " + "; ".join(f"{row['name']} {number(row['value'])}"
                                             for row in table.machine))


def show_markdown(info, table):
    print(f"{info['machine']}, {info['postgresql']}, commit {info['commit']}, {info['date']}, load "
          f"average {info['loadBefore']:.1f} before it.\n")
    print("| " + " | ".join(HEADINGS) + " |\n|" + "---|" * len(HEADINGS))
    for row in table.rows:
        print("| " + " | ".join(cells(row)) + " |")
    print("\n| the machine itself | |\n|---|---|")
    for row in table.machine:
        print(f"| {row['name']} | {number(row['value'])} |")


def run(options, table):
    wanted = options.names or [*ALONE, *SERVED]
    print("machine", file=sys.stderr, flush=True)
    machine(options, table)
    for name in wanted:
        if name in ALONE:
            print(name, file=sys.stderr, flush=True)
            ALONE[name](options, table)
    served = [name for name in SERVED if name in wanted]
    if not served:
        return
    with harness.Cluster(BUILD, SHARDS) as cluster:
        cluster.broker_env = deployed_env()
        cluster.start_broker("bench")
        cluster.wait_ready()
        world = World(options, cluster)
        for name in served:
            print(name, file=sys.stderr, flush=True)
            world.tidy()
            SERVED[name](world, table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", default=bool(os.environ.get("QUICK")))
    parser.add_argument("--pending", type=int, default=None)
    parser.add_argument("-o", "--output", choices=("text", "markdown", "json"), default="text")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*", metavar="ROW")
    options = parser.parse_args()
    if options.list:
        print("\n".join([*ALONE, *SERVED]))
        return 0
    unknown = set(options.names) - {*ALONE, *SERVED}
    if unknown:
        parser.error(f"no row {', '.join(sorted(unknown))}; --list names them")
    if options.pending is None:
        options.pending = 0 if options.quick else 1_000_000
    table, info = Table(), about(options)
    run(options, table)
    if options.output == "json":
        print(json.dumps({**info, "machineFigures": table.machine, "rows": table.rows}, indent=1))
    else:
        (show_text if options.output == "text" else show_markdown)(info, table)
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.CalledProcessError) as error:
        print(f"report: {error}", file=sys.stderr)
        sys.exit(1)
