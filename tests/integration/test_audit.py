#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The auditor of a real cluster (DESIGN 14, ADR 0027): tables and znodes are changed behind the
brokers' backs, and each of its figures counts it, says so in the log, and is zero again when it is
mended; what is paused, waits or runs is counted by none. Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import sys

from kazoo.client import KazooClient

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 8
HELD = 3       # The shard that nobody gets.
STRAY = 1      # The shard that gets a row of ours.
FIGURE = dict(zip(("rows", "claims", "entries", "shards"), auditor.FIGURES))
OPTIONS = ["--audit-every", "1s"]


class World:
    def __init__(self, cluster):
        self.cluster = cluster
        self.zk = KazooClient(hosts=cluster.zk)
        self.zk.start(timeout=20)

    def sql(self, text):
        psql = harness.Psql(self.cluster.pg[0])
        try:
            return psql.ask(text)
        finally:
            psql.close()

    def create(self, delay, key):
        """A task of the paused queue: slot, seq."""
        task = json.loads(self.cluster.cli("task", "create", "--queue", "held", "--delay", delay,
                                           "--key", key, "-o", "json").stdout)["id"]
        return int(task[:3], 16), int(task[4:], 16)

    def sum(self, figure):
        pages = [auditor.read(page) for page in self.cluster.pages().values()]
        return sum(page[FIGURE[figure]] for page in pages if page is not None)

    def counts(self, figure, count):
        harness.until(f"the auditor to count {count} {figure}",
                      lambda: self.sum(figure) == count, 60)

    def is_logged(self, words):
        return any(words in (broker.err.read_text() + broker.out.read_text())
                   for broker in self.cluster.brokers.values())


def table(slot):
    return f"foliot_data.task_{slot % SHARDS:04}"


def what_is_paused_or_waits_is_no_fault(world):
    world.late = world.create("0s", "late")
    world.far = world.create("120s", "far")
    for i in range(20):
        world.create("0s" if i % 2 == 0 else "5m", f"k{i}")
    left = auditor.faults(world.cluster.pages, 60)
    assert not left, left


def a_row_that_nobody_has_is_counted(world):
    number = world.sql("SELECT id FROM foliot_data.queue WHERE name = 'held'")[0]
    world.sql(f"INSERT INTO {table(STRAY)} (seq, due_ms, created_ms, queue, attempt, failures,"
              f" unknowns, slot, payload) VALUES (5, (extract(epoch FROM clock_timestamp()) * 1000)"
              f"::bigint - 30000, 0, {number}, 0, 0, 0, {STRAY}, '')")
    world.counts("rows", 1)
    assert world.is_logged("audit: a task is due and in nobody's hands")
    done = world.cluster.cli("cluster", "check", "-o", "json", check=False)
    said = {check["check"]: check for check in json.loads(done.stdout)["checks"]}
    said = said["every due task is in somebody's hands"]
    assert done.returncode == 1 and not said["passed"] and said["faults"] == 1, (done, said)
    assert said["what"].startswith(f"shard {STRAY:04}: 1, the log of "), said


def a_task_without_a_row_is_counted(world):
    slot, seq = world.far
    world.sql(f"CREATE TABLE far AS SELECT * FROM {table(slot)} WHERE seq = {seq};"
              f"DELETE FROM {table(slot)} WHERE seq = {seq}")
    world.counts("entries", 1)
    assert world.is_logged("audit: a task in memory has no row in the database")


def a_claim_that_nobody_ends_is_counted(world):
    slot, seq = world.late
    world.sql("INSERT INTO foliot_data.claim (writer, seq, task_seqs, deadlines_ms, attempts,"
              f" task_slots, shards) VALUES (5, 5, '{{{seq}}}', '{{1}}', '{{1}}', '{{{slot}}}',"
              f" '{{{slot % SHARDS}}}')")
    world.counts("claims", 1)
    assert world.is_logged("audit: a claim is past its deadline and nobody ends it")


def what_is_mended_is_counted_no_more(world):
    slot, seq = world.far
    world.sql(f"INSERT INTO {table(slot)} SELECT * FROM far;"
              f"DELETE FROM {table(STRAY)} WHERE seq = 5;"
              "DELETE FROM foliot_data.claim WHERE writer = 5")
    left = auditor.faults(world.cluster.pages, 60)
    assert not left, left
    assert world.cluster.cli("cluster", "check").returncode == 0


def a_shard_without_owner_is_counted_by_all(world):
    for broker in world.cluster.brokers.values():
        assert broker.stop() == 0
    root = f"{world.cluster.zk_root}/main"
    owner = f"{root}/shards/{HELD:04}/owner"
    world.zk.create(owner, b"{}", ephemeral=True)  # Nobody gets it until we let go of it.
    for name in ("a", "b"):
        world.cluster.start_broker(name)
    harness.until("both to count it", lambda: [
        (auditor.read(page) or {}).get(FIGURE["shards"])
        for page in world.cluster.pages().values()] == [1, 1])
    world.zk.delete(owner)
    left = auditor.faults(world.cluster.pages, 60)
    assert not left, left
    world.cluster.wait_ready()


def start(world):
    for name in ("a", "b"):
        world.cluster.start_broker(name)
    world.cluster.wait_ready()
    world.cluster.start_receiver()
    world.cluster.cli("queue", "create", "held", "--target", f"receiver://{world.cluster.target}")
    world.cluster.cli("queue", "pause", "held")


def main():
    build = pathlib.Path(os.environ.get("FOLIOT_BUILD_DIR", ROOT / "build/dev")).name
    with harness.Cluster(build, SHARDS, broker_options=OPTIONS) as cluster:
        world = World(cluster)
        start(world)
        passed, failed = cases.run(
            (what_is_paused_or_waits_is_no_fault, a_row_that_nobody_has_is_counted,
             a_task_without_a_row_is_counted, a_claim_that_nobody_ends_is_counted,
             what_is_mended_is_counted_no_more, a_shard_without_owner_is_counted_by_all), world)
        world.zk.stop()
        world.zk.close()
    return cases.finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
