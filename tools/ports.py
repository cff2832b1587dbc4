# SPDX-License-Identifier: Apache-2.0
"""Ports for servers that are started later: what tools/servers and the clusters of brokers share."""
import random
import socket

PORT_RANGE = (20000, 32000)  # Below Linux's ephemeral ports, so no outgoing call takes one.
PORT_TRIES = 200

_held = []


def free_port():
    """A port of loopback that nobody listens at, and that nobody else is given while this program
    runs: a broker binds its own seconds after it was chosen. What holds it is a name without a file,
    which the kernel drops with the program, however that ends. RuntimeError if there is none."""
    for _ in range(PORT_TRIES):
        port = random.SystemRandom().randint(*PORT_RANGE)
        hold = socket.socket(socket.AF_UNIX)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                hold.bind(f"\0foliot-port-{port}")
                probe.bind(("127.0.0.1", port))
            except OSError:
                hold.close()
                continue
        _held.append(hold)
        return port
    raise RuntimeError(f"no free port between {PORT_RANGE[0]} and {PORT_RANGE[1]}")
