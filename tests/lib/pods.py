# SPDX-License-Identifier: Apache-2.0
"""The StatefulSet of deploy/k8s as those read it who play its pods: what a pod is started with, what
the kubelet asks it, how it is ended.
"""
import pathlib
import re
import signal
import subprocess
import sys
import time

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402

BASE = ROOT / "deploy/k8s/base"


class StatefulSet:
    """Of the objects of an overlay, or of the base alone."""

    def __init__(self, found):
        self.name = found["metadata"]["name"]
        self.spec = found["spec"]
        self.template = self.spec["template"]
        self.pod = self.template["spec"]
        self.container = self.pod["containers"][0]
        self.grace_s = self.pod["terminationGracePeriodSeconds"]
        self.pre_stop = self.container["lifecycle"]["preStop"]["exec"]["command"]

    def names(self):
        """Of its pods."""
        return [f"{self.name}-{i}" for i in range(self.spec["replicas"])]

    def environment(self, name, namespace="default"):
        """The variables of the pod of that name."""
        facts = {"metadata.name": name, "metadata.namespace": namespace}
        values = {}
        for entry in self.container["env"]:
            value = entry.get("value")
            if value is None:
                value = facts[entry["valueFrom"]["fieldRef"]["fieldPath"]]
            values[entry["name"]] = re.sub(r"\$\((\w+)\)", lambda match: values[match[1]], value)
        return values

    def mounts(self):
        """Volume → where it is in a pod."""
        return {mount["name"]: mount["mountPath"] for mount in self.container["volumeMounts"]}


def one(objects, kind):
    return next(found for found in objects if found["kind"] == kind)


def base():
    """The StatefulSet without any overlay: for that nothing has to be rendered."""
    return StatefulSet(yaml.safe_load((BASE / "statefulset.yaml").read_text(encoding="utf-8")))


class Pod(harness.Broker):
    """A broker as the StatefulSet starts and ends it. Who plays one says where its command runs."""

    def __init__(self, cluster, name, manifest, command, env=None):
        self.grpc, self.admin = cluster.addresses_of(name)
        self.label = name
        self.manifest = manifest
        self.starts = cluster.starts = cluster.starts + 1
        harness.Process.__init__(self, f"{name}.{self.starts}", command, cluster.folder, env)

    def probe(self, name):
        """Ask as the kubelet does; True if it is content."""
        return self.get(self.manifest.container[name]["httpGet"]["path"])[0] == 200

    def wait_started(self):
        probe = self.manifest.container["startupProbe"]
        harness.until("the startup probe", lambda: self.alive() and self.probe("startupProbe"),
                      probe["periodSeconds"] * probe["failureThreshold"])

    def run_inside(self, command):
        """A command of the pod's own, to its end."""
        subprocess.run(command, check=True)

    def delete(self):
        """preStop, then SIGTERM, then SIGKILL when the grace period is over. Its status, and seconds
        from SIGTERM on."""
        end = time.monotonic() + self.manifest.grace_s
        self.run_inside(self.manifest.pre_stop)
        if not (self.probe("livenessProbe") and self.probe("readinessProbe")):
            raise RuntimeError(f"{self.name} does not serve until it is told to end")
        told = time.monotonic()
        self.signal(signal.SIGTERM)
        try:
            status = self.popen.wait(max(0, end - told))
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            status = self.popen.wait()
        return status, time.monotonic() - told
