# SPDX-License-Identifier: Apache-2.0
"""A `foliot dev` for tests: started on free ports, ended or killed."""
import json
import os
import pathlib
import selectors
import signal
import subprocess
import time

FOLIOT = os.environ.get("FOLIOT_PROGRAM_FOLIOT") or str(
    pathlib.Path(__file__).resolve().parent.parent.parent / "build/dev/bin/foliot")
LIMIT_S = 20


class Dev:
    """Started and ready, or RuntimeError. With output "json" its first line says where it is."""

    def __init__(self, *options, output="json", program=FOLIOT):
        begin = time.monotonic()
        self.popen = subprocess.Popen(
            [program, "dev", "--port", "0", "--admin-port", "0", "-o", output, *options],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.place = {}
        self.first = self.line()
        self.ready_s = time.monotonic() - begin
        if not self.first:
            raise RuntimeError(f"it did not start: {self.popen.communicate(timeout=LIMIT_S)[1]}")
        if output == "json":
            self.place = json.loads(self.first)

    @property
    def address(self):
        return self.place["address"]

    def line(self, limit_s=LIMIT_S):
        """The next line of its output; empty at the end. Fails if none comes in time."""
        selector = selectors.DefaultSelector()
        selector.register(self.popen.stdout, selectors.EVENT_READ)
        text = b""
        end = time.monotonic() + limit_s
        while not text.endswith(b"\n"):  # Unbuffered, so that the selector sees what is left.
            if not selector.select(max(0, end - time.monotonic())):
                raise RuntimeError(f"no line within {limit_s} s, only {text!r}")
            byte = os.read(self.popen.stdout.fileno(), 1)
            if not byte:
                break
            text += byte
        return text.decode().rstrip("\n")

    def kill(self):
        self.popen.kill()
        self.popen.wait(LIMIT_S)
        self.popen.stdout.close()
        self.popen.stderr.close()

    def stop(self, number=signal.SIGTERM):
        """Ask it to end; its exit status and the rest of its output."""
        self.popen.send_signal(number)
        out, err = self.popen.communicate(timeout=LIMIT_S)
        return self.popen.returncode, out.decode(), err.decode()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.popen.poll() is None:
            self.kill()


def refused(*options, program=FOLIOT, **how):
    """Start one that cannot start: its exit status and what it said on standard error."""
    done = subprocess.run([program, "dev", *options], capture_output=True, timeout=LIMIT_S,
                          check=False, **how)
    assert not done.stdout, done.stdout
    return done.returncode, done.stderr.decode()
