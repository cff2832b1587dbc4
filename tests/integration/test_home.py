#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The first database, which holds the queues, is away while another one is well: tasks of the other
one's shards are created and run on time, a broker that dies meanwhile is replaced there; queues can
be neither read nor changed, and whoever asks is told to try again; all well by itself after. Brokers
that have seen both databases are ready with one and not without any; one that has not is not ready.
Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402
import stalls  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
import grpc  # noqa: E402
from foliot.v1 import queue_pb2, queue_pb2_grpc, task_pb2, task_pb2_grpc  # noqa: E402

SHARDS = 8
RATE = 50  # Half of it waits for home as long as it is away; 4 000 calls can.
COUNT = 20       # tasks that are made by hand while home is away
ANSWER_S = 2     # at once: a broker that did not know would try for 3 s


def now_us():
    return time.time_ns() // 1000


def away(*databases):
    """The lines of /readyz for databases that are away."""
    return "".join(f"database {name} does not take writes\n" for name in databases)


def says(broker, status, body):
    """Wait until a broker says about its readiness what it should."""
    harness.until(f"{status} and '{body}'", lambda: broker.get("/readyz") == (status, body))


class World:
    """Two brokers on two databases; which shards are whose, and when home was away."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.judge = harness.Judge(SHARDS)
        self.stalls = stalls.Stalls(cluster.folder)
        for name in ("a", "b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.start_receiver()
        cluster.cli("queue", "create", "q", "--target", f"receiver://{cluster.target}")
        self.others = {shard for shard, database in self.databases().items() if database == "db1"}
        assert len(self.others) == SHARDS // 2, self.others
        self.stalls.start()
        self.load = cluster.start_load(
            "load", "--queue", "q", "--rate", str(RATE), "--count", "1000000", "--delay-max", "1s",
            "--keyed", "--outstanding", "4000", "--patience", "5m")
        harness.until("the load to run", lambda: self.load.alive() and self.came())

    def databases(self):
        """Shard → database, as the cluster itself says."""
        shards = json.loads(self.cluster.cli("cluster", "shards", "-o", "json").stdout)
        return {row["shard"]: row["database"] for row in shards["shards"]}

    def came(self):
        self.judge.read_receiver(self.cluster.receiver.out)
        return self.judge.attempts

    def is_other(self, task):
        return harness.shard_of(task, SHARDS) in self.others


def refused(call, request):
    """Of a call that needs home: that nothing happened, and when to try again."""
    try:
        call(request, timeout=ANSWER_S)
    except grpc.RpcError as error:
        reason, _, retry_s = stubs.details_of(error)
        assert error.code() == grpc.StatusCode.UNAVAILABLE and reason == "UNAVAILABLE", error
        assert "home database" in error.details() and retry_s > 0, (error.details(), retry_s)
    else:
        raise AssertionError(f"{request} was answered without the home database")


def tasks_of_other_databases_go_on(world):
    cluster = world.cluster
    cluster.server("kill-pg", "0")
    world.away_us = now_us()
    harness.until("its shards to be given up", lambda: cluster.owned() == SHARDS // 2)
    for broker in cluster.brokers.values():
        says(broker, 200, "ok\n" + away("db0"))
        assert broker.metric("foliot_ready") == 1, "it names what is away, and is ready"
    made = [cluster.cli("task", "create", "-q", "q", "-o", "name").stdout.split()[0]
            for _ in range(COUNT)]
    assert all(world.is_other(task) for task in made), made
    harness.until("them to run", lambda: world.came().keys() >= set(made))


def calls_that_need_it_are_told_to_try_again(world):
    with grpc.insecure_channel(world.cluster.brokers["a"].grpc) as channel:
        queues = queue_pb2_grpc.QueueServiceStub(channel)
        tasks = task_pb2_grpc.TaskServiceStub(channel)
        refused(queues.Create, queue_pb2.CreateQueueRequest(queue=queue_pb2.Queue(
            name="new", target=f"receiver://{world.cluster.target}")))
        refused(queues.Pause, queue_pb2.PauseQueueRequest(name="q"))
        refused(queues.Get, queue_pb2.GetQueueRequest(name="q"))
        refused(queues.List, queue_pb2.ListQueuesRequest())
        refused(tasks.Create, task_pb2.CreateTaskRequest(queue="never-seen"))
    for words in ("get",), ("pause",), ("create", "--target", f"receiver://{world.cluster.target}"):
        said = world.cluster.cli("queue", *words, "new", "--timeout", "5s", check=False)
        assert said.returncode == 6 and "home database" in said.stderr, said


def a_broker_that_dies_meanwhile_is_replaced(world):
    cluster = world.cluster
    assert cluster.brokers["b"].metric("foliot_shards_owned") > 0, "it has none that could move"
    world.killed_us = now_us()
    dead = cluster.brokers.pop("b")
    dead.signal(signal.SIGKILL)
    dead.popen.wait()
    harness.until("the other one to have its shards",
                  lambda: cluster.owned() == SHARDS // 2, 30)
    late = cluster.start_broker("c")
    harness.until("a new one to wait for it", lambda: late.get("/readyz")[1] ==
                  "a database cannot be brought up to date\n")
    assert late.get("/readyz")[0] == 503 and late.get("/startupz")[0] == 503
    assert late.get("/livez")[0] == 200


def without_any_database_no_broker_is_ready(world):
    cluster = world.cluster
    cluster.server("kill-pg", "1")
    says(cluster.brokers["a"], 503, away("db0", "db1"))
    harness.until("its figures", lambda: cluster.brokers["a"].metric("foliot_ready") == 0)
    assert cluster.brokers["a"].get("/startupz") == (200, "ok\n"), "that it has seen all stays so"
    cluster.server("start-pg", "1")
    says(cluster.brokers["a"], 200, "ok\n" + away("db0"))


def all_is_well_by_itself_after(world):
    cluster = world.cluster
    cluster.server("start-pg", "0")
    for broker in cluster.brokers.values():
        says(broker, 200, "ok\n")
        assert broker.get("/startupz")[0] == 200
    cluster.wait_ready()
    cluster.cli("queue", "pause", "q")
    cluster.cli("queue", "resume", "q")
    world.load.signal(signal.SIGTERM)
    harness.until("the load to end", lambda: not world.load.alive(), 30)
    world.judge.read_load(world.load.out)
    harness.until("all to have come", lambda: world.came() and not world.judge.lost())
    assert not world.judge.early(), world.judge.early()[:3]
    left = auditor.faults(cluster.pages)
    assert not left, left


def the_others_were_on_time(world):
    world.stalls.stop()
    late = world.judge.lateness(
        lambda line: world.is_other(line["taskId"]) and
        world.away_us < line["dueMs"] * 1000 < world.killed_us)
    seconds = (world.killed_us - world.away_us) / 1e6
    p99_us = harness.quantile(late, 990)
    print(f"    {len(late)} tasks in {seconds:.1f} s, lateness p50 "
          f"{harness.quantile(late, 500) / 1000:.1f} ms, p99 {p99_us / 1000:.1f} ms", flush=True)
    assert len(late) > RATE / 4 * seconds, "too few tasks ran meanwhile"
    assert p99_us < harness.ON_TIME_US or world.stalls.excuses(world.away_us, world.killed_us), p99_us


CASES = [tasks_of_other_databases_go_on, calls_that_need_it_are_told_to_try_again,
         a_broker_that_dies_meanwhile_is_replaced, without_any_database_no_broker_is_ready,
         all_is_well_by_itself_after, the_others_were_on_time]


def main():
    build = os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev"))
    with harness.Cluster(build, SHARDS, databases=2, broker_options=auditor.OPTIONS) as cluster:
        world = World(cluster)
        try:
            passed, failed = cases.run(CASES, world, words=())
        finally:
            world.stalls.stop()
    return cases.finish(passed, failed)


if __name__ == "__main__":
    harness.exit_with(main)
