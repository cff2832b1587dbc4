# SPDX-License-Identifier: Apache-2.0
"""The other end of proxy.py: makes links and hurts them. May be used by several threads."""
import json
import pathlib
import subprocess
import sys
import threading

PROGRAM = pathlib.Path(__file__).with_name("proxy.py")


class Links:
    """The relays of a world; ends with it."""

    def __init__(self, err):
        with open(err, "ab") as file:
            self.popen = subprocess.Popen([sys.executable, PROGRAM], stdin=subprocess.PIPE,
                                          stdout=subprocess.PIPE, stderr=file, text=True)
        self.lock = threading.Lock()
        self.ports = {}

    def ask(self, **order):
        with self.lock:
            self.popen.stdin.write(json.dumps(order) + "\n")
            self.popen.stdin.flush()
            line = self.popen.stdout.readline()
        if not line:
            raise RuntimeError(f"the proxies have ended: {order}")
        return json.loads(line)

    def add(self, name, target, kind="tcp"):
        """Its port."""
        self.ports[name] = self.ask(do="add", link=name, kind=kind, target=target)["port"]
        return self.ports[name]

    def mode(self, names, mode):
        for name in names:
            self.ask(do="mode", link=name, mode=mode)

    def arm(self, name, arm, seconds=0):
        self.ask(do="arm", link=name, arm=arm, seconds=seconds)

    def disarm(self, name):
        self.ask(do="disarm", link=name)

    def fired_us(self, name):
        """When an armed link has hurt somebody; 0: not yet."""
        return self.ask(do="fired", link=name)["fired"]

    def target(self, name, port):
        self.ask(do="target", link=name, target=port)

    def close(self):
        self.popen.stdin.close()
        self.popen.wait()
