#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What `make cluster` prints is done as it stands there, in another shell: tasks are created and come,
status, shards, psql and zkCli show them, another broker joins, one is drained and one killed. And the
plan for both of these is what happens. Ends with "N passed, N failed".

  test_hints.py BUILD_DIR
"""
import json
import os
import pathlib
import shlex
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools"), str(ROOT / "tests/lib")]
import cases  # noqa: E402
import cluster as harness  # noqa: E402

LIMIT_S = 60
LAST = "zkCli.sh"


class World:
    """The cluster, and what it has printed."""

    def __init__(self, folder):
        self.out = folder / "out"
        self.broker = None
        env = os.environ | {"DEMO_SECONDS": "0", "BUILD": sys.argv[1], "TMPDIR": str(folder),
                            "BROKERS": "3"}
        with open(self.out, "wb") as out:
            self.popen = subprocess.Popen([ROOT / "tools/demo"], stdout=out,
                                          stderr=subprocess.STDOUT, env=env, cwd=ROOT)
        harness.until("the hints", lambda: self.popen.poll() is not None or
                      LAST in self.out.read_text(), LIMIT_S)
        text = self.out.read_text().replace("\\\n", " ")
        self.lines = [line.split("  #")[0].strip() for line in text.splitlines()]
        self.export = self.line("export ")

    def line(self, begin):
        """The printed line that begins so."""
        return next(line for line in self.lines if line.startswith(begin))

    def sh(self, line, code=0):
        """What a line says in the other terminal, with what was to be exported there."""
        done = subprocess.run(["sh", "-c", f"{self.export}\n{line}"], capture_output=True, text=True,
                              check=False, timeout=LIMIT_S, cwd="/")
        assert done.returncode == code, (line, done.returncode, done.stdout, done.stderr)
        return done.stdout

    def owners(self):
        rows = json.loads(self.sh("foliot cluster shards -o json"))
        rows = rows.get("shards", rows) if isinstance(rows, dict) else rows
        return {row.get("shard", 0): row.get("owner", "") for row in rows}

    def plan(self, words):
        """Owners as they would be, by the plan."""
        moves = json.loads(self.sh(f"foliot cluster plan {words} -o json"))["moves"]
        assert moves, words
        return self.owners() | {move.get("shard", 0): move["to"] for move in moves}

    def well(self):
        done = subprocess.run(["sh", "-c", f"{self.export}\nfoliot cluster check"], check=False,
                              capture_output=True, timeout=LIMIT_S, cwd="/")
        return done.returncode == 0

    def close(self):
        if self.broker is not None and self.broker.poll() is None:
            self.broker.send_signal(signal.SIGTERM)
            self.broker.wait(LIMIT_S)
        self.popen.send_signal(signal.SIGINT)
        return self.popen.wait(LIMIT_S)


def a_task_that_is_created_comes(world):
    task = world.sh(world.line("foliot task create")).split()
    psql = world.sh(world.line("psql"))
    assert "(1 row)" in psql, (task, psql)
    received = pathlib.Path(shlex.split(world.line("tail -f"))[2])
    harness.until("the task to come", lambda: received.read_text().count("taskId") == 1, LIMIT_S)


def status_shards_and_zookeeper_show_the_cluster(world):
    assert all(name in world.sh(world.line("foliot cluster status"))
               for name in ("broker-a", "broker-b", "broker-c"))
    shards = world.line("foliot cluster shards")
    assert shards.endswith(" --watch"), shards
    assert "broker-b" in world.sh(shards.removesuffix(" --watch"))
    assert "shards" in world.sh(world.line("zkCli.sh"))


def a_broker_joins_and_takes_what_the_plan_says(world):
    then = world.plan("--add another")
    with open(world.out.with_name("another"), "wb") as out:
        words = shlex.split(world.export)[1:] + shlex.split(world.line("foliotd"))
        path = next(word for word in words if word.startswith("PATH=")).split(":")[0]
        program = pathlib.Path(path.removeprefix("PATH="), "foliotd")
        arguments = shlex.split(world.line("foliotd"))[1:]
        world.broker = subprocess.Popen([program, *arguments], stdout=out, stderr=out)
    harness.until("the plan to come true", lambda: world.owners() == then, LIMIT_S)
    harness.until("all to be well", world.well, LIMIT_S)


def a_broker_that_is_drained_gives_what_the_plan_says(world):
    line = world.line("foliot cluster drain")
    name = line.split()[-1]
    then = world.plan(f"--remove {name}")
    world.sh(line)
    harness.until("the plan to come true", lambda: world.owners() == then, LIMIT_S)
    harness.until("all to be well", world.well, LIMIT_S)


def a_broker_that_is_killed_is_replaced(world):
    """The printed one has been drained: another one of those that are left."""
    name = next(owner for owner in world.owners().values() if owner.startswith("broker-"))
    brokers = json.loads(world.sh("foliot cluster status -o json"))["brokers"]
    address = next(broker["grpcAddress"] for broker in brokers if broker["name"] == name)
    then = world.plan(f"--remove {name}")
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit() and is_broker(entry, name, address):
            os.kill(int(entry.name), signal.SIGKILL)
    start = time.monotonic()
    harness.until("the plan to come true", lambda: world.owners() == then, LIMIT_S)
    print(f"  its shards moved within {time.monotonic() - start:.1f} s", flush=True)


def is_broker(entry, name, address):
    try:
        words = (entry / "cmdline").read_bytes().decode().split("\0")
    except OSError:
        return False
    return words[0].endswith("foliotd") and name in words and address in words


CASES = [a_task_that_is_created_comes, status_shards_and_zookeeper_show_the_cluster,
         a_broker_joins_and_takes_what_the_plan_says,
         a_broker_that_is_drained_gives_what_the_plan_says, a_broker_that_is_killed_is_replaced]


def main():
    with tempfile.TemporaryDirectory(prefix="foliot-hints-") as folder:
        os.chmod(folder, 0o755)
        world = World(pathlib.Path(folder))
        try:
            passed, failed = cases.run(CASES, world, [])
        finally:
            status = world.close()
        if status != 0:
            failed += 1
            print(f"FAILED the cluster ended with {status}: {world.out.read_text()[-2000:]}")
    return cases.finish(passed, failed)


if __name__ == "__main__":
    harness.exit_with(main)
