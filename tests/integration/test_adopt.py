#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A cluster is founded ahead of its brokers; then ZooKeeper loses all that it knew of it, and the
databases are adopted: every task fires, no epoch comes twice, and what must not be adopted is
refused. Ends with "N passed, N failed".
"""
import json
import os
import pathlib
import sys

from kazoo.client import KazooClient

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import auditor  # noqa: E402
import cluster as harness  # noqa: E402

SHARDS = 16


class World:
    """A cluster over two databases, and a client of its ZooKeeper that is not ours."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.zk = KazooClient(cluster.zk)
        self.zk.start()
        self.path = f"{cluster.zk_root}/main"
        self.databases = [f"db{i}={conninfo}" for i, conninfo in enumerate(cluster.pg)]

    def command(self, verb, *words, databases=None, code=0):
        """foliot cluster VERB without any broker; its JSON, or what it complained of."""
        words = ["--zookeeper-hosts", self.cluster.zk, "--zookeeper-root", self.cluster.zk_root,
                 *words]
        for database in self.databases if databases is None else databases:
            words += ["--databases", database]
        done = self.cluster.cli_alone("cluster", verb, "-o", "json", *words)
        assert done.returncode == code, (verb, done.returncode, done.stderr)
        if code != 0:
            return done.stderr
        answer = json.loads(done.stdout)
        return answer | {name: int(answer[name]) for name in ("generationMax", "baseBefore", "base")}

    def epochs(self):
        found = {}
        for conninfo in self.cluster.pg:
            psql = harness.Psql(conninfo)
            for row in psql.ask("SELECT id, epoch FROM foliot_data.shard"):
                shard, epoch = row.split("|")
                found[int(shard)] = int(epoch)
            psql.close()
        return found

    def stop_brokers(self):
        for broker in self.cluster.brokers.values():
            assert broker.stop(30) == 0, broker.err
        self.cluster.brokers.clear()


def a_cluster_is_founded_ahead_of_its_brokers(world):
    made = world.command("init", "--cluster-shards", str(SHARDS))
    assert made["shardCount"] == SHARDS and made["databaseCount"] == 2 and made["base"] == 0, made
    again = world.command("init", "--cluster-shards", "99")
    assert again["id"] == made["id"] and again["shardCount"] == SHARDS, again
    assert len(world.zk.get_children(f"{world.path}/shards")) == SHARDS
    assert len(world.epochs()) == SHARDS
    return made["id"]


def tasks_wait_in_all_shards(world):
    world.cluster.start_broker("a")
    world.cluster.wait_ready()
    world.cluster.start_receiver()
    world.cluster.cli("queue", "create", "q", "--target", f"receiver://{world.cluster.target}")
    world.ids = {json.loads(world.cluster.cli(
        "task", "create", "--queue", "q", "--delay", "45s", "--key", f"k{i}", "-o", "json").stdout)
        ["id"] for i in range(40)}
    assert len({harness.shard_of(task, SHARDS) for task in world.ids}) > SHARDS / 2


def status_says_which_server_each_database_is_on(world):
    said = json.loads(world.cluster.cli("cluster", "status", "-o", "json").stdout)["databases"]
    wanted = []
    for i, conninfo in enumerate(world.cluster.pg):
        psql = harness.Psql(conninfo)
        wanted.append({"name": f"db{i}", "timeline": 1, "systemId": psql.ask(
            "SELECT system_identifier FROM pg_control_system()")[0]})
        psql.close()
    assert said == wanted, (said, wanted)


def it_is_not_adopted_beside_brokers(world):
    before = world.zk.get(world.path)[0]
    said = world.command("adopt", code=5)
    assert "1 brokers are registered" in said and "stop them, then adopt" in said, said
    assert world.zk.get(world.path)[0] == before


def what_zookeeper_has_lost_is_adopted_from_the_databases(world):
    before = world.epochs()
    assert min(before.values()) > 0, before
    world.stop_brokers()
    world.zk.delete(world.path, recursive=True)
    broker = world.cluster.start_broker("b")  # As a pod that knows of nothing.
    harness.until("the broker to refuse", lambda: not broker.alive())
    text = broker.err.read_text() + broker.out.read_text()
    assert "foliot cluster adopt" in text and broker.popen.returncode == 1, text
    world.cluster.brokers.clear()
    done = world.command("adopt")
    assert done["generationMax"] == max(before.values()) // 256, (done, before)
    assert done["base"] == done["generationMax"] + 1 and done["shardCount"] == SHARDS, done
    assert done["id"] == world.id, done
    again = world.command("adopt")
    assert again["base"] == done["base"] == again["baseBefore"], again
    world.cluster.start_broker("c")
    world.cluster.wait_ready()
    after = world.epochs()
    assert all(after[shard] > max(before.values()) for shard in before), (before, after)
    harness.until("every task to be fired", lambda: world.ids <= {
        line["taskId"] for line in harness.json_lines(world.cluster.receiver.out)
        if "taskId" in line}, 90)
    left = auditor.faults(world.cluster.pages)
    assert not left, left


def what_is_not_whole_is_refused(world):
    said = world.command("adopt", databases=world.databases[:1], code=5)
    assert "lies in none of the databases: name all databases of the cluster" in said, said
    twice = [world.databases[0], world.databases[0].replace("db0=", "db1=", 1)]
    said = world.command("adopt", databases=twice, code=5)
    assert "and in another one" in said, said
    empty = world.databases[0].replace("dbname=foliot", "dbname=postgres")
    said = world.command("adopt", databases=[empty], code=3)
    assert "database db0: there is no schema of a Foliot cluster in it" in said, said
    said = world.command("adopt", databases=[], code=2)
    assert "databases" in said, said
    said = world.command("adopt", "--zookeeper-hosts", "127.0.0.1:1", code=6)
    assert "no answer from ZooKeeper at '127.0.0.1:1'" in said, said
    said = world.command("adopt", databases=[f"db0=host={'x' * 3000}"], code=2)
    assert "--databases is longer than 2048 bytes; name it in a file: --config FILE" in said, said


def main():
    build = pathlib.Path(os.environ.get("FOLIOT_BUILD_DIR", ROOT / "build/dev")).name
    passed = failed = 0
    with harness.Cluster(build, SHARDS, databases=2, broker_options=auditor.OPTIONS) as cluster:
        world = World(cluster)
        try:
            world.id = a_cluster_is_founded_ahead_of_its_brokers(world)
            passed += 1
            for case in (tasks_wait_in_all_shards, status_says_which_server_each_database_is_on,
                         it_is_not_adopted_beside_brokers,
                         what_zookeeper_has_lost_is_adopted_from_the_databases,
                         what_is_not_whole_is_refused):
                case(world)
                passed += 1
        except (AssertionError, RuntimeError, KeyError, ValueError) as error:
            failed += 1
            print(f"    FAIL {type(error).__name__}: {error}")
        world.zk.stop()
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
