#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""More than fits: intake is refused and told when to come again, due work is not slowed by it, what waits
is bounded, and all is well without a restart when it is over. Ends with "N passed, N failed".

  test_overload.py [--long] [SCENARIO …]

receiver: one that takes a tenth of its load; commits: PostgreSQL takes 50 ms for each; instant: all due at one
moment. --long is ten to fifty times as much.
"""
import argparse
import os
import pathlib
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, str(ROOT / "tests/lib"))
import auditor  # noqa: E402
import cluster as harness  # noqa: E402
import grpc  # noqa: E402
import stalls  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import task_pb2, task_pb2_grpc  # noqa: E402

SHARDS = 16
QUIET_RATE = 100           # tasks a second of a queue that has nothing to do with the overload
LATE_MAX_US = 500_000      # of them, unless the machine stood still; a late one waits for two commits
LATE_SHARE_MAX = 0.01      # … for 99 of 100
OPS_MAX = 2 * (8192 + 2048) + 8192  # operations that wait for a commit, in two halves and the outcomes: state.h
IN_MEMORY_MAX = 20_000
# Tasks that may be in memory, of a short run and a long one: fewer than are due at the instant, and as
# many as there are by default.
MEMORY_TASKS = {"receiver": (IN_MEMORY_MAX, IN_MEMORY_MAX), "commits": (IN_MEMORY_MAX, IN_MEMORY_MAX),
                "instant": (12_000, 1_000_000)}
COMMIT_US = 50_000
START_BY_US = 1_000_000
RESIDENT_MAX = 256 << 20   # and what the tasks take that may be in memory
TASK_BYTES = 164
POLITE_COUNT = 8           # whether one of them is refused at its moment is chance
PATIENCE_S = 30            # most time for a create of a client that waits as it is told
REASONS = {"OVERLOADED", "LIMITS_CALLS"}


class World:
    """One broker, a quiet queue with its load, and what was seen of the broker meanwhile."""

    def __init__(self, cluster, is_long):
        self.cluster = cluster
        self.is_long = is_long
        self.broker = next(iter(cluster.brokers.values()))
        self.faults = []
        self.worst = {}
        self.quiet_receiver = cluster.start_receiver()
        self.quiet = self.make_queue("quiet", cluster.target)
        self.quiet_load = None

    def make_queue(self, name, target, *options):
        self.cluster.cli("queue", "create", name, "--target", f"receiver://{target}", *options)
        return name

    def makes_one_quickly(self):
        """A create, and its commit with it, takes less than the delay did."""
        start = time.monotonic()
        self.cluster.cli("task", "create", "-q", "quiet", "--delay", "300d")
        return time.monotonic() - start < 0.3 and self.broker.metric(
            "foliot_commit_seconds") * 1e6 < COMMIT_US

    def start_counter(self, count, *options):
        """A receiver that ends after so many attempts and tells only their sum; its address."""
        receiver = self.cluster.run("counter", [str(self.cluster.bin / "foliot"), "receive", "--port",
                                                "0", "-o", "json", "--summary", "--count",
                                                str(count), *options])
        first = harness.until("the receiver's port",
                              lambda: next(harness.json_lines(receiver.out), None))
        return receiver, f"127.0.0.1:{first['port']}"

    def expect(self, is_true, text):
        if not is_true:
            self.faults.append(text)

    def watch(self, *names):
        """Remember the highest value of the broker's figures."""
        for name in names:
            self.worst[name] = max(self.worst.get(name, 0), self.broker.metric(name))

    def until(self, what, test, limit_s, *names):
        """Wait, and look at the figures meanwhile."""
        def tried():
            self.watch("foliot_operations_waiting", "foliot_tasks_in_memory",
                       "process_resident_memory_bytes", *names)
            return test()
        return harness.until(what, tried, limit_s)

    def start_quiet(self, seconds, delay="2s"):
        """Created now, due while the overload lasts."""
        count = QUIET_RATE * seconds
        self.quiet_load = self.cluster.start_load(
            "quiet", "--queue", "quiet", "--count", str(count), "--rate", "20000", "--batch", "100",
            "--delay-min", delay, "--delay-max", f"{seconds + 2}s")
        harness.until("the quiet tasks to be made", lambda: not self.quiet_load.alive(), 30)

    def judge_quiet(self, stall):
        """All of the quiet queue have run, once, none early, and on time."""
        judge = harness.Judge(SHARDS)
        judge.read_load(self.quiet_load.out)

        def all_have_run():
            judge.read_receiver(self.quiet_receiver.out)
            return not judge.lost()

        harness.until("all quiet tasks to run", all_have_run, 60)
        stall.read()
        late = [line for task in judge.answered for line in judge.attempts[task][:1]
                if line["latenessUs"] > LATE_MAX_US and
                not stall.excuses(line["dueMs"] * 1000, line["actualUs"])]
        values = judge.lateness()
        print(f"    quiet queue: lateness p50/p99 {harness.quantile(values, 500) / 1000:.1f}/"
              f"{harness.quantile(values, 990) / 1000:.1f} ms, {len(late)} of {len(values)} late",
              flush=True)
        self.expect(len(late) <= LATE_SHARE_MAX * len(values),
                    f"{len(late)} of {len(values)} quiet tasks were late")
        self.expect(not judge.early(), "tasks came early")
        self.expect(judge.repeats() == 0, f"{judge.repeats()} repeats")

    def judge_figures(self, in_memory_max):
        for name, value in sorted(self.worst.items()):
            print(f"    at most {value:.12g} {name}", flush=True)
        self.expect(self.worst["foliot_operations_waiting"] <= OPS_MAX, "too many operations wait")
        self.expect(self.worst["foliot_tasks_in_memory"] <= in_memory_max, "too much in memory")
        resident_max = RESIDENT_MAX + TASK_BYTES * in_memory_max
        self.expect(self.worst["process_resident_memory_bytes"] <= resident_max, "too much memory")
        self.expect(self.broker.alive(), "the broker has ended")


def summary_of(load):
    """The last line of a load, which has ended."""
    return list(harness.json_lines(load.out))[-1]


def slow_receiver(world, stall):
    """Ten times more comes than it takes; then it takes more."""
    seconds = 60 if world.is_long else 3
    rate, wait_ms = 2_000, 100
    count = seconds * rate
    slow, target = world.start_counter(count, "--delay", f"{wait_ms}ms")
    concurrency = rate // 10 * wait_ms // 1000
    world.make_queue("slow", target, "--concurrency", str(concurrency))
    world.start_quiet(seconds)
    load = world.cluster.start_load("load", "--queue", "slow", "--count", str(count), "--rate",
                                    str(rate), "--batch", "100", "--out", "/dev/null")
    world.until("the load to end", lambda: not load.alive(), 60 + seconds,
                "foliot_attempts_in_flight")
    world.expect(summary_of(load).get("failed", 0) == 0, "creates have failed")
    # The quiet queue's own are claimed a little ahead of due.
    world.expect(world.worst["foliot_attempts_in_flight"] <= concurrency + QUIET_RATE,
                 "more attempts than the queue allows")
    world.judge_quiet(stall)
    world.cluster.cli("queue", "update", "slow", "--concurrency", "5000")
    world.until("the backlog to run", lambda: not slow.alive(), 120)
    world.expect(summary_of(slow)["repeats"] == 0, "repeats")
    world.judge_figures(IN_MEMORY_MAX + QUIET_RATE * seconds)


class Polite(threading.Thread):
    """A stock gRPC client, one keyed create at a time: what it is told when it is refused, and that it
    gets through when it has waited as told. stop() ends it; then its faults can be read."""

    def __init__(self, address, number):
        super().__init__(daemon=True)
        self.number = number
        self.channel = grpc.insecure_channel(address)
        self.stub = task_pb2_grpc.TaskServiceStub(self.channel)
        self.is_over = False
        self.refusals = []  # (reason, seconds to wait) as they came
        self.waits = []     # of each create that was refused: seconds until it was answered
        self.faults = []
        self.start()

    def told(self, error):
        """What the refusal says; a fault if it does not say all that docs/ERRORS.md promises."""
        reason, _, retry_s = stubs.details_of(error)
        trailers = dict(error.trailing_metadata())
        pushback = trailers.get("grpc-retry-pushback-ms", "")
        if error.code() != grpc.StatusCode.RESOURCE_EXHAUSTED or reason not in REASONS or \
                not 0 < retry_s <= 10 or pushback != f"{retry_s * 1000:.0f}":
            self.faults.append(f"refused by {error.code()} {reason} {retry_s} s {pushback!r} ms: "
                               f"{error.details()}")
        self.refusals.append((reason, retry_s))
        return max(retry_s, 0.01)

    def create(self, request):
        """Until it is done, waiting as told; how long that took after the first refusal, or None."""
        first = None
        while True:
            try:
                answer = self.stub.Create(request, timeout=PATIENCE_S)
            except grpc.RpcError as error:
                first = first or time.monotonic()
                time.sleep(self.told(error))
            else:
                if not answer.created:  # A refusal says that nothing has happened.
                    self.faults.append(f"{request.key} was there already")
                return first and time.monotonic() - first
            if time.monotonic() - first > PATIENCE_S:
                self.faults.append(f"{request.key} was refused for {PATIENCE_S} s")
                return None

    def run(self):
        count = 0
        while not self.is_over and not self.faults:
            request = task_pb2.CreateTaskRequest(queue="quiet", key=f"polite-{self.number}-{count}")
            request.delay.FromSeconds(300 * 86400)
            wait_s = self.create(request)
            if wait_s is not None:
                self.waits.append(wait_s)
            count += 1

    def stop(self):
        self.is_over = True
        self.join(2 * PATIENCE_S)
        self.channel.close()


def judge_polite(world, clients):
    for client in clients:
        client.stop()
        world.faults += client.faults
    refusals = [refusal for client in clients for refusal in client.refusals]
    waits = [wait_s for client in clients for wait_s in client.waits]
    print(f"    clients that wait as told: {len(refusals)} refusals of {len(waits)} creates, "
          f"{sorted(set(refusals))}, through after {max(waits, default=0):.2f} s at most", flush=True)
    world.expect(waits, "no create was refused and then got through")


def slow_commits(world, stall):
    """Each commit waits 50 ms, and more creates wait than one database may have waiting."""
    seconds = 30 if world.is_long else 4
    count = 300_000 if world.is_long else 200_000  # seconds of them: figures are read now and then
    refused = world.broker.metric("foliot_calls_refused_total")
    world.start_quiet(seconds)
    world.cluster.as_admin(f"ALTER SYSTEM SET commit_delay = {COMMIT_US}",
                           "ALTER SYSTEM SET commit_siblings = 0", "SELECT pg_reload_conf()")
    load = world.cluster.start_load(
        "flood", "--queue", "quiet", "--count", str(count), "--batch", "1000", "--outstanding", "96",
        "--delay-min", "300d", "--patience", "120s", "--out", "/dev/null")
    polite = [Polite(world.broker.grpc, number) for number in range(POLITE_COUNT)]
    world.until("the flood to be answered", lambda: not load.alive(), 240, "foliot_commit_seconds",
                "foliot_calls_tasks_waiting")
    judge_polite(world, polite)
    world.until("refusals to be counted", lambda: world.broker.metric(
        "foliot_calls_refused_total") > refused, 10)
    world.judge_quiet(stall)
    world.cluster.as_admin("ALTER SYSTEM RESET commit_delay", "ALTER SYSTEM RESET commit_siblings",
                           "SELECT pg_reload_conf()")
    made = summary_of(load)
    print(f"    {count * 1e6 / made['elapsedUs']:.0f} creates/s beside, "
          f"{world.broker.metric('foliot_calls_refused_total') - refused:.0f} times refused",
          flush=True)
    world.expect(made.get("failed", 0) == 0 and load.popen.returncode == 0, "creates have failed")
    world.expect(world.worst["foliot_commit_seconds"] * 1e6 > COMMIT_US, "commits were not slow")
    harness.until("commits to be as quick as before", world.makes_one_quickly, 30)
    world.judge_figures(IN_MEMORY_MAX)


def one_instant(world, stall):
    """All due at one moment; creates go on meanwhile."""
    count = 1_000_000 if world.is_long else 20_000
    ahead_s = 120 if world.is_long else 4
    burst, target = world.start_counter(count)
    world.make_queue("burst", target, "--concurrency", "20000")
    due = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(time.time()) + ahead_s))
    load = world.cluster.start_load("load", "--queue", "burst", "--count", str(count), "--batch",
                                    "500", "--outstanding", "8", "--at", due, "--out", "/dev/null")
    world.until("the tasks to be made", lambda: not load.alive(), 300)
    world.start_quiet(ahead_s if world.is_long else 6)
    world.until("all of the burst to run", lambda: not burst.alive(), 300)
    told = summary_of(burst)
    print(f"    {count} due on one ms: all sent after {told['latenessMaxUs'] / 1e6:.2f} s",
          flush=True)
    # A claim that found no room within a second is given back: its task's first attempt is number 2.
    in_time = told["latenessMaxUs"] < START_BY_US
    world.expect(told["early"] == 0 and (told["repeats"] == 0 or not in_time), f"{told}")
    world.judge_quiet(stall)
    world.judge_figures(MEMORY_TASKS["instant"][world.is_long])


SCENARIOS = {"receiver": slow_receiver, "commits": slow_commits, "instant": one_instant}


def run(name, is_long):
    faults = []
    try:
        with harness.Cluster(os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev")),
                             SHARDS, broker_options=(*auditor.OPTIONS, "--memory-tasks",
                                                     str(MEMORY_TASKS[name][is_long]))) as cluster, \
                stalls.Stalls(cluster.folder) as stall:
            cluster.start_broker("a")
            cluster.wait_ready()
            world = World(cluster, is_long)
            faults = world.faults
            SCENARIOS[name](world, stall)
            faults += auditor.faults(cluster.pages)
    except RuntimeError as error:
        faults.append(str(error))
    return faults


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--long", action="store_true", dest="is_long")
    parser.add_argument("names", nargs="*", choices=[[], *SCENARIOS])
    options = parser.parse_args()
    failed = 0
    names = options.names or list(SCENARIOS)
    for name in names:
        print(f"  {name}: {SCENARIOS[name].__doc__.splitlines()[0]}", flush=True)
        faults = run(name, options.is_long)
        failed += bool(faults)
        for fault in faults:
            print(f"    FAIL {fault}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    harness.exit_with(main)
