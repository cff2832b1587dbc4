#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""grpc-js against our server, the cases in node_cases.mjs: test_grpc_js.py RPC_PEER"""
import pathlib
import subprocess
import sys

import node
from peer import Peer

HERE = pathlib.Path(__file__).resolve().parent


def main(program):
    node.install()
    peer = Peer(program)
    try:
        done = subprocess.run(["node", str(HERE / "node_cases.mjs"), "client", peer.address],
                              timeout=120, check=False)
        peer.end()
    finally:
        peer.process.kill()
        peer.process.wait()
    sys.exit(done.returncode)


main(sys.argv[1])
