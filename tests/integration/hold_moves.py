# SPDX-License-Identifier: Apache-2.0
"""Scenarios of hold.py in which shards move as planned: rolling restarts, the pods of a StatefulSet,
a cluster that grows and shrinks.
"""
import os
import time

import cluster as harness
import hold_world
import pods as playing

STEPS = (("bc", ""), ("def", ""), ("", "abc"))  # who is started and who is stopped: 1 → 3 → 6 → 3


def rolling(options):
    """SIGTERM and start of each broker in turn: nothing lost, repeated, or a second late."""
    with hold_world.World(options) as world:
        world.start_queue("rolling")
        world.start_load("rolling", options.rate)
        time.sleep(2)
        since_us = hold_world.now_us()
        for number in range(options.restarts):
            name = world.names[number % len(world.names)]
            world.sigterm(name)
            world.cluster.start_broker(name)
            world.wait_even()
        time.sleep(1)
        took_s = (hold_world.now_us() - since_us) / 1e6
        world.finish_planned(since_us)
        print(f"    {options.restarts} restarts in {took_s:.1f} s")
        return world.faults


def scale(options):
    """1, 3, 6, 3 brokers with no step but start and stop: nothing lost, early, repeated; even shares."""
    with hold_world.World(options, names=("a",)) as world:
        world.start_queue("scale")
        everybody = [world.cluster.addresses_of(name)[0] for name in "abcdef"]
        world.start_load("scale", options.rate, *(word for address in everybody
                                                  for word in ("--server", address)))
        time.sleep(2)
        since_us = hold_world.now_us()
        counts = []
        for starts, stops in STEPS:
            for name in starts:
                world.cluster.start_broker(name)
            world.sigterm(*stops)
            world.wait_even()
            counts.append(len(world.owners()))
            time.sleep(options.pause)
        world.expect(counts == [3, 6, 3], f"brokers that owned shards: {counts}")
        world.finish_planned(since_us)
        return world.faults


class Pods(hold_world.World):
    """The StatefulSet's controller, as far as a rolling update goes."""

    def __init__(self, options):
        self.manifest = playing.base()
        super().__init__(options, self.manifest.names())

    def environment(self, name):
        """That of a pod; what it finds by the names of its namespace is here on ports of our own."""
        cluster = self.cluster
        grpc, admin = cluster.addresses_of(name)
        values = self.manifest.environment(name)
        assert {"FOLIOT_NAME", "FOLIOT_ADVERTISE", "FOLIOT_DATABASES_FILE"} <= values.keys(), values
        secret = cluster.folder / "databases"
        secret.write_text("".join(f"db{index}={text}\n" for index, text in enumerate(cluster.pg)),
                          encoding="utf-8")
        return os.environ | values | {
            "FOLIOT_ADVERTISE": grpc, "FOLIOT_LISTEN": grpc, "FOLIOT_ADMIN_LISTEN": admin,
            "FOLIOT_DATABASES_FILE": str(secret), "FOLIOT_ZOOKEEPER_HOSTS": cluster.zk,
            "FOLIOT_CLUSTER_SHARDS": str(cluster.shards), "FOLIOT_TARGETS_ALLOW": "*",
            "FOLIOT_AUDIT_EVERY": "2s"}

    def start_broker(self, name):
        args = [str(playing.BASE / "foliotd.yaml") if word.endswith("/foliotd.yaml") else word
                for word in self.manifest.container["args"]]
        with harness.uninterrupted():
            pod = playing.Pod(self.cluster, name, self.manifest,
                              [str(self.cluster.bin / "foliotd"), *args], self.environment(name))
            self.cluster.processes.append(pod)
        self.cluster.brokers[name] = pod

    def replace(self, name):
        """End a pod, start its successor of the same name, wait until that counts as available."""
        status, _ = self.cluster.brokers.pop(name).delete()
        self.expect(status == 0, f"{name} ended with {status}")
        self.start_broker(name)
        pod = self.cluster.brokers[name]
        harness.until(f"{name} to be ready", lambda: pod.probe("startupProbe") and
                      pod.probe("readinessProbe"))


def pods(options):
    """A rolling update as the StatefulSet does it: stable names, preStop, SIGTERM, probes."""
    with Pods(options) as world:
        world.start_queue("pods")
        world.start_load("pods", options.rate)
        before = world.cluster.owners()
        time.sleep(1)
        since_us = hold_world.now_us()
        for name in list(reversed(world.names))[:options.restarts]:
            world.replace(name)
            time.sleep(world.manifest.spec["minReadySeconds"] if options.restarts > 1 else 1)
        world.wait_even()
        harness.until("the pods to have the shards of before",  # An owner says so a little later.
                      lambda: world.cluster.owners() == before, 15)
        world.finish_planned(since_us)
        return world.faults
