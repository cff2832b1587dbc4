#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""grpc-js against our server, in cleartext and over mutual TLS, the cases in node_cases.mjs:
test_grpc_js.py RPC_PEER. Ends with "N passed, N failed"."""
import pathlib
import re
import subprocess
import sys

import certs
import node
from peer import Peer

HERE = pathlib.Path(__file__).resolve().parent


def run(program, files, **options):
    """Passed and failed cases of one run, with a server of its own."""
    peer = Peer(program, **options)
    try:
        done = subprocess.run(
            ["node", str(HERE / "node_cases.mjs"), "client", f"localhost:{peer.port}", *files],
            timeout=120, check=False, stdout=subprocess.PIPE, text=True)
        print(done.stdout.rsplit("\n", 2)[0])
        peer.drain()
        assert peer.process.wait(20) == 0, "rpc_peer left memory or failed"
    finally:
        peer.process.kill()
        peer.process.wait()
    return [int(one) for one in re.search(r"(\d+) passed, (\d+) failed\n$", done.stdout).groups()]


def main(program):
    node.install()
    ours = certs.Authority()
    cert, key = ours.make("server")
    client = ours.make("client")
    runs = [run(program, ()),
            run(program, (ours.ca, *client), tls_cert=cert, tls_key=key, tls_ca=ours.ca,
                tls_clients=2)]
    passed, failed = (sum(one) for one in zip(*runs))
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or passed < 20 else 0)


main(sys.argv[1])
