# SPDX-License-Identifier: Apache-2.0
"""Scenarios of hold.py in which shards move as planned: rolling restarts, the pods of a StatefulSet,
a cluster that grows and shrinks.
"""
import os
import signal
import subprocess
import time

import yaml

import cluster as harness
import hold_world

BASE = harness.ROOT / "deploy/k8s/base"
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


class Pod(harness.Broker):
    """A broker as the StatefulSet starts it: its settings' file, its variables, its probes."""

    def __init__(self, cluster, name, template):
        self.spec = template["spec"]
        self.container = self.spec["containers"][0]
        self.grpc, self.admin = cluster.addresses_of(name)
        self.label = name
        self.starts = cluster.starts = cluster.starts + 1
        given = {variable["name"] for variable in self.container["env"]}
        assert {"FOLIOT_NAME", "FOLIOT_ADVERTISE", "FOLIOT_DATABASES_FILE"} <= given, given
        secret = cluster.folder / "databases"
        if not secret.exists():
            secret.write_text("".join(f"db{index}={text}\n"
                                      for index, text in enumerate(cluster.pg)), encoding="utf-8")
        # What a pod finds by the names of its namespace is here on ports of our own.
        here = {"FOLIOT_NAME": name, "FOLIOT_ADVERTISE": self.grpc, "FOLIOT_LISTEN": self.grpc,
                "FOLIOT_ADMIN_LISTEN": self.admin, "FOLIOT_DATABASES_FILE": str(secret),
                "FOLIOT_ZOOKEEPER_HOSTS": cluster.zk, "FOLIOT_CLUSTER_SHARDS": str(cluster.shards),
                "FOLIOT_TARGETS_ALLOW": "*", "FOLIOT_AUDIT_EVERY": "2s"}
        args = [str(BASE / "foliotd.yaml") if word.endswith("/foliotd.yaml") else word
                for word in self.container["args"]]
        harness.Process.__init__(self, f"{name}.{self.starts}",
                                 [str(cluster.bin / "foliotd"), *args], cluster.folder,
                                 env=os.environ | here)

    def probe(self, name):
        """Ask as the kubelet does; True if it is content."""
        return self.get(self.container[name]["httpGet"]["path"])[0] == 200

    def end(self, world):
        """preStop, SIGTERM, and SIGKILL when the grace period is over."""
        end = time.monotonic() + self.spec["terminationGracePeriodSeconds"]
        subprocess.run(self.container["lifecycle"]["preStop"]["exec"]["command"], check=True)
        world.expect(self.probe("livenessProbe"), f"{self.name} was not alive before SIGTERM")
        self.signal(signal.SIGTERM)
        try:
            status = self.popen.wait(max(0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            status = self.popen.wait()
        world.expect(status == 0, f"{self.name} ended with {status}: see {self.err}")


class Pods(hold_world.World):
    """The StatefulSet's controller, as far as a rolling update goes."""

    def __init__(self, options):
        manifest = (BASE / "statefulset.yaml").read_text(encoding="utf-8")
        self.manifest = yaml.safe_load(manifest)["spec"]
        name = yaml.safe_load(manifest)["metadata"]["name"]
        super().__init__(options, [f"{name}-{i}" for i in range(self.manifest["replicas"])])

    def start_broker(self, name):
        with harness.uninterrupted():
            pod = Pod(self.cluster, name, self.manifest["template"])
            self.cluster.processes.append(pod)
        self.cluster.brokers[name] = pod

    def replace(self, name):
        """End a pod, start its successor of the same name, wait until that counts as available."""
        self.cluster.brokers.pop(name).end(self)
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
            time.sleep(world.manifest["minReadySeconds"] if options.restarts > 1 else 1)
        world.wait_even()
        world.expect(world.cluster.owners() == before, "the pods have other shards than before")
        world.finish_planned(since_us)
        return world.faults
