# SPDX-License-Identifier: Apache-2.0
"""What the interop tests share: rpc_peer as a child process, cases by name, the closing line."""
import signal
import subprocess
import sys
import time
import traceback

CASES = []


def case(function):
    """Register a test case; its name is the promise."""
    CASES.append(function)
    return function


class Peer:
    """rpc_peer with options; ended and checked for leaked calls and memory by `end`."""

    def __init__(self, program, **options):
        self.process = subprocess.Popen(
            [program] + [f"{name}={value}" for name, value in options.items()],
            stdout=subprocess.PIPE, text=True)
        self.drains = False
        self.port = int(self.process.stdout.readline().split()[1])
        self.address = f"127.0.0.1:{self.port}"

    def drain(self):
        """Once: it may be gone by the second time."""
        if not self.drains:
            self.drains = True
            self.process.send_signal(signal.SIGTERM)

    def stats(self):
        """Counters now; the health turns to not serving by this."""
        self.process.send_signal(signal.SIGUSR1)
        return self.read_stats()

    def read_stats(self):
        for line in self.process.stdout:
            if line.startswith("stats"):
                return {name: int(value) for name, value in
                        (pair.split("=") for pair in line.split()[1:])}
        raise AssertionError("no counters from rpc_peer")

    def end(self):
        """Drain, wait, and require that nothing is left over."""
        self.drain()
        final = self.read_stats()
        assert self.process.wait(timeout=20) == 0, "rpc_peer left memory or failed"
        assert final["open"] == 0 and final["buffered"] == 0, final
        return final


def eventually(condition, seconds=5.0):
    """Wait for what only the other process can tell."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "did not come true in time"
        time.sleep(0.01)


def main(arguments):
    chosen = [one for one in CASES
              if not arguments or any(part in one.__name__ for part in arguments)]
    failed = 0
    for one in chosen:
        try:
            one()
        except Exception:  # A failed case must not hide the others.
            failed += 1
            print(f"FAILED {one.__name__}")
            traceback.print_exc()
    print(f"{len(chosen) - failed} passed, {failed} failed")
    sys.exit(1 if failed or not chosen else 0)
