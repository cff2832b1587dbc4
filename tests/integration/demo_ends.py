#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demonstration ends by itself with a table and 0 if nothing was lost or early; the first command
of the README fires its samples and ends with 0. Whoever ends them before, at whatever moment, leaves
nothing behind: no server, no broker, no folder, and one line that
says so instead of a trace. The same goes for a run of tests. Who kills either with -9 still leaves no
process behind.

  demo_ends.py BUILD_DIR       ends with "N passed, N failed"
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIMIT_S = 60
WHOLE_S = 6  # DEMO_SECONDS of a demonstration that is left alone
STAYS = "stays up until Ctrl-C"
DEMO = ["tools/demo"]
FIRST = ["tools/dev", "--port", "0", "--admin-port", "0"]
TESTS = ["tools/run-tests", sys.argv[1], "-R", "^chaos_postgres$"]


def start(build, folder, command, seconds=0):
    """A program in a session of its own, as a terminal would start it."""
    out = open(folder / "out", "w+", encoding="utf-8")
    env = os.environ | {"DEMO_SECONDS": str(seconds), "RATE": "100", "BUILD": build,
                        "TMPDIR": str(folder)}
    return subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=ROOT,
                            start_new_session=True), out


def text_of(out):
    out.seek(0)
    return out.read()


def wait_for(out, words, process):
    end = time.monotonic() + LIMIT_S
    while words not in text_of(out) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.05)
    return words in text_of(out)


def alive_below(folder):
    """Arguments of processes that name the folder there, or have it as their TMPDIR."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes()
                environment = (entry / "environ").read_bytes()
            except OSError:
                continue
            if os.fsencode(folder) in arguments + environment:
                found.append(arguments.replace(b"\0", b" ").decode())
    return found


def has_broker(folder):
    return any("foliotd" in arguments for arguments in alive_below(folder))


def end_of(build, folder, command, words, send):
    """Start, wait for the words, end it by `send`; (exit status, whether they came, output)."""
    process, out = start(build, folder, command)
    with out:
        came = wait_for(out, words, process)
        if command is TESTS:
            end = time.monotonic() + LIMIT_S
            while not (came := has_broker(folder)) and time.monotonic() < end:
                time.sleep(0.05)
        send(process)
        return process.wait(LIMIT_S), came, text_of(out)


def left_in(folder, is_killed=False):
    """What is left. Whoever is killed with -9 may leave folders, and those who notice need a moment."""
    end = time.monotonic() + (LIMIT_S if is_killed else 0)
    while (alive := alive_below(folder)) and time.monotonic() < end:
        time.sleep(0.1)
    return alive + ([] if is_killed else [str(path) for path in folder.iterdir() if path.is_dir()])


def whole(build, folder):
    """Faults of a demonstration that nobody ends."""
    process, out = start(build, folder, DEMO, WHOLE_S)
    with out:
        status = process.wait(WHOLE_S + 90)
        text = text_of(out)
    faults = [] if status == 0 else [f"exit status {status}"]
    for row in (r"2 brokers|two brokers", r"broker-b: .* 16 of 32 shards", r"kill -9 of broker-b",
                # A create that the kill met has no answer, and may be repeated only with a key.
                r"due \(answered creates\) +(5[5-9]\d|600)\s+fired +\1",
                r"lateness, all: p50 / p99 / p99.9 ms +[\d.]+ / [\d.]+ / [\d.]+",
                r"lateness, all: max ms +[\d.]+", r"gap of the killed broker's shards, s +[\d.]+",
                r"early +0", r"lost +0", "nothing lost, nothing early"):
        if not re.search(row, text):
            faults.append(f"does not say {row!r}")
    return faults + [f"left behind: {item}" for item in left_in(folder)] + ([text] if faults else [])


def first(build, folder):
    """Faults of the first command, left alone."""
    process, out = start(build, folder, FIRST, WHOLE_S)
    with out:
        status = process.wait(WHOLE_S + 60)
        text = text_of(out)
    faults = [] if status == 0 else [f"exit status {status}"]
    for row in (r"Not for production", r"in memory: gone when this ends",
                r"foliot task create --queue default", r"export PATH=.*/bin:",
                r"all 5 have fired, none early"):
        if not re.search(row, text):
            faults.append(f"does not say {row!r}")
    if text.count(" default\n") != 5:
        faults.append("does not show the five attempts")
    return faults + [f"left behind: {item}" for item in left_in(folder)] + ([text] if faults else [])


def to_all(number):
    return lambda process: os.killpg(process.pid, number)


def to_it(number):
    return lambda process: process.send_signal(number)


# What is run, the words upon which it is ended, how, and the exit status that it must have then.
CASES = {
    "left_alone_it_ends_with_a_table_and_0": whole,
    "left_alone_the_first_command_fires_its_samples_and_ends_with_0": first,
    "ctrl_c_ends_the_first_command": (FIRST, "have fired", to_all(signal.SIGINT), 0),
    "sigterm_ends_the_first_command": (FIRST, "Ctrl-C", to_it(signal.SIGTERM), 0),
    "kill_9_of_the_first_command_leaves_no_process": (
        FIRST, "Ctrl-C", to_it(signal.SIGKILL), -9),
    "sigterm_ends_a_cluster_that_stays_up": (DEMO, STAYS, to_it(signal.SIGTERM), 0),
    "ctrl_c_ends_a_cluster_that_stays_up": (DEMO, STAYS, to_all(signal.SIGINT), 0),
    "ctrl_c_while_servers_start_leaves_none": (
        DEMO, "starting PostgreSQL", to_all(signal.SIGINT), 130),
    "sigterm_while_brokers_start_leaves_none": (
        DEMO, "starting 2 brokers", to_it(signal.SIGTERM), 143),
    "kill_9_leaves_no_process": (DEMO, "starting 2 brokers", to_it(signal.SIGKILL), -9),
    "sigterm_ends_a_run_of_tests": (TESTS, "Start", to_it(signal.SIGTERM), 143),
    "kill_9_of_a_run_of_tests_leaves_no_process": (TESTS, "Start", to_it(signal.SIGKILL), -9),
}


def check(build, folder, case):
    if callable(case):
        return case(build, folder)
    command, words, send, wanted = case
    status, came, text = end_of(build, folder, command, words, send)
    faults = [] if came else [f"never said {words!r}"]
    if status != wanted:
        faults.append(f"exit status {status}, not {wanted}")
    if "Traceback" in text:
        faults.append("printed a trace")
    faults += [f"left behind: {item}" for item in left_in(folder, wanted == -signal.SIGKILL)]
    return faults + ([text] if faults else [])


def main():
    passed = failed = 0
    for name, case in CASES.items():
        folder = pathlib.Path(f"/tmp/foliot-ends-{os.getpid()}-{passed + failed}")
        folder.mkdir(mode=0o755)
        faults = check(sys.argv[1], folder, case)
        print(f"  {'FAIL' if faults else 'ok  '} {name}", flush=True)
        for fault in faults:
            print(f"       {fault}")
        subprocess.run(["rm", "-rf", folder], check=False)
        passed, failed = passed + (not faults), failed + bool(faults)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
