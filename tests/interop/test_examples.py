#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The examples of docs/examples as a reader would run them, against `foliot dev`. Those in C are run
by test_libfoliot. Ends with "N passed, N failed"."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import devmode
import node
import stubs
from peer import case, main

ROOT = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
EXAMPLES = ROOT / "docs/examples"
FOLIOT = os.environ["FOLIOT_PROGRAM_FOLIOT"]
LIMIT_S = 60

stubs.generate()
PYTHON = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


def run(*command, **options):
    """What an example prints; it must end well."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, timeout=LIMIT_S, **options)
    assert done.returncode == 0, f"exit {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout, done.stderr


def must_tell(out, *words):
    for word in words:
        assert word in out, f"{word!r} is not in: {out}"


@case
def python_client():
    with devmode.Dev() as dev:
        out, _ = run("/usr/bin/python3", EXAMPLES / "python_client.py", dev.address, env=PYTHON)
    must_tell(out, "created ", "fired ", "hello from the past", "CANCEL_OUTCOME_CANCELLED",
              "refused NOT_FOUND: queue \"no-such-queue\"")


@case
def any_method_later():
    with tempfile.TemporaryDirectory() as stubs_of_mail, devmode.Dev() as dev:
        folder = EXAMPLES / "method"
        run("protoc", "-I", folder, f"--python_out={stubs_of_mail}", f"--grpc_out={stubs_of_mail}",
            f"--plugin=protoc-gen-grpc={shutil.which('grpc_python_plugin')}", folder / "mail.proto")
        out, _ = run("/usr/bin/python3", folder / "method.py", dev.address, env={
            **PYTHON, "PYTHONPATH": f"{PYTHON['PYTHONPATH']}{os.pathsep}{stubs_of_mail}"})
    must_tell(out, "created ", "sent    'later' to you@example.org", "attempt 2")


@case
def python_retry_through_two_crashes():
    with tempfile.TemporaryDirectory() as folder:
        options = ["--db-file", os.path.join(folder, "tasks.db")]
        dev = devmode.Dev(*options)
        port = dev.address.split(":")[1]
        example = subprocess.Popen(
            ["/usr/bin/python3", str(EXAMPLES / "python_retry.py"), dev.address, "2000"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=PYTHON)
        try:
            crashes = 0
            for line in example.stdout:
                if line.split() in (["created", "300"], ["created", "900"]):
                    dev.kill()
                    dev = devmode.Dev("--port", port, *options)
                    crashes += 1
                last = line.split()
            assert example.wait(LIMIT_S) == 0, example.stderr.read()
        finally:
            example.kill()
            example.communicate()
            dev.kill()
        assert crashes == 2 and last == ["checked", "2000", "tasks"], (crashes, last)


@case
def node_client():
    with tempfile.TemporaryDirectory() as folder, devmode.Dev() as dev:
        copy = shutil.copytree(EXAMPLES / "node", os.path.join(folder, "node"))
        os.symlink(node.install(), os.path.join(copy, "node_modules"))
        out, _ = run("node", "client.js", dev.address, ROOT / "proto", cwd=copy)
    must_tell(out, "created ", "fired ", "hello from the past", "CANCEL_OUTCOME_CANCELLED",
              "refused NOT_FOUND: queue \"no-such-queue\"")


@case
def shell_tasks():
    with devmode.Dev() as dev, subprocess.Popen(
            [FOLIOT, "receive", "--port", "0"], stdout=subprocess.PIPE, text=True) as receiver:
        target = receiver.stdout.readline().split()[-1]
        out, err = run(EXAMPLES / "shell/tasks.sh", dev.place["adminAddress"], target)
        must_tell(out, "created ", "CANCEL_OUTCOME_CANCELLED", '"state":"TASK_STATE_WAITING"')
        must_tell(err, "refused 400", "VALUE_INVALID", "must be seconds like")
        task_id = out.splitlines()[0].split()[1]
        for line in receiver.stdout:
            if task_id in line:
                break
        receiver.terminate()


@case
def every_example_is_run_here():
    """A new one needs a case; those in C have their own test."""
    names = {path.relative_to(EXAMPLES).as_posix() for path in EXAMPLES.rglob("*")
             if path.is_file() and "node_modules" not in path.parts}
    known = {"python_client.py", "python_retry.py", "node/client.js", "node/package.json",
             "shell/tasks.sh", "method/mail.proto", "method/method.py"}
    assert {name for name in names if not name.startswith("c/")} == known, names


if __name__ == "__main__":
    main(sys.argv[1:])
