#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Another ZooKeeper client reads our znodes as DESIGN 6 and docs/zookeeper.md say they are."""
import json
import logging
import os
import pathlib
import subprocess
import sys

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from peer import case, eventually, main

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = os.environ["FOLIOT_PROGRAM_ZK_PEER"]
CLUSTER = f"kazoo-{os.getpid()}"
PATH = f"/foliot/{CLUSTER}"
INSTANCE = "a" * 16


class Broker:
    """zk_peer as a child, and a foreign client beside it."""

    def __enter__(self):
        self.process = subprocess.Popen([PROGRAM, os.environ["FOLIOT_TEST_ZK"], CLUSTER],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout.readline() == "ready\n"
        self.client = KazooClient(hosts=os.environ["FOLIOT_TEST_ZK"])
        self.client.start(timeout=20)
        return self

    def __exit__(self, *_):
        self.client.stop()
        self.client.close()
        self.process.kill()
        self.process.wait()

    def leave(self):
        self.process.stdin.close()
        assert self.process.wait(timeout=20) == 0

    def body(self, path):
        data, stat = self.client.get(PATH + path)
        assert b"\n" not in data, data
        return json.loads(data), stat


@case
def every_znode_reads_as_documented():
    with Broker() as broker:
        cluster, _ = broker.body("")
        assert cluster == {"cluster_id": "id-1", "format": 1, "shards": 8, "slots": 4096, "base": 0}
        assert sorted(broker.client.get_children(PATH)) == ["brokers", "config-version", "shards"]
        assert broker.client.get_children(PATH + "/brokers") == [f"broker-a@{INSTANCE}"]
        member, stat = broker.body(f"/brokers/broker-a@{INSTANCE}")
        assert stat.ephemeralOwner != 0
        assert member == {"name": "broker-a", "grpc": "127.0.0.1:1a", "admin": "",
                          "version": "0.1.0", "started": 1700000000000, "owns": "0-2,5",
                          "cannot": ["db1"], "config": 3}, member
        assert sorted(broker.client.get_children(PATH + "/shards")) == [f"{i:04}" for i in range(8)]
        shard, stat = broker.body("/shards/0005")
        assert shard == {"database": "db1"} and stat.version >= 1
        owner, stat = broker.body("/shards/0005/owner")
        since = owner.pop("since")
        assert owner == {"broker": "broker-a", "instance": INSTANCE, "epoch": 300,
                         "state": "active"}, owner
        assert abs(since - stat.ctime) < 60000 and stat.ephemeralOwner != 0
        nudge, stat = broker.body("/config-version")
        assert nudge["by"] == "broker-a" and stat.version >= 1
        broker.leave()


@case
def a_clean_leave_removes_its_znodes_at_once():
    with Broker() as broker:
        gone = []
        broker.client.exists(PATH + "/shards/0005/owner", watch=gone.append)
        broker.leave()
        eventually(lambda: gone)
        assert broker.client.get_children(PATH + "/brokers") == []
        try:
            broker.client.get(PATH + "/shards/0000/owner")
            raise AssertionError("the owner znode is still there")
        except NoNodeError:
            pass


if __name__ == "__main__":
    if "FOLIOT_TEST_ZK" not in os.environ:
        os.execv(ROOT / "tools/servers", ["servers", "run", "--pg", "0", "--", *sys.orig_argv])
    logging.basicConfig(level=logging.ERROR)
    main(sys.argv[1:])
