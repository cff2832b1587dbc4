#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The demonstration ends by itself with a table and 0 if nothing was lost or early. Whoever ends it
before, at whatever moment, leaves nothing behind: no server, no broker, no folder, and one line that
says so instead of a trace.

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


def start(build, folder, seconds=0):
    """The demonstration in a session of its own, as a terminal would start it."""
    out = open(folder / "out", "w+", encoding="utf-8")
    env = os.environ | {"DEMO_SECONDS": str(seconds), "RATE": "100", "BUILD": build,
                        "TMPDIR": str(folder)}
    return subprocess.Popen([ROOT / "tools/demo"], stdout=out, stderr=subprocess.STDOUT, env=env,
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
    """Processes that name the folder in their arguments."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in arguments:
                found.append(arguments)
    return found


def end_of(build, folder, words, send):
    """Start, wait for the words, end it by `send`; (exit status, output, what is left)."""
    process, out = start(build, folder)
    with out:
        came = wait_for(out, words, process)
        send(process)
        status = process.wait(LIMIT_S)
        return status, came, text_of(out), left_in(folder)


def left_in(folder):
    return alive_below(folder) + [str(path) for path in folder.iterdir() if path.is_dir()]


def whole(build, folder):
    """Faults of a demonstration that nobody ends."""
    process, out = start(build, folder, WHOLE_S)
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


def to_all(number):
    return lambda process: os.killpg(process.pid, number)


CASES = {
    "left_alone_it_ends_with_a_table_and_0": None,
    "sigterm_ends_a_cluster_that_stays_up": (
        STAYS, lambda process: process.terminate(), 0),
    "ctrl_c_ends_a_cluster_that_stays_up": (STAYS, to_all(signal.SIGINT), 0),
    "ctrl_c_while_servers_start_leaves_none": ("starting PostgreSQL", to_all(signal.SIGINT), 130),
    "sigterm_while_brokers_start_leaves_none": (
        "starting two brokers", lambda process: process.terminate(), 143),
}


def check(build, folder, case):
    if case is None:
        return whole(build, folder)
    words, send, wanted = case
    status, came, text, left = end_of(build, folder, words, send)
    faults = [] if came else [f"never said {words!r}"]
    if status != wanted:
        faults.append(f"exit status {status}, not {wanted}")
    if "Traceback" in text:
        faults.append("printed a trace")
    faults += [f"left behind: {item}" for item in left]
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
