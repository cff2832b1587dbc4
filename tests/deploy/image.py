#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Build the image of deploy/Dockerfile, and run it as the manifests say: their arguments, environment
and mounts, a root that cannot be written, no capability, probes at their times, preStop and SIGTERM.

  image.py [PART OF A CASE'S NAME …]

By hand: some minutes, as root, with Debian's packages buildah, debootstrap and python3-yaml. The
image's base is made from Debian's packages, so that no registry is needed; it has what
debian:bookworm-slim has, and manual pages. There is no API server: who asks the probes here is not the kubelet. Ends with "N
passed, N failed".
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import yaml

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import cases  # noqa: E402
import cluster as harness  # noqa: E402
import pods  # noqa: E402
import processes  # noqa: E402

BASE = "docker.io/library/debian:bookworm-slim"
IMAGE = "localhost/foliot:checked"
BUILD_S = 1800
SHARDS = 16
USER = "10001"
TASKS = 200
# Its mounts are there before the root becomes one that cannot be written.
ENTER = """set -e
mount --bind "$ROOT" "$ROOT"
mount -t proc proc "$ROOT/proc"
for pair in $MOUNTS; do mount --bind "${pair%%:*}" "$ROOT${pair#*:}"; done
mount -o remount,bind,ro "$ROOT"
exec chroot "$ROOT" setpriv --reuid "$USER" --regid "$USER" --clear-groups --bounding-set=-all \
    --inh-caps=-all --no-new-privs env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$@"
"""


def must(*command, **how):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **{"timeout": BUILD_S, **how})
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
    return done.stdout.strip()


class Engine:
    """An image builder with a store of its own."""

    def __init__(self, folder):
        self.folder = folder

    def ask(self, *words, **how):
        return must("buildah", "--root", self.folder / "store", "--runroot", self.folder / "run",
                    *words, **how)

    def make_base(self):
        tree = self.folder / "base"
        must("debootstrap", "--variant=minbase", "bookworm", tree, "http://deb.debian.org/debian")
        container = self.ask("from", "scratch")
        self.ask("add", container, tree, "/")
        self.ask("commit", "--rm", container, BASE)
        shutil.rmtree(tree)

    def build(self):
        """Of what is committed, as a checkout of it would be."""
        context = self.folder / "context"
        must("git", "clone", "-q", ROOT, context)
        self.ask("bud", "--pull-never", "--isolation", "chroot", "--network", "host", "-f",
                 "deploy/Dockerfile", "-t", IMAGE, ".", cwd=context)
        return pathlib.Path(self.ask("mount", self.ask("from", "--pull-never", IMAGE)))

    def config(self):
        return self.ask("inspect", "--type", "image", "--format", "{{.OCIv1.Config}}", IMAGE)

    def close(self):
        subprocess.run(["buildah", "--root", self.folder / "store", "--runroot",
                        self.folder / "run", "rm", "--all"], capture_output=True, check=False)
        shutil.rmtree(self.folder, ignore_errors=True)


class Pod(pods.Pod):
    """A container of the StatefulSet. It is the first process of its name space, as in a pod."""

    def __init__(self, cluster, name, world):
        grpc, admin = cluster.addresses_of(name)
        values = world.manifest.environment(name) | {
            # No names are served here, and the ports of a machine are shared.
            "FOLIOT_ADVERTISE": grpc, "FOLIOT_LISTEN": grpc, "FOLIOT_ADMIN_LISTEN": admin,
            "FOLIOT_ZOOKEEPER_HOSTS": cluster.zk, "FOLIOT_ZOOKEEPER_ROOT": cluster.zk_root,
            "FOLIOT_CLUSTER_SHARDS": str(SHARDS), "FOLIOT_TARGETS_ALLOW": "127.0.0.1:*"}
        super().__init__(
            cluster, name, world.manifest,
            ["env", f"ROOT={world.tree}", f"USER={USER}", f"MOUNTS={world.mounts()}",
             "unshare", "--mount", "--pid", "--fork", "sh", "-c", ENTER, "sh",
             *(f"{key}={value}" for key, value in values.items()),
             *world.entrypoint, *world.manifest.container["args"]])

    def first(self):
        """The pod's first process: what is started last of all that came of our child."""
        found = self.popen.pid
        while children := [pid for pid, parent, _, _ in processes.processes() if parent == found]:
            found = children[0]
        return found

    def signal(self, number):
        processes.send([self.first()], number)

    def run_inside(self, command):
        must("nsenter", "--target", self.first(), "--mount", "--pid", "--root", "--wd", *command)


class World:
    """The image, unpacked, and what the manifests say of it."""

    def __init__(self, engine):
        self.engine = engine
        engine.make_base()
        self.tree = engine.build()
        rendered = must("kubectl", "kustomize", ROOT / "deploy/k8s/overlays/ha")
        objects = list(yaml.safe_load_all(rendered))
        self.manifest = pods.StatefulSet(pods.one(objects, "StatefulSet"))
        self.settings = pods.one(objects, "ConfigMap")["data"]["foliotd.yaml"]
        self.entrypoint = re.search(r'^ENTRYPOINT \["(.*)"\]$', (ROOT / "deploy/Dockerfile")
                                    .read_text(), re.M)[1].split('", "')
        self.volumes = {}

    def fill_volumes(self, cluster):
        """What the ConfigMap and the Secret are in a pod."""
        contents = {"config": {"foliotd.yaml": self.settings},
                    "databases": {"databases": "".join(f"db{i}={conninfo}\n" for i, conninfo
                                                       in enumerate(cluster.pg))}}
        for name, files in contents.items():
            self.volumes[name] = cluster.folder / "volumes" / name
            self.volumes[name].mkdir(parents=True)
            for file, text in files.items():
                path = self.volumes[name] / file
                path.write_text(text)
                os.chown(path, 0, int(USER))
                path.chmod(0o440)

    def mounts(self):
        pairs = [(self.volumes[name], path) for name, path in self.manifest.mounts().items()]
        for _, path in pairs:  # An engine makes the places that things are mounted on.
            (self.tree / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
        return " ".join(f"{folder}:{path}" for folder, path in pairs)


def programs_run_and_no_compiler_is_there(world):
    for program in ("foliotd", "foliot"):
        said = must("chroot", f"--userspec={USER}:{USER}", world.tree, program, "--version")
        assert said.startswith(program + " "), said
    for path in ("usr/bin/gcc", "usr/bin/cmake", "src"):
        assert not (world.tree / path).exists(), path
    said = must("chroot", f"--userspec={USER}:{USER}", world.tree, "id")
    assert said.startswith(f"uid={USER}(foliot) gid={USER}(foliot)"), said
    config = world.engine.config()
    assert f"{USER}:{USER}" in config and "foliotd" in config and "SIGTERM" in config, config


def start(cluster, name, world):
    pod = Pod(cluster, name, world)
    cluster.processes.append(pod)
    cluster.brokers[name] = pod
    pod.wait_started()
    return pod


def owned(pod):
    return int(pod.metric("foliot_shards_owned"))


def pods_answer_their_probes_serve_and_leave_in_good_order(world):
    with harness.Cluster("release", SHARDS) as cluster:
        world.fill_volumes(cluster)
        played = [start(cluster, f"foliot-{i}", world) for i in range(2)]
        cluster.wait_ready()
        for pod in played:
            assert pod.probe("livenessProbe") and pod.probe("readinessProbe"), pod.page()
            lines = pathlib.Path("/proc", str(pod.first()), "status").read_text()
            for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
                assert re.search(rf"^{name}:\t0+$", lines, re.M), lines
        harness.until("the shards to be shared", lambda: [owned(pod) for pod in played] ==
                      [SHARDS // 2] * 2)
        cluster.start_receiver()
        cluster.cli("queue", "create", "pods", "--target", f"receiver://{cluster.target}")
        load = cluster.start_load("load", "--queue", "pods", "--rate", "50", "--count", str(TASKS),
                                  "--delay-max", "3s", "--keyed", "--patience", "60s")
        status, took_s = played[0].delete()
        assert status == 0, (status, played[0].err.read_text()[-2000:])
        print(f"  ended {took_s:.1f} s after SIGTERM", flush=True)
        played[0] = start(cluster, "foliot-0", world)
        cluster.wait_ready()
        harness.until("the shards to be shared again", lambda: [owned(pod) for pod in played] ==
                      [SHARDS // 2] * 2)
        harness.until("the load to end", lambda: not load.alive(), 90)
        judge = harness.Judge(SHARDS)
        judge.read_load(load.out)
        assert len(judge.answered) == TASKS, len(judge.answered)

        def all_came():
            again = harness.Judge(SHARDS)
            again.read_load(load.out)
            again.read_receiver(cluster.receiver.out)
            return not again.lost() and not again.early() and again.repeats() == 0

        harness.until("all tasks to have come, once", all_came)
        for pod in played:
            assert pod.delete()[0] == 0


CASES = [programs_run_and_no_compiler_is_there,
         pods_answer_their_probes_serve_and_leave_in_good_order]


def main():
    for program in ("buildah", "debootstrap", "kubectl"):
        if shutil.which(program) is None:
            print(f"image.py needs {program}: tools/setup, apt install buildah debootstrap",
                  file=sys.stderr)
            return 2
    if os.geteuid() != 0:
        print("image.py makes containers: run it as root", file=sys.stderr)
        return 2
    processes.end_on_signals()
    engine = Engine(pathlib.Path(tempfile.mkdtemp(prefix="foliot-image-")))
    try:
        engine.folder.chmod(0o755)
        return cases.finish(*cases.run(CASES, World(engine)))
    finally:
        engine.close()


if __name__ == "__main__":
    harness.exit_with(main)
