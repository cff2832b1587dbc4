#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Processor time of our server for one empty unary call, h2load as the client:
h2load_rpc.py RPC_PEER [calls [runs]]

Closed loop, 4 connections with 50 streams each. Build rpc_peer with the release preset.
"""
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_kb(pid):
    with open(f"/proc/{pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def main(program, calls=200000, runs=5):
    server = subprocess.Popen([program], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline().split()[1])
    costs = []
    with tempfile.NamedTemporaryFile() as body:
        body.write(b"\0\0\0\0\0")
        body.flush()
        print("    calls/s  server us/call  resident kB")
        for _ in range(runs):
            before = cpu_seconds(server.pid)
            done = subprocess.run(
                ["h2load", "-n", str(calls), "-c", "4", "-m", "50", "-d", body.name, "-p", "h2c",
                 "-H", "content-type: application/grpc", "-H", "te: trailers",
                 f"http://127.0.0.1:{port}/foliot.test.Peer/Echo"],
                capture_output=True, text=True, check=True)
            assert f"{calls} succeeded, 0 failed" in done.stdout, done.stdout
            costs.append((cpu_seconds(server.pid) - before) / calls * 1e6)
            rate = float(re.search(r"([\d.]+) req/s", done.stdout).group(1))
            print(f"{rate:11.0f}  {costs[-1]:14.2f}  {resident_kb(server.pid):11d}")
    print(f"median of {runs}: {statistics.median(costs):.2f} us of server CPU per call")
    server.send_signal(signal.SIGTERM)
    server.wait(timeout=10)


main(sys.argv[1], *map(int, sys.argv[2:]))
