#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""One broker of two is cut off from one database of two, and from nothing else: it gives up its shards
there and says so in its znode, the other one serves them, tasks made through it run; it has its share
again when the way is free. Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import re
import signal
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib"), str(ROOT / "tests/chaos")]
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402
import links  # noqa: E402

from kazoo.client import KazooClient  # noqa: E402
from kazoo.exceptions import NoNodeError  # noqa: E402

SHARDS = 8
RATE = 50
COUNT = 20  # tasks that are made by hand through the broker that is cut off
LINK = "b:db1"


class World:
    """Brokers a and b on db0 and db1; b's way to db1 is a link."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.judge = harness.Judge(SHARDS)
        self.links = links.Links(cluster.folder / "links.err")
        self.zk = KazooClient(hosts=cluster.zk)
        self.zk.start(timeout=30)
        straight = cluster.pg[1]
        port = re.search(r"\bport=(\d+)", straight)[1]
        cluster.start_broker("a")
        cluster.pg[1] = straight.replace(f"port={port}",
                                         f"port={self.links.add(LINK, int(port), 'pg')}")
        cluster.start_broker("b")
        cluster.pg[1] = straight
        self.share_out()
        cluster.start_receiver()
        cluster.cli("queue", "create", "q", "--target", f"receiver://{cluster.target}")
        self.load = cluster.start_load(
            "load", "--queue", "q", "--rate", str(RATE), "--count", "1000000", "--delay-max", "1s",
            "--keyed", "--patience", "5m")
        harness.until("the load to run", lambda: self.load.alive() and self.came())

    def close(self):
        self.zk.stop()
        self.zk.close()
        self.links.close()

    def came(self):
        self.judge.read_receiver(self.cluster.receiver.out)
        return self.judge.attempts

    def share_out(self):
        harness.until("the shards to be shared", lambda: all(
            broker.get("/readyz") == (200, "ok\n") and
            broker.metric("foliot_shards_owned") == SHARDS / 2
            for broker in self.cluster.brokers.values()))

    def read(self, path):
        return json.loads(self.zk.get(f"/foliot/main/{path}")[0])

    def cannot(self):
        """Of each broker by name, what its znode says."""
        bodies = [self.read(f"brokers/{name}")
                  for name in self.zk.get_children("/foliot/main/brokers")]
        return {body["name"]: body["cannot"] for body in bodies}

    def holder(self, shard):
        try:
            return self.read(f"shards/{shard}/owner")["broker"]
        except NoNodeError:
            return None

    def holders(self, database):
        """Names in the owner znodes of a database's shards; None where there is none."""
        found = set()
        for shard in self.zk.get_children("/foliot/main/shards"):
            if self.read(f"shards/{shard}")["database"] == database:
                found.add(self.holder(shard))
        return found


def the_other_one_serves_its_shards_there(world):
    harness.until("both to have some there", lambda: world.holders("db1") == {"a", "b"})
    world.links.mode([LINK], "hold")
    harness.until("it to say so", lambda: world.cannot() == {"a": [], "b": ["db1"]}, 30)
    harness.until("the other one to have them", lambda: world.holders("db1") == {"a"}, 30)
    harness.until("each shard to have an owner",
                  lambda: world.cluster.owned() == SHARDS and "b" in world.holders("db0"), 30)
    harness.until("its own page to say so", lambda: world.cluster.brokers["b"].get("/readyz") == (
        200, "ok\ndatabase db1 does not take writes\n"))


def tasks_made_through_it_run(world):
    made = [world.cluster.cli_alone("task", "create", "-q", "q", "-o", "name", "--key", f"k{i}",
                                    "--address", world.cluster.brokers["b"].grpc)
            for i in range(COUNT)]
    assert all(done.returncode == 0 for done in made), made
    ids = {done.stdout.split()[0] for done in made}
    assert len(ids) == COUNT, made
    harness.until("them to run", lambda: world.came().keys() >= ids)


def it_has_its_share_again_after(world):
    world.links.mode([LINK], "pass")
    world.share_out()
    harness.until("it to take that back", lambda: world.cannot() == {"a": [], "b": []})
    harness.until("both to have some there", lambda: world.holders("db1") == {"a", "b"})
    world.load.signal(signal.SIGTERM)
    harness.until("the load to end", lambda: not world.load.alive(), 30)
    world.judge.read_load(world.load.out)
    harness.until("all to have come", lambda: world.came() and not world.judge.lost())
    assert not world.judge.early(), world.judge.early()[:3]
    left = auditor.faults(world.cluster.pages)
    assert not left, left


CASES = [the_other_one_serves_its_shards_there, tasks_made_through_it_run,
         it_has_its_share_again_after]


def main():
    build = os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev"))
    with harness.Cluster(build, SHARDS, databases=2, broker_options=auditor.OPTIONS) as cluster:
        world = World(cluster)
        try:
            passed, failed = cases.run(CASES, world, words=())
        finally:
            world.close()
    return cases.finish(passed, failed)


if __name__ == "__main__":
    harness.exit_with(main)
