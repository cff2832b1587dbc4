#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a broker refuses at its start, and what it does without ZooKeeper later: each says what is
wrong and names the way out, and the way out works. Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import signal
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl, make_digest_acl

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import auditor  # noqa: E402
import cases  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 8
AUTH = "broker:secret"
OPEN = "anybody who reaches ZooKeeper may write to the root"
# 127.0.0.1, as a number: an address that is not taken for this machine's own.
ELSEWHERE = "0x7f000001"


class World:
    """A cluster, and a client of its ZooKeeper that is not ours."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.zk = KazooClient(cluster.zk)
        self.zk.start()

    def start(self, name, *options, root="/foliot", databases=None):
        """A broker with options of its own."""
        cluster = self.cluster
        before = cluster.broker_options, cluster.zk_root, cluster.pg
        cluster.broker_options, cluster.zk_root = [*auditor.OPTIONS, *options], root
        cluster.pg = databases or cluster.pg
        try:
            return cluster.start_broker(name)
        finally:
            cluster.broker_options, cluster.zk_root, cluster.pg = before

    def refused(self, name, *hints, **place):
        """A broker that ends by itself with status 1, and says all of this in one line."""
        broker = self.start(name, *place.pop("options", ()), **place)
        harness.until(f"{name} to refuse", lambda: not broker.alive())
        del self.cluster.brokers[name]
        assert broker.popen.returncode == 1, (name, broker.popen.returncode)
        lines = [line for line in said(broker) if all(hint in line for hint in hints)]
        assert lines, (name, hints, said(broker))

    def ready(self, name, *options, **place):
        broker = self.start(name, *options, **place)
        harness.until(f"{name} to be ready", broker.is_ready)
        return broker

    def end(self, name):
        assert self.cluster.brokers.pop(name).stop(30) == 0, name

    def database(self, name):
        """An empty database of our own; its conninfo."""
        conninfo = self.cluster.pg[0].replace(" dbname=foliot", "")
        psql = harness.Psql(conninfo)
        psql.ask(f"CREATE DATABASE {name}")
        psql.close()
        return f"{conninfo} dbname={name}"


def said(broker):
    return [json.loads(line).get("msg", "") + " " + json.loads(line).get("why", "")
            for line in (broker.err.read_text() + broker.out.read_text()).splitlines()
            if line.startswith("{")]


def a_database_of_another_cluster(world):
    world.ready("a")
    way_out = ("belongs to cluster", "name another database", "cluster.name",
               "foliot cluster adopt")
    world.refused("other-root", *way_out, root="/other")
    world.refused("other-name", *way_out, options=("--cluster-name", "second"))
    assert world.cluster.brokers["a"].is_ready()


def a_root_that_is_missing_and_may_not_be_made(world):
    world.zk.create("/closed", acl=[make_acl("world", "anyone", read=True)])
    world.refused("missing", "the root '/closed/inner' is missing in ZooKeeper",
                  "create /closed/inner", "zookeeper.root", root="/closed/inner")


def a_root_whose_acl_keeps_us_out(world):
    world.refused("kept-out", "does not let us write below it", "zookeeper.auth", "setAcl",
                  root="/closed")


def a_root_that_anybody_may_write_to(world):
    hosts = ("--zookeeper-hosts", f"{ELSEWHERE}:{world.cluster.zk.rsplit(':', 1)[1]}")
    way_out = (OPEN, "zookeeper.auth", "setAcl -R /foliot auth::cdrwa", "zookeeper.open")
    world.refused("elsewhere", *way_out, options=hosts)
    world.refused("authorized", *way_out, options=("--zookeeper-auth", AUTH))
    world.ready("in-private", *hosts, "--zookeeper-open", "on")  # One way out.
    world.end("in-private")


def what_a_broker_with_a_password_makes_is_its_own(world):
    """The other way out."""
    conninfo = [world.database("guarded")]
    place = {"root": "/guarded", "databases": conninfo}
    for name in ("g1", "g2"):
        world.ready(name, "--zookeeper-auth", AUTH, **place)
    found = ["/guarded", "/guarded/main", "/guarded/main/shards/0001"]
    found += [f"/guarded/main/brokers/{name}"
              for name in owner_of(world, "/guarded/main/brokers", AUTH)]
    mine = make_digest_acl(*AUTH.split(":"), all=True)
    for path in found:
        assert [acl.id for acl in with_auth(world, AUTH).get_acls(path)[0]] == [mine.id], path
    for act in (lambda: world.zk.delete("/guarded/main/shards/0001"),
                lambda: world.zk.create("/guarded/main/shards/0001/owner"),
                lambda: world.zk.set("/guarded/main", b"{}")):
        try:
            act()
            raise RuntimeError("a stranger may write to what is ours")
        except NoAuthError:
            pass
    for options in (("--zookeeper-auth", "broker:wrong"), ()):
        world.refused("g3", "does not let us write below it", "zookeeper.auth", options=options,
                      **place)
    world.cluster.brokers["g1"].signal(signal.SIGKILL)  # The other takes all of its shards.
    harness.until("the shards to be taken over",
                  lambda: world.cluster.brokers["g2"].metric("foliot_shards_owned") == SHARDS)
    world.cluster.brokers.pop("g1").popen.wait()
    world.end("g2")


def with_auth(world, auth):
    client = KazooClient(world.cluster.zk, auth_data=[("digest", auth)])
    client.start()
    world.clients = getattr(world, "clients", []) + [client]
    return client


def owner_of(world, path, auth):
    return with_auth(world, auth).get_children(path)


def a_root_that_is_closed_later_is_ours(world):
    """As the message says, in zkCli's words, by kazoo."""
    world.end("a")
    client = with_auth(world, AUTH)
    closed = [make_digest_acl(*AUTH.split(":"), all=True)]

    def close(path):
        for child in client.get_children(path):
            close(f"{path}/{child}")
        client.set_acls(path, closed)

    close("/foliot")
    world.ready("a", "--zookeeper-auth", AUTH)
    world.end("a")


def a_schema_that_is_newer(world):
    conninfo = world.database("newer")
    place = {"root": "/newer", "databases": [conninfo]}
    world.ready("n1", **place)
    world.end("n1")
    psql = harness.Psql(conninfo)
    psql.ask("INSERT INTO foliot_data.migration (step, name, checksum) "
             "VALUES (9000, '9000_future', 'x')")
    psql.close()
    world.refused("n2", "the database has schema step", "use a newer program", **place)


def zookeeper_that_is_lost_at_the_start(world):
    """Not an end: it tries again, says so, and is well when ZooKeeper is there."""
    conninfo = [world.database("late")]
    world.cluster.server("stop-zk")
    try:
        broker = world.start("l1", root="/late", databases=conninfo)
        harness.until("it to say so", lambda: any(
            "cannot read the cluster from ZooKeeper; it must run where zookeeper.hosts says" in line
            for line in said(broker)))
        assert broker.get("/livez")[0] == 200 and broker.get("/readyz")[0] == 503
        assert "ZooKeeper" in broker.get("/readyz")[1]
    finally:
        world.cluster.server("cont-zk")
    harness.until("it to be ready", broker.is_ready)


def zookeeper_that_is_lost_later(world):
    """What is owned goes on; /readyz says what is missing; all well by itself after."""
    broker = world.cluster.brokers["l1"]
    world.cluster.start_receiver()
    world.cluster.cli("queue", "create", "q", "--target", f"receiver://{world.cluster.target}")
    world.cluster.server("stop-zk")
    try:
        harness.until("it to be not ready", lambda: broker.get("/readyz")[0] == 503)
        assert "ZooKeeper" in broker.get("/readyz")[1] and broker.get("/livez")[0] == 200
        made = json.loads(world.cluster.cli("task", "create", "-q", "q", "-o", "json").stdout)
        harness.until("a task to run without ZooKeeper", lambda: made["id"] in {
            line.get("taskId") for line in harness.json_lines(world.cluster.receiver.out)})
    finally:
        world.cluster.server("cont-zk")
    harness.until("it to be ready again", broker.is_ready)
    left = auditor.faults(world.cluster.pages)
    assert not left, left


CASES = [a_database_of_another_cluster, a_root_that_is_missing_and_may_not_be_made,
         a_root_whose_acl_keeps_us_out, a_root_that_anybody_may_write_to,
         what_a_broker_with_a_password_makes_is_its_own, a_root_that_is_closed_later_is_ours,
         a_schema_that_is_newer, zookeeper_that_is_lost_at_the_start, zookeeper_that_is_lost_later]


def main():
    build = os.environ.get("FOLIOT_BUILD_DIR", str(ROOT / "build/dev"))
    with harness.Cluster(build, SHARDS) as cluster:
        world = World(cluster)
        passed, failed = cases.run(CASES, world)
        for client in [world.zk, *getattr(world, "clients", [])]:
            client.stop()
    return cases.finish(passed, failed)


if __name__ == "__main__":
    sys.exit(main())
