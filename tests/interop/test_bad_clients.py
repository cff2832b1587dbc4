#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Clients that misbehave, frame by frame: test_bad_clients.py RPC_PEER [case …]

Each case also asks a decent client at its end, and requires that no call or memory is left over.
"""
import gzip
import pathlib
import socket
import struct
import sys
import tempfile
import time

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import hpack

from peer import Peer, case, eventually, main
from stalls import Stalls

PROGRAM = sys.argv[1]
SCRATCH = tempfile.TemporaryDirectory(prefix="foliot-clients-")
STALLS = Stalls(pathlib.Path(SCRATCH.name))
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, END_HEADERS = 1, 4


def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + payload


def request_headers(path="/foliot.test.Peer/Echo", **changes):
    headers = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test",
               "te": "trailers", "content-type": "application/grpc"}
    for name, value in changes.items():
        headers[name.replace("__", ":").replace("_", "-")] = value
    return [(name, value) for name, value in headers.items() if value is not None]


def message(body, flag=0, length=None):
    return bytes([flag]) + struct.pack(">I", len(body) if length is None else length) + body


def gzip_message(body):
    return message(gzip.compress(body), flag=1)


class Client:
    """A connection that does what it is told, through h2 or around it."""

    def __init__(self, peer, hello=True):
        self.socket = socket.create_connection(("127.0.0.1", peer.port), timeout=10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        config = h2.config.H2Configuration(
            client_side=True, validate_outbound_headers=False, normalize_outbound_headers=False)
        self.h2 = h2.connection.H2Connection(config)
        self.events = []
        self.closed = False
        self.goaway = None
        if hello:
            self.h2.initiate_connection()
            self.flush()

    def flush(self):
        self.send(self.h2.data_to_send())

    def send(self, raw):
        """Raw bytes; a server that has hung up is no error here."""
        try:
            self.socket.settimeout(10)
            self.socket.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            self.closed = True

    def start(self, body=None, end=True, headers=None, **changes):
        stream = self.h2.get_next_available_stream_id()
        self.h2.send_headers(stream, headers or request_headers(**changes),
                             end_stream=body is None and end)
        if body is not None:
            self.h2.send_data(stream, body, end_stream=end)
        self.flush()
        return stream

    def pump(self, seconds):
        """Read for a while; False when the server has closed."""
        self.socket.settimeout(seconds)
        try:
            got = self.socket.recv(65536)
        except socket.timeout:
            return True
        except ConnectionResetError:
            got = b""
        if not got:
            self.closed = True
            return False
        try:
            new = self.h2.receive_data(got)
        except h2.exceptions.ProtocolError:
            new = []
        for event in new:
            if isinstance(event, h2.events.ConnectionTerminated):
                self.goaway = event
            elif isinstance(event, h2.events.DataReceived):
                self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        self.events += new
        self.flush()
        return True

    def answer(self, stream, seconds=5):
        """Wait until a stream has ended; its headers and trailers, and the reset code if any."""
        end = time.monotonic() + seconds
        while True:
            fields, code, body = {}, None, b""
            ended = False
            for event in self.events:
                if getattr(event, "stream_id", None) != stream:
                    continue
                if isinstance(event, (h2.events.ResponseReceived, h2.events.TrailersReceived)):
                    fields.update((name.decode() if isinstance(name, bytes) else name,
                                   value.decode() if isinstance(value, bytes) else value)
                                  for name, value in event.headers)
                elif isinstance(event, h2.events.DataReceived):
                    body += event.data
                elif isinstance(event, h2.events.StreamEnded):
                    ended = True
                elif isinstance(event, h2.events.StreamReset):
                    ended, code = True, int(event.error_code)
            if ended:
                return fields, code, body
            assert time.monotonic() < end, ("no answer", self.events)
            if not self.pump(0.2):
                raise AssertionError(("closed before the answer", self.goaway))

    def wait_closed(self, seconds=5):
        end = time.monotonic() + seconds
        while not self.closed and time.monotonic() < end:
            self.pump(0.1)
        assert self.closed, "the server did not hang up"


def status(peer, **arguments):
    """gRPC status of one raw call on a connection of its own."""
    client = Client(peer)
    fields, _, _ = client.answer(client.start(**arguments))
    client.socket.close()
    return int(fields.get("grpc-status", -1)), fields


def ask_decently(peer):
    client = Client(peer)
    started = time.monotonic()
    fields, code, body = client.answer(client.start(body=message(b"decent")))
    assert fields["grpc-status"] == "0" and body == message(b"decent") and code is None
    client.socket.close()
    return time.monotonic() - started


def ask_within_a_second(peer):
    """Not counting what the machine stood still meanwhile."""
    began_us = time.time_ns() // 1000
    took_s = ask_decently(peer)
    if took_s < 1:
        return
    time.sleep(0.2)  # A stall is noted when it has ended.
    STALLS.read()
    stalled_s = STALLS.within(began_us, began_us + took_s * 1e6) / 1e6
    assert took_s - stalled_s < 1, (took_s, stalled_s)


def resident_kb(peer):
    with open(f"/proc/{peer.process.pid}/status", encoding="ascii") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def with_peer(**options):
    def wrap(function):
        def run():
            peer = Peer(PROGRAM, **options)
            try:
                function(peer)
                ask_decently(peer)
                peer.end()
            finally:
                peer.process.kill()
                peer.process.wait()
        run.__name__ = function.__name__
        return case(run)
    return wrap


@with_peer()
def garbage_and_other_protocols_are_hung_up_on(peer):
    for raw in (b"\x00" * 100, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01" + b"x" * 200,
                PREFACE[:10] + b"oops" * 10, PREFACE + b"\xff" * 1000,
                PREFACE + frame(DATA, 0, 1, b"x")):
        client = Client(peer, hello=False)
        client.send(raw)
        client.wait_closed()


@with_peer()
def a_preface_may_come_byte_by_byte(peer):
    client = Client(peer, hello=False)
    client.h2.initiate_connection()
    for byte in client.h2.data_to_send():
        client.send(bytes([byte]))
    assert client.answer(client.start(body=message(b"x")))[0]["grpc-status"] == "0"


@with_peer(handshake_ms=4000)
def a_thousand_silent_connections_harm_nobody_and_are_closed(peer):
    silent = [socket.create_connection(("127.0.0.1", peer.port)) for _ in range(1000)]
    ask_within_a_second(peer)
    for one in silent:
        one.settimeout(10)
        while one.recv(4096):
            pass
        one.close()
    eventually(lambda: peer.stats()["accepted"] >= 1001)


@with_peer(connections_max=50, address_connections=20)
def connections_over_the_limit_are_closed_at_once(peer):
    good = [Client(peer) for _ in range(20)]
    for one in good:
        one.pump(1)
    Client(peer).wait_closed()
    assert peer.stats()["refused"] == 1
    for one in good:
        one.socket.close()
    eventually(lambda: peer.stats()["connections"] == 0)


@with_peer()
def bad_framing_of_messages_has_a_defined_status(peer):
    cases = [
        (b"", 12), (message(b"a") + message(b"b"), 12), (message(b"abc")[:-1], 13),
        (b"\x00\x00", 13), (message(b"abc", flag=1), 13), (message(b"abc", flag=2), 13),
        (message(b"abc", flag=255), 13), (message(b"", length=0xffffffff), 8),
        (message(b"x" * 10, length=5 << 20), 8), (message(b"abc", length=4), 13),
    ]
    for body, wanted in cases:
        got, fields = status(peer, body=body)
        assert got == wanted, (body[:20], got, wanted, fields)
    assert status(peer, body=None)[0] == 12


@with_peer()
def bad_request_lines_and_headers_have_a_defined_answer(peer):
    assert status(peer, body=message(b""), __method="GET")[1][":status"] == "405"
    for content_type in ("application/json", "application/grpc+json", "application/grpc-web", None):
        fields = status(peer, body=message(b""), content_type=content_type)[1]
        assert fields[":status"] == "415", fields
    for content_type in ("application/grpc+proto", "application/grpc;a=b"):
        assert status(peer, body=message(b""), content_type=content_type)[0] == 0
    for timeout in ("", "1", "S", "123456789S", "1.5S", "-1S"):
        assert status(peer, body=message(b""), grpc_timeout=timeout)[0] == 13, timeout
    for path in ("/", "/foliot.test.Peer", "/foliot.test.Peer/", "//Echo", "/a/b/c"):
        assert status(peer, body=message(b""), path=path)[0] == 12, path
    assert status(peer, body=message(b""), te=None)[0] == 0
    got, fields = status(peer, body=message(b"x"), grpc_encoding="snappy")
    assert got == 12 and fields["grpc-accept-encoding"] == "identity,gzip", fields
    assert fields["server"] == "foliot/test" and fields["content-type"] == "application/grpc"


@with_peer()
def packed_requests_have_a_defined_status(peer):
    small = gzip.compress(b"abc" * 100)
    bomb = gzip.compress(b"\0" * (12 << 20))
    assert len(bomb) < 16000
    for encoding, body, wanted in (
            ("gzip", message(small, flag=1), 0), ("gzip", message(b"abc", flag=0), 0),
            ("identity", message(small, flag=1), 13), (None, message(small, flag=1), 13),
            ("gzip", message(small, flag=2), 13), ("gzip", message(small[:-1], flag=1), 13),
            ("gzip", message(small + b"x", flag=1), 13), ("gzip", message(b"", flag=1), 13),
            ("gzip", message(b"abc", flag=1), 13), ("gzip", message(bomb, flag=1), 8),
            ("gzip", message(gzip.compress(b"\0" * (4 << 20)), flag=1), 0),
            ("gzip", message(gzip.compress(b"\0" * ((4 << 20) + 1)), flag=1), 8),
            ("deflate", message(small, flag=1), 12), ("GZIP", message(small, flag=1), 12)):
        # Describe, for its answer is short: h2 is slow at megabytes.
        got, fields = status(peer, body=body, grpc_encoding=encoding,
                             path="/foliot.test.Peer/Describe")
        assert got == wanted, (encoding, body[:20], got, wanted, fields)
        assert fields["grpc-accept-encoding"] == "identity,gzip", fields


@with_peer(request_bytes_max=100000)
def bombs_cost_no_more_memory_than_the_limit(peer):
    bomb = message(gzip.compress(b"\0" * (12 << 20)), flag=1)
    assert status(peer, body=bomb, grpc_encoding="gzip")[0] == 8
    before = resident_kb(peer)
    for _ in range(20):
        assert status(peer, body=bomb, grpc_encoding="gzip")[0] == 8
    assert resident_kb(peer) - before < 10000, "a bomb went off"


@with_peer(compress_bytes_min=1000)
def only_large_answers_to_who_takes_gzip_are_packed(peer):
    def answer(body, accept):
        client = Client(peer)
        fields, _, got = client.answer(
            client.start(body=message(body), grpc_accept_encoding=accept))
        client.socket.close()
        assert fields["grpc-status"] == "0", fields
        return got[0], fields.get("grpc-encoding"), got[5:]
    for accept in ("gzip", "identity, deflate ,gzip"):
        flag, encoding, packed = answer(b"x" * 1000, accept)
        assert flag == 1 and encoding == "gzip" and gzip.decompress(packed) == b"x" * 1000
    for body, accept in ((b"x" * 999, "gzip"), (b"x" * 2000, None), (b"x" * 2000, "identity"),
                         (b"x" * 2000, "deflate,xgzip")):
        assert answer(body, accept) == (0, None, body), (len(body), accept)
    random = bytes(hash((i, 7)) % 251 for i in range(3000))
    noise = gzip.compress(random) * 3  # cannot be packed any further
    assert answer(noise, "gzip")[0] == (1 if len(gzip.compress(noise, 1)) < len(noise) else 0)


REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
LIST_SERVICES = b"\x3a\x00"


@with_peer()
def streams_of_requests_have_a_defined_end_in_every_framing(peer):
    for body, wanted, answers in (
            (b"", 0, 0), (message(LIST_SERVICES), 0, 1), (message(LIST_SERVICES) * 3, 0, 3),
            (message(LIST_SERVICES)[:-1], 13, 0), (message(LIST_SERVICES) + b"\0", 13, 1),
            (message(LIST_SERVICES, flag=1), 13, 0), (message(b"", length=5 << 20), 8, 0),
            (message(b"\xff") + message(LIST_SERVICES), 3, 0)):
        client = Client(peer)
        fields, _, got = client.answer(client.start(body=body, path=REFLECTION))
        client.socket.close()
        assert fields["grpc-status"] == str(wanted), (body, fields)
        assert got.count(b"grpc.health.v1.Health") == answers, (body, got)
    client = Client(peer)
    stream = client.start(body=b"", end=False, path=REFLECTION)
    for byte in message(LIST_SERVICES) * 2:
        client.h2.send_data(stream, bytes([byte]))
        client.flush()
    client.h2.end_stream(stream)
    client.flush()
    fields, _, got = client.answer(stream)
    assert fields["grpc-status"] == "0" and got.count(b"grpc.health.v1.Health") == 2
    got, fields = status(peer, body=gzip_message(LIST_SERVICES), path=REFLECTION,
                         grpc_encoding="gzip")
    assert got == 0, fields


@with_peer()
def credit_comes_back_while_a_stream_goes_on(peer):
    client = Client(peer)
    stream = client.start(body=b"", end=False, path=REFLECTION)
    question = message(b"\x1a\x81\x1e" + b"f" * 3841)  # a file of a long name, which is not there
    received = answer_len = sent = 0
    while sent * len(question) < 20 << 20:  # more than both windows
        while client.h2.local_flow_control_window(stream) < len(question):
            assert client.pump(5), "hung up on"
        client.h2.send_data(stream, question)
        client.flush()
        sent += 1
        while received < sent * (answer_len or 1):
            assert client.pump(5), "hung up on"
            received += sum(len(event.data) for event in client.events
                            if isinstance(event, h2.events.DataReceived))
            client.events.clear()
        answer_len = answer_len or received
    client.h2.end_stream(stream)
    client.flush()
    assert client.answer(stream)[0]["grpc-status"] == "0"


@with_peer()
def the_settings_say_what_is_enforced(peer):
    client = Client(peer)
    while not any(isinstance(event, h2.events.RemoteSettingsChanged) for event in client.events):
        assert client.pump(1)
    settings = client.h2.remote_settings
    assert settings.max_concurrent_streams == 1000 and settings.initial_window_size == 1 << 20
    assert settings.max_header_list_size == 16 << 10
    while client.h2.outbound_flow_control_window < 16 << 20:
        assert client.pump(1)


@with_peer()
def odd_metadata_never_fails_a_call(peer):
    odd = [("x-raw-bin", "%%%"), ("x-raw-bin", "AAE="), ("x-raw-bin", "AAE,AAI"), ("x-raw-bin", ""),
           ("x-text", b"caf\xe9"), ("x-text", ""), ("grpc-unknown", "1"), ("grpc-tags-bin", "AA")]
    assert status(peer, body=message(b""), headers=request_headers() + odd)[0] == 0
    client = Client(peer)
    _, _, body = client.answer(client.start(
        body=message(b""), headers=request_headers(path="/foliot.test.Peer/Describe") +
        [("x-raw-bin", "AAH/"), ("x-raw-bin", "AA")]))
    assert body.endswith(b"x-raw-bin=0001ff"), body


@with_peer()
def a_timeout_of_zero_ends_the_call_before_it_is_begun(peer):
    assert status(peer, path="/foliot.test.Peer/Wait", body=message(b"60000"),
                  grpc_timeout="0n")[0] == 4
    got, fields = status(peer, body=message(b""), grpc_timeout="0n")
    assert got == 4 and "nothing happened" in fields["grpc-message"], fields


@with_peer()
def client_trailers_and_padding_are_accepted(peer):
    client = Client(peer)
    stream = client.h2.get_next_available_stream_id()
    client.h2.send_headers(stream, request_headers())
    client.h2.send_data(stream, message(b"padded"), pad_length=200)
    client.h2.send_headers(stream, [("x-trailer", "1")], end_stream=True)
    client.flush()
    fields, _, body = client.answer(stream)
    assert fields["grpc-status"] == "0" and body == message(b"padded")


@with_peer()
def a_refusal_before_the_clients_end_is_followed_by_a_reset_without_error(peer):
    client = Client(peer)
    stream = client.start(body=message(b"x" * 100, length=5 << 20), end=False)
    fields, _, _ = client.answer(stream)
    assert fields["grpc-status"] == "8", fields
    end = time.monotonic() + 5
    while not any(isinstance(event, h2.events.StreamReset) and event.stream_id == stream
                  for event in client.events):
        assert time.monotonic() < end, client.events
        client.pump(0.1)
    code = next(int(event.error_code) for event in client.events
                if isinstance(event, h2.events.StreamReset))
    assert code == 0, code
    assert client.answer(client.start(body=message(b"next")))[0]["grpc-status"] == "0"


@with_peer()
def credit_comes_back_for_requests_that_are_refused(peer):
    client = Client(peer)
    for _ in range(60):  # 60 MB through a connection window of 16 MiB.
        stream = client.start(body=b"", end=False, path="/no.such/Method")
        for _ in range(62):
            while client.h2.local_flow_control_window(stream) < 16384:
                client.pump(0.5)
                if stream not in client.h2.streams or client.h2.streams[stream].closed:
                    break
            try:
                client.h2.send_data(stream, b"x" * 16384)
            except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                break
            client.flush()
    assert client.answer(client.start(body=message(b"x" * 16000)))[0]["grpc-status"] == "0"


@with_peer(header_bytes_max=4096)
def an_oversize_header_list_is_refused_and_a_huge_one_hung_up_on(peer):
    assert status(peer, body=message(b""), x_big="v" * 3000)[0] == 0
    assert status(peer, body=message(b""), x_big="v" * 5000)[0] == 8
    many = request_headers() + [(f"x-{i}", "") for i in range(150)]
    assert status(peer, body=message(b""), headers=many)[0] == 8
    client = Client(peer)
    client.start(body=message(b""), headers=request_headers() +
                 [(f"x-{i}", "v" * 2000) for i in range(20)])
    client.wait_closed()


@with_peer(request_ms=500)
def a_request_that_does_not_go_on_ends(peer):
    client = Client(peer)
    fields, _, _ = client.answer(client.start(body=message(b"abc", length=10), end=False))
    assert fields["grpc-status"] == "4", fields
    block = hpack.Encoder().encode(request_headers())
    client = Client(peer)
    client.send(frame(HEADERS, 0, 1, block[:10]))  # The header block never ends.
    client.wait_closed()


@with_peer()
def continuations_without_end_are_hung_up_on(peer):
    client = Client(peer)
    client.send(frame(HEADERS, 0, 1, hpack.Encoder().encode(request_headers())))
    for _ in range(10000):
        client.send(frame(CONTINUATION, 0, 1, b"\x00\x01a\x01b"))
        if client.closed:
            break
    client.wait_closed()


def reset_flood(peer, kind, payload):
    """Open calls that would wait for a minute, each with a frame that ends it at once, a hundred thousand times
    if the server lets us."""
    client = Client(peer)
    encoder = hpack.Encoder()
    wait = request_headers(path="/foliot.test.Peer/Wait")
    sent = 0
    for stream in range(1, 200001, 2):
        client.send(frame(HEADERS, END_HEADERS, stream, encoder.encode(wait)) +
                    frame(DATA, END_STREAM, stream, message(b"60000")) +
                    frame(kind, 0, stream, struct.pack(">I", payload)))
        sent += 1
        if client.closed:
            break
    client.wait_closed()
    assert sent < 100000, "the flood was served"
    eventually(lambda: peer.stats()["open"] == 0)


@with_peer()
def streams_opened_and_reset_a_hundred_thousand_times_are_hung_up_on(peer):
    reset_flood(peer, RST, 8)


@with_peer()
def resets_that_we_are_provoked_into_are_hung_up_on(peer):
    """A window that is opened too far makes the server reset the stream: work for nothing, as by our own."""
    reset_flood(peer, WINDOW, 0x7fffffff)


def flood(peer, raw, count=200000):
    """Send one thing very often without reading; the server must hang up before the end."""
    client = Client(peer)
    client.pump(1)
    for _ in range(count // 100):
        client.send(raw * 100)
        if client.closed:
            break
    client.wait_closed()


@with_peer()
def floods_of_frames_are_hung_up_on(peer):
    flood(peer, frame(SETTINGS))
    flood(peer, frame(PING, 0, 0, b"12345678"))
    flood(peer, frame(PRIORITY, 0, 3, b"\x00\x00\x00\x00\x10"))
    flood(peer, frame(WINDOW, 0, 0, struct.pack(">I", 1)))


@with_peer()
def empty_data_frames_without_end_are_hung_up_on(peer):
    client = Client(peer)
    stream = client.start(body=b"\x00", end=False)
    for _ in range(2000):
        client.send(frame(DATA, 0, stream) * 100)
        if client.closed:
            break
    client.wait_closed()


@with_peer(ping_interval_min_ms=1000)
def pings_that_come_too_fast_are_told_so(peer):
    client = Client(peer)
    for _ in range(6):
        client.send(frame(PING, 0, 0, b"12345678"))
        if not client.pump(0.1):
            break
    client.wait_closed()
    assert client.goaway is not None and int(client.goaway.error_code) == 11
    assert client.goaway.additional_data == b"too_many_pings", client.goaway


@with_peer(keepalive_ms=300, keepalive_timeout_ms=2000)
def a_peer_that_does_not_answer_pings_is_closed_and_others_are_not(peer):
    dead, alive = Client(peer), Client(peer)
    dead.pump(0.2)
    began = time.monotonic()
    while time.monotonic() < began + 3.5:
        assert alive.pump(0.1)
    assert any(isinstance(event, h2.events.PingReceived) for event in alive.events)
    dead.wait_closed(1)


@with_peer(idle_ms=300)
def an_idle_connection_is_sent_away(peer):
    client = Client(peer)
    assert client.answer(client.start(body=message(b"x")))[0]["grpc-status"] == "0"
    client.wait_closed()
    assert client.goaway is not None and int(client.goaway.error_code) == 0


@with_peer()
def a_client_that_leaves_gets_its_answers(peer):
    client = Client(peer)
    stream = client.start(body=message(b"200"), path="/foliot.test.Peer/Wait")
    client.send(frame(GOAWAY, 0, 0, struct.pack(">II", 0, 0)))
    raw = b""  # Python's h2 takes nothing after a GOAWAY of the server, so this is read by hand.
    while part := client.socket.recv(65536):
        raw += part
    frames = []
    while raw:
        length = int.from_bytes(raw[:3], "big")
        frames.append((raw[3], raw[4], int.from_bytes(raw[5:9], "big"), raw[9:9 + length]))
        raw = raw[9 + length:]
    assert any(kind == GOAWAY for kind, _, _, _ in frames), frames
    answer = [one for one in frames if one[2] == stream]
    assert [one[0] for one in answer] == [HEADERS, DATA, HEADERS], answer
    assert answer[1][3] == message(b"200") and answer[2][1] & END_STREAM, answer


@with_peer(streams_max=10)
def more_streams_than_allowed_are_refused(peer):
    client = Client(peer)
    encoder = client.h2.encoder
    for stream in range(1, 41, 2):
        client.send(frame(HEADERS, END_HEADERS, stream, encoder.encode(
            request_headers(path="/foliot.test.Peer/Wait"))) +
                    frame(DATA, END_STREAM, stream, message(b"60000")))
    client.socket.settimeout(5)
    raw, refused = b"", []
    while len(refused) < 10:  # Read by hand: Python's h2 knows nothing of these streams.
        part = client.socket.recv(65536)
        assert part, ("hung up on", refused)
        raw += part
        while len(raw) >= 9 and len(raw) >= 9 + (length := int.from_bytes(raw[:3], "big")):
            if raw[3] == RST:
                refused.append((int.from_bytes(raw[5:9], "big"), raw[9:13]))
            raw = raw[9 + length:]
    assert refused == [(stream, struct.pack(">I", 7)) for stream in range(21, 41, 2)], refused
    assert peer.stats()["handled"] == 10


@with_peer()
def a_client_that_never_reads_costs_bounded_memory_and_delays_nobody(peer):
    before = resident_kb(peer)
    client = Client(peer)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    encoder = client.h2.encoder
    client.send(frame(WINDOW, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
    client.socket.settimeout(2)
    try:
        for stream in range(1, 1601, 2):
            client.socket.sendall(frame(HEADERS, END_HEADERS, stream, encoder.encode(
                request_headers(path="/foliot.test.Peer/Produce"))) +
                frame(WINDOW, 0, stream, struct.pack(">I", 0x7fff0000 - 65535)) +
                frame(DATA, END_STREAM, stream, message(b"3000000")))
    except (socket.timeout, BrokenPipeError, ConnectionResetError):
        pass
    ask_within_a_second(peer)
    grown = resident_kb(peer) - before
    assert grown < 64 * 1024, f"{grown} kB for a client that does not read"
    client.socket.close()
    eventually(lambda: peer.stats()["open"] == 0)


@with_peer()
def many_clients_that_never_read_cost_bounded_memory_together(peer):
    """Each one within its own limits: together they must not take what the others need."""
    before = resident_kb(peer)
    clients = []
    for _ in range(40):
        client = Client(peer)
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.send(frame(WINDOW, 0, 0, struct.pack(">I", 0x7fff0000 - 65535)))
        for stream in range(1, 9, 2):
            client.send(frame(HEADERS, END_HEADERS, stream, client.h2.encoder.encode(
                request_headers(path="/foliot.test.Peer/Produce"))) +
                frame(WINDOW, 0, stream, struct.pack(">I", 0x7fff0000 - 65535)) +
                frame(DATA, END_STREAM, stream, message(b"3000000")))
        clients.append(client)
        ask_within_a_second(peer)
    grown = resident_kb(peer) - before
    assert grown < 160 * 1024, f"{grown} kB for clients that do not read"
    for client in clients:
        client.socket.close()
    eventually(lambda: peer.stats()["open"] == 0)


@with_peer()
def unfinished_requests_that_use_up_all_credit_do_not_hang(peer):
    client = Client(peer)
    streams = []
    for _ in range(64):
        stream = client.h2.get_next_available_stream_id()
        client.h2.send_headers(stream, request_headers())
        streams.append(stream)
    client.flush()
    sent = {stream: 0 for stream in streams}
    body = message(b"y" * 1000000)
    end = time.monotonic() + 40
    while any(count < len(body) for count in sent.values()):
        assert time.monotonic() < end, "stuck"
        moved = False
        for stream in streams:
            try:
                room = min(client.h2.local_flow_control_window(stream), 16384)
                chunk = body[sent[stream]:sent[stream] + room]
                if not chunk:
                    continue
                client.h2.send_data(stream, chunk, end_stream=sent[stream] + len(chunk) == len(body))
                sent[stream] += len(chunk)
                moved = True
            except (h2.exceptions.StreamClosedError, h2.exceptions.ProtocolError):
                sent[stream] = len(body)
        client.flush()
        client.pump(0.001 if moved else 0.2)
    answers = [client.answer(stream, 20)[0].get("grpc-status") for stream in streams]
    assert set(answers) <= {"0", "8"} and answers.count("0") >= 16, answers


with STALLS:
    main(sys.argv[2:])
