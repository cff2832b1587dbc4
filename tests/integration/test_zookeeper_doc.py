#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The session with zkCli in docs/zookeeper.md, played again on a cluster like the one it was taken
from: each command's output must look as it does there, but for what differs from run to run. Ends
with "N passed, N failed".
"""
import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402

DOCUMENT = ROOT / "docs/zookeeper.md"
CLIENT = "/usr/share/zookeeper/bin/zkCli.sh"
SHARDS = 32
LIMIT_S = 60

# What differs from run to run, and what stands for it; the client's addresses, ids, times.
VARIABLE = [(r"[0-9a-f]{32}", "ID"), (r"[0-9a-f]{16}", "INSTANCE"), (r"127\.0\.0\.1:\d+", "ADDRESS"),
            (r"\b1[0-9]{12}\b", "TIME"), (r'"owns":"[0-9,-]+"', '"owns":"SHARDS"'),
            (r'"epoch":\d+', '"epoch":N'), (r'"config":\d+', '"config":N'),
            (r"broker-[ab]", "BROKER"), (r"(dataVersion) = \d+", r"\1 = N")]


def session():
    """(command, lines of output) of the document."""
    block = re.search(r"```\n(\$ zkCli\.sh .*?)```", DOCUMENT.read_text(), re.S)[1]
    for part in block.split("$ ")[1:]:
        command, _, output = part.partition("\n")
        yield command, output.splitlines()


def shape(line):
    for pattern, word in VARIABLE:
        line = re.sub(pattern, word, line)
    return line


def play(cluster, command):
    """A command of the document on this cluster; the lines that zkCli prints for it."""
    words = command.split()
    members = re.findall(r"(broker-[ab]@\w+)", cluster_brokers(cluster))
    words = [re.sub(r"broker-a@\w+", next(m for m in members if m.startswith("broker-a")), word)
             for word in words]
    words[words.index("-server") + 1] = cluster.zk
    return ask(cluster, words[words.index("-server") + 2:])


def ask(cluster, words):
    # Or else another thread of it may tell the watcher when the answer has been printed.
    done = subprocess.run([CLIENT, "-server", cluster.zk, "-waitforconnection", *words],
                          capture_output=True, text=True, timeout=LIMIT_S, check=True,
                          env=dict(os.environ, JAVA_TOOL_OPTIONS="", JVMFLAGS="-Xmx64m"))
    # Its own lines of log come first, up to the word that a watcher was told of the connection.
    lines = done.stdout.splitlines()
    seen = [i for i, line in enumerate(lines) if line.startswith(("WATCHER", "WatchedEvent"))]
    return [line for line in lines[(seen[-1] + 1) if seen else 0:] if line]


def cluster_brokers(cluster):
    return "\n".join(ask(cluster, ["ls", f"{cluster.zk_root}/main/brokers"]))


def compare(command, wanted, found):
    """Every line of the document is there, in order; "..." stands for any lines."""
    place = 0
    for line in wanted:
        if line == "...":
            continue
        shapes = [shape(text) for text in found]
        if shape(line) not in shapes[place:]:
            return f"{command}: no line like \"{line}\", but {found}"
        place = shapes.index(shape(line), place) + 1
    if "..." not in wanted and len(found) != len(wanted):
        return f"{command}: {len(found)} lines, the document has {len(wanted)}: {found}"
    return None


def main():
    build = pathlib.Path(os.environ.get("FOLIOT_BUILD_DIR", ROOT / "build/dev")).name
    passed, faults = 0, []
    with harness.Cluster(build, SHARDS) as cluster:
        for name in ("broker-a", "broker-b"):
            cluster.start_broker(name)
        cluster.wait_ready()
        cluster.wait_shared()
        for command, wanted in session():
            fault = compare(command, wanted, play(cluster, command))
            passed += fault is None
            faults += [fault] if fault else []
    for fault in faults:
        print(f"    FAIL {fault}")
    print(f"{passed} passed, {len(faults)} failed")
    return 1 if faults or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
