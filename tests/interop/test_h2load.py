#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Load by h2load, nghttp2's own client, in cleartext and over TLS: every call is answered, nothing
is left over, and the server does not grow with it: test_h2load.py RPC_PEER [case …]"""
import os
import re
import subprocess
import sys
import tempfile

import certs
from peer import Peer, case, eventually, main

# What has been freed is kept by the address sanitizer for a while, and is no growth of the server's.
os.environ["ASAN_OPTIONS"] = os.environ.get("ASAN_OPTIONS", "") + ":quarantine_size_mb=8"

PROGRAM = sys.argv[1]
CALLS = 20000


def resident_kb(peer):
    with open(f"/proc/{peer.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def load(url, body, calls=CALLS, connections=4, streams=50):
    """h2load's own count of what became of the calls."""
    with tempfile.NamedTemporaryFile() as data:
        data.write(body)
        data.flush()
        # Without -p it asks for h2 by ALPN; for an http:// address -p h2c is prior knowledge.
        plain = ["-p", "h2c"] if url.startswith("http://") else []
        done = subprocess.run(
            ["h2load", "-n", str(calls), "-c", str(connections), "-m", str(streams), "-d", data.name,
             *plain, "-H", "content-type: application/grpc", "-H", "te: trailers", url],
            capture_output=True, text=True, timeout=120, check=True)
    counts = dict((word, int(number)) for number, word in re.findall(
        r"(\d+) (total|started|done|succeeded|failed|errored|timeout)", done.stdout))
    codes = re.search(r"status codes: (\d+) 2xx, (\d+) 3xx, (\d+) 4xx, (\d+) 5xx", done.stdout)
    return counts, [int(code) for code in codes.groups()], done.stdout


def check(url, body, **options):
    calls = options.get("calls", CALLS)
    counts, codes, text = load(url, body, **options)
    assert counts["succeeded"] == counts["done"] == calls, text
    assert counts["failed"] == counts["errored"] == counts["timeout"] == 0, text
    assert codes == [calls, 0, 0, 0], text


def run(peer, scheme):
    url = f"{scheme}://127.0.0.1:{peer.port}/foliot.test.Peer/Echo"
    check(url, b"\0\0\0\0\0")
    before = resident_kb(peer)
    check(url, b"\0\0\0\x03\xe8" + b"x" * 1000)
    check(url, b"\0\0\0\0\0", calls=2000, connections=200, streams=10)
    grown = resident_kb(peer) - before
    assert grown < 60000, f"{grown} kB more"
    handled = peer.end()["handled"]
    assert handled == 2 * CALLS + 2000, handled


@case
def every_call_of_a_load_is_answered():
    peer = Peer(PROGRAM)
    try:
        run(peer, "http")
    finally:
        peer.process.kill()
        peer.process.wait()


@case
def every_call_of_a_load_over_tls_is_answered():
    cert, key = certs.Authority().make("server")
    peer = Peer(PROGRAM, tls_cert=cert, tls_key=key)
    try:
        run(peer, "https")
    finally:
        peer.process.kill()
        peer.process.wait()


@case
def a_load_on_more_connections_than_allowed_harms_nobody():
    peer = Peer(PROGRAM, address_connections=5, streams_max=10)
    try:
        url = f"http://127.0.0.1:{peer.port}/foliot.test.Peer/Echo"
        check(url, b"\0\0\0\0\0", calls=2000, connections=5, streams=10)
        assert load(url, b"\0\0\0\0\0", calls=2000, connections=20)[0]["failed"] > 0
        # One that has been left is counted until the server has heard of it.
        eventually(lambda: peer.stats()["connections"] == 0)
        check(url, b"\0\0\0\0\0", calls=2000, connections=2, streams=10)
        assert peer.end()["refused"] >= 15
    finally:
        peer.process.kill()
        peer.process.wait()


if __name__ == "__main__":
    main(sys.argv[2:])
