#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Relays between the processes of a cluster that can be hurt while they run.

A program of its own, told by JSON lines on its standard input and answering each with one line; it
ends with that input. A relay is called a link. Links of kind "pg" know where a message of
PostgreSQL begins and ends, and can be armed to hurt the next write exactly at its commit.

  {"do": "add", "link": "a:pg0", "kind": "pg", "target": 5432}   → {"port": 21234}
  {"do": "mode", "link": "a:pg0", "mode": "hold"}                 pass, slow, hold, refuse, up, down
  {"do": "arm", "link": "a:pg0", "arm": "cut", "seconds": 5}      cut, late, half
  {"do": "fired", "link": "a:pg0"}                                → {"fired": 1700000000000000}

Modes: "slow" delays each piece; "hold" keeps everything, as a network does that drops packets: what
was sent arrives late, if anybody is still there; "up" and "down" hold one direction only, to the
server or from it; "refuse" resets what there is and whoever comes.

Arms: "cut" forwards a COMMIT and resets the client before it can see the reply; "late" holds a
COMMIT back for so many seconds and then lets the server have it, whether its client is still there
or not; "half" lets a write pass but for the end of its pipeline, and leaves the server like that.
"""
import asyncio
import json
import socket
import struct
import sys
import time

PIECE_BYTES = 65536
SLOW_S = 0.03      # for each piece, each way
PORTS = (11000, 20000)  # Below those that servers and brokers are given, and the ephemeral ones.
STARTUP = 196608   # Protocol 3.0; what else comes without a type asks for encryption or cancels.
MODES = ("pass", "slow", "hold", "refuse", "up", "down")
ARMS = ("cut", "late", "half")


class Cut(Exception):
    """This connection is to be ended at once."""


class Messages:
    """Splits what a client of PostgreSQL says into messages, and knows a write from a read."""

    def __init__(self):
        self.rest = b""
        self.is_started = False
        self.is_write = False  # between the begin of a write and its commit

    def feed(self, data):
        """The whole messages so far."""
        self.rest += data
        found = []
        while True:
            begin = 1 if self.is_started else 0
            if len(self.rest) < begin + 4:
                return found
            size = begin + struct.unpack_from(">I", self.rest, begin)[0]
            if len(self.rest) < size:
                return found
            found.append(self.rest[:size])
            self.rest = self.rest[size:]
            if not self.is_started:
                self.is_started = struct.unpack_from(">I", found[-1], 4)[0] == STARTUP

    @staticmethod
    def statement(message):
        """Name of the prepared statement that a message binds."""
        if message[:1] != b"B":
            return b""
        return message[5:].split(b"\0", 2)[1]

    def is_commit(self, message):
        """True for the commit of a write; notes where writes begin. Reads begin otherwise."""
        name = self.statement(message)
        if name == b"begin":
            self.is_write = True
        elif name == b"commit" and self.is_write:
            self.is_write = False
            return True
        return False


class Link:
    """A listening port, its target, and how it is hurt."""

    def __init__(self, kind, target):
        self.kind = kind
        self.target = target
        self.mode = "pass"
        self.changed = asyncio.Event()
        self.arm = None
        self.arm_s = 0
        self.fired_us = 0
        self.transports = set()

    async def listen(self):
        for port in range(PORTS[0] + int(time.time_ns() % 7919), PORTS[1]):  # Others do the same.
            try:
                self.server = await asyncio.start_server(self.serve, "127.0.0.1", port)
                return port
            except OSError:
                continue
        raise RuntimeError("no free port")

    def set_mode(self, mode):
        assert mode in MODES, mode
        self.mode = mode
        if mode == "refuse":
            for transport in list(self.transports):
                transport.abort()
        self.changed.set()
        self.changed = asyncio.Event()

    def set_arm(self, arm, seconds):
        assert arm in ARMS and self.kind == "pg", arm
        self.arm, self.arm_s, self.fired_us = arm, seconds, 0

    def fire(self):
        """The arm, if there is one: it is used once."""
        arm, self.arm = self.arm, None
        if arm:
            self.fired_us = time.time_ns() // 1000
        return arm

    async def gate(self, way):
        """Come back when a piece may go this way."""
        while self.mode in ("hold", way):
            await self.changed.wait()
        if self.mode == "refuse":
            raise Cut
        if self.mode == "slow":
            await asyncio.sleep(SLOW_S)

    async def serve(self, reader, writer):
        """One connection."""
        mine = [writer.transport]
        try:
            self.transports.update(mine)
            await self.gate("up")
            back_reader, back_writer = await asyncio.open_connection("127.0.0.1", self.target)
            mine.append(back_writer.transport)
            self.transports.update(mine)
            for one in (writer, back_writer):
                one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            down = asyncio.create_task(self.pump(back_reader, writer, "down"))
            if self.kind == "pg":
                await self.pump_messages(reader, back_writer, writer)
            else:
                await self.pump(reader, back_writer, "up")
            await down
        except (OSError, Cut, asyncio.IncompleteReadError):
            pass
        finally:
            self.transports.difference_update(mine)
            for transport in mine:
                transport.abort()

    async def pump(self, reader, writer, way):
        """Bytes until the end of either side; then an end for the other one."""
        try:
            while data := await reader.read(PIECE_BYTES):
                await self.gate(way)
                writer.write(data)
                await writer.drain()
            writer.close()
        except (OSError, Cut):
            writer.transport.abort()

    async def pump_messages(self, reader, server, client):
        """The same from a client of PostgreSQL, message by message."""
        messages = Messages()
        while data := await reader.read(PIECE_BYTES):
            await self.gate("up")
            out = messages.feed(data)
            for at, message in enumerate(out):
                if messages.is_commit(message) and self.arm:
                    await self.hurt(out, at, reader, server, client)
                    out = []
                    break
            server.write(b"".join(out))
            await server.drain()
        server.close()

    async def hurt(self, out, at, reader, server, client):
        """Do what was armed to the write whose commit is out[at]. Its pipeline ends with the Sync
        that came with it: the store sends both in one piece."""
        arm, seconds = self.fire(), self.arm_s
        if arm == "late":
            server.write(b"".join(out[:at]))
            await server.drain()
            await asyncio.sleep(seconds)
            server.write(b"".join(out[at:]))
            await server.drain()
            await asyncio.sleep(1)  # So that the server reads all of it, client or not.
            return
        if arm == "half":
            server.write(b"".join(message for message in out if message[:1] != b"S"))
            await server.drain()
            await asyncio.sleep(seconds)
            raise Cut
        server.write(b"".join(out))
        await server.drain()
        client.transport.abort()
        server.write_eof()
        await asyncio.sleep(1)  # So that the server reads all of it before the line breaks.
        raise Cut


class Proxies:
    """All links, and what is asked of them."""

    def __init__(self):
        self.links = {}

    async def add(self, order):
        link = Link(order["kind"], order["target"])
        port = await link.listen()
        self.links[order["link"]] = link
        return {"port": port}

    async def answer(self, order):
        if order["do"] == "add":
            return await self.add(order)
        link = self.links[order["link"]]
        if order["do"] == "mode":
            link.set_mode(order["mode"])
        elif order["do"] == "arm":
            link.set_arm(order["arm"], order.get("seconds", 0))
        elif order["do"] == "disarm":
            link.arm = None
        elif order["do"] == "target":
            link.target = order["target"]
        return {"fired": link.fired_us}

    async def run(self):
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
        while line := await reader.readline():
            print(json.dumps(await self.answer(json.loads(line))), flush=True)


if __name__ == "__main__":
    asyncio.run(Proxies().run())
