#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Our client against servers of grpcio and grpc-js, and against servers that misbehave, frame by frame:
test_servers.py RPC_ASK [case …]"""
import concurrent.futures
import gzip
import socket
import struct
import subprocess
import sys
import threading
import time

import grpc
import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings
import hpack

import node
from peer import case, main

PROGRAM = sys.argv[1]
SETTINGS_FRAME, PING_FRAME, GOAWAY_FRAME = 4, 6, 7


def ask(port, path="/foliot.test.Peer/Echo", payload="hello", host="127.0.0.1", **options):
    """Run rpc_ask; one dictionary for each call, in the order of their ends."""
    done = subprocess.run(
        [PROGRAM, f"{host}:{port}", path, payload] +
        [f"{name}={value}" for name, value in options.items()],
        capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, (done.returncode, done.stdout, done.stderr)
    calls = []
    for line in done.stdout.splitlines():
        pairs = dict(pair.split("=", 1) for pair in line.split(" "))
        calls.append({name: int(value) if value.lstrip("-").isdigit() else value
                      for name, value in pairs.items()})
    return calls


# ---- grpcio as the server ----

class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        method = details.method.rsplit("/", 1)[1]
        if method in ("Echo", "Fail", "Late", "Describe"):
            return grpc.unary_unary_rpc_method_handler(getattr(self, method))
        return None

    def Echo(self, request, _context):
        return request

    def Fail(self, _request, context):
        context.set_trailing_metadata((("grpc-status-details-bin", b"\x08\x09"),
                                       ("grpc-retry-pushback-ms", "120")))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "nein \u00e4 %\n")

    def Late(self, request, _context):
        time.sleep(2)
        return request

    def Describe(self, _request, context):
        metadata = dict(context.invocation_metadata())
        return (f"{metadata['x-text']}/{metadata['x-raw-bin'].hex()}/{metadata['user-agent']}/"
                f"{0 < context.time_remaining() <= 5}").encode()


class GrpcServer:
    def __init__(self, **options):
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(16), handlers=[Handler()],
                                  options=list(options.items()))
        self.port = self.server.add_insecure_port("127.0.0.1:0")
        self.server.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.stop(None).wait()


@case
def grpcio_answers_small_large_and_many_calls():
    with GrpcServer() as server:
        assert ask(server.port)[0]["payload"] == "hello"
        assert ask(server.port, payload="@0")[0]["len"] == 0
        assert ask(server.port, payload="@3000000")[0]["len"] == 3000000
        calls = ask(server.port, count=2000, deadline_ms=20000)
        assert len(calls) == 2000 and all(call["status"] == 0 for call in calls)
        assert ask(server.port, host="localhost")[0]["status"] == 0


@case
def grpcio_reads_our_metadata_and_deadline():
    with GrpcServer() as server:
        call = ask(server.port, path="/foliot.test.Peer/Describe")[0]
        assert call["payload"].startswith("some\\x20text/0001ff/grpc-c-foliot/"), call
        assert call["payload"].endswith("/True"), call


@case
def packed_answers_of_grpcio_are_understood():
    with GrpcServer(**{"grpc.default_compression_algorithm": 2}) as server:  # gzip
        for size in (0, 5, 5000, 3000000):
            call = ask(server.port, payload=f"@{size}")[0]
            assert call["status"] == 0 and call["len"] == size, call


@case
def packed_answers_have_a_defined_status():
    hello = gzip.compress(b"hello")
    head = [(":status", "200"), ("content-type", "application/grpc")]
    for encoding, body, wanted in (
            ("gzip", message(hello, flag=1), 0), ("gzip", message(b"hello"), 0),
            ("gzip", message(hello[:-1], flag=1), 13), ("identity", message(hello, flag=1), 13),
            ("br", message(hello, flag=1), 13), ("br", message(b"hello"), 0),
            (None, message(hello, flag=1), 13),
            ("gzip", message(gzip.compress(b"\0" * (12 << 20)), flag=1), 8)):
        fields = head + ([("grpc-encoding", encoding)] if encoding else [])
        call = one_call(answer_with(fields, [("grpc-status", "0")], body=body))
        assert call["status"] == wanted, (encoding, body[:10], call)


@case
def failures_of_grpcio_are_understood():
    with GrpcServer() as server:
        call = ask(server.port, path="/foliot.test.Peer/Fail")[0]
        assert call["status"] == 9 and call["message"] == "nein\\x20\\xc3\\xa4\\x20%\\x0a", call
        assert call["details"] == "\\x08\\x09" and call["pushback"] == 120, call
        assert call["from_peer"] == 1 and call["unprocessed"] == 0
        assert ask(server.port, path="/foliot.test.Peer/Nope")[0]["status"] == 12
        call = ask(server.port, path="/foliot.test.Peer/Late", deadline_ms=200)[0]
        assert call["status"] == 4, call  # Our timer or the server's, whichever is first.
        assert ask(server.port, payload="@100000", response_bytes_max=1000)[0]["status"] == 8


@case
def the_stream_limit_of_grpcio_is_respected():
    with GrpcServer(**{"grpc.max_concurrent_streams": 3}) as server:
        calls = ask(server.port, count=200, deadline_ms=20000)
        assert all(call["status"] == 0 for call in calls), calls


@case
def aged_connections_of_grpcio_are_replaced_without_a_lost_call():
    with GrpcServer(**{"grpc.max_connection_age_ms": 100,
                       "grpc.max_connection_age_grace_ms": 3000}) as server:
        calls = ask(server.port, count=3, repeat=3000, deadline_ms=20000)
        assert all(call["status"] == 0 for call in calls), \
            [call for call in calls if call["status"] != 0][:3]


# ---- grpc-js as the server ----

class NodeServer:
    """node_cases.mjs with the same four methods."""

    def __enter__(self):
        folder = node.install().parent
        self.process = subprocess.Popen(["node", str(folder / "node_cases.mjs"), "server"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(20)


@case
def grpc_js_answers_small_large_and_many_calls():
    with NodeServer() as server:
        for size in (0, 5, 3000000):
            call = ask(server.port, payload=f"@{size}")[0]
            assert call["status"] == 0 and call["len"] == size, call
        calls = ask(server.port, count=2000, deadline_ms=20000)  # At most 100 at a time.
        assert len(calls) == 2000 and all(call["status"] == 0 for call in calls)
        call = ask(server.port, path="/foliot.test.Peer/Describe")[0]
        assert call["payload"].startswith("some\\x20text/0001ff/grpc-c-foliot/"), call
        assert call["payload"].endswith("/true"), call


@case
def failures_of_grpc_js_are_understood():
    with NodeServer() as server:
        call = ask(server.port, path="/foliot.test.Peer/Fail")[0]
        assert call["status"] == 9 and call["message"] == "nein\\x20\\xc3\\xa4\\x20%\\x0a", call
        assert call["details"] == "\\x08\\x09" and call["pushback"] == 120, call
        assert ask(server.port, path="/foliot.test.Peer/Nope")[0]["status"] == 12
        call = ask(server.port, path="/foliot.test.Peer/Late", deadline_ms=200)[0]
        assert call["status"] == 4, call
        assert ask(server.port, payload="@100000", response_bytes_max=1000)[0]["status"] == 8


@case
def a_port_that_nobody_listens_on_is_unavailable_and_unprocessed():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        call = ask(unused.getsockname()[1])[0]
    assert call["status"] == 14 and call["unprocessed"] == 1 and call["was_sent"] == 0, call


@case
def unknown_names_are_unavailable_and_unprocessed():
    call = ask(80, host="no-such-host.invalid", deadline_ms=9000)[0]
    assert call["status"] == 14 and call["unprocessed"] == 1, call


# ---- servers by hand ----

def frame(kind, flags=0, stream=0, payload=b""):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + \
        struct.pack(">I", stream) + payload


def message(body, flag=0, length=None):
    return bytes([flag]) + struct.pack(">I", len(body) if length is None else length) + body


OK_HEAD = [(":status", "200"), ("content-type", "application/grpc")]
OK_END = [("grpc-status", "0")]


class RawServer:
    """Accepts connections and lets `behave(server, connection, request stream)` answer each request.

    behave gets the h2 connection; what it queues is sent. greet is sent instead of our preface."""

    def __init__(self, behave=None, greet=None, settings=None):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.behave = behave
        self.greet = greet
        self.settings = settings
        self.requests = 0
        self.accepted = 0
        self.pings = 0
        self.resets = []
        self.socket = None
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        while True:
            try:
                one, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            threading.Thread(target=self.serve, args=(one,), daemon=True).start()

    def serve(self, one):
        self.socket = one
        if self.greet is not None:
            one.sendall(self.greet)
            while one.recv(65536):
                pass
            return
        connection = h2.connection.H2Connection(h2.config.H2Configuration(
            client_side=False, validate_outbound_headers=False, normalize_outbound_headers=False))
        if self.settings is not None:
            connection.local_settings = h2.settings.Settings(client=False,
                                                             initial_values=self.settings)
        connection.initiate_connection()
        one.sendall(connection.data_to_send())
        try:
            while got := one.recv(65536):
                for event in connection.receive_data(got):
                    self.take(one, connection, event)
                one.sendall(connection.data_to_send())
        except (OSError, h2.exceptions.ProtocolError):
            pass
        one.close()

    def take(self, one, connection, event):
        if isinstance(event, h2.events.DataReceived):
            connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
        elif isinstance(event, h2.events.StreamReset):
            self.resets.append(int(event.error_code))
        elif isinstance(event, h2.events.PingReceived):
            self.pings += 1
        elif isinstance(event, h2.events.StreamEnded):
            self.requests += 1
            raw = self.behave(connection, event.stream_id)
            if raw:
                one.sendall(connection.data_to_send() + raw)
            if raw == b"":
                raise OSError("hang up")


def answer_with(*blocks, body=None):
    """A behaviour: header blocks, the body after the first one, the last one ends the stream."""
    def behave(connection, stream):
        for i, block in enumerate(blocks):
            last = i == len(blocks) - 1
            connection.send_headers(stream, block, end_stream=last and (body is None or i > 0))
            if i == 0 and body is not None:
                connection.send_data(stream, body, end_stream=last)
    return behave


def one_call(behave, **options):
    with RawServer(behave) as server:
        return ask(server.port, **options)[0]


@case
def every_kind_of_answer_has_a_defined_status():
    big = [(f"x-{i}", "v" * 1000) for i in range(17)]
    table = [
        (answer_with(OK_HEAD, OK_END, body=message(b"hi")), 0),
        (answer_with(OK_HEAD + [("grpc-status", "5"), ("grpc-message", "n%C3%A4%zz%")]), 5),
        (answer_with(OK_HEAD + [("grpc-status", "0")]), 12),
        (answer_with(OK_HEAD, OK_END, body=message(b"a") + message(b"b")), 12),
        (answer_with(OK_HEAD, OK_END, body=message(b"abc")[:-1]), 13),
        (answer_with(OK_HEAD, OK_END, body=message(b"abc", flag=1)), 13),
        (answer_with(OK_HEAD, OK_END, body=message(b"", length=0xffffffff)), 8),
        (answer_with(OK_HEAD, [("grpc-status", "7")], body=message(b"abc")), 7),
        (answer_with(OK_HEAD, [("grpc-status", "77")], body=message(b"abc")), 2),
        (answer_with(OK_HEAD, [("grpc-status", "x")], body=message(b"abc")), 2),
        (answer_with(OK_HEAD, [("x-other", "1")], body=message(b"abc")), 2),
        (answer_with(OK_HEAD, body=message(b"abc")), 2),
        (answer_with([(":status", "400")]), 13),
        (answer_with([(":status", "401")]), 16),
        (answer_with([(":status", "403")]), 7),
        (answer_with([(":status", "404")], body=b"<html>"), 12),
        (answer_with([(":status", "429")]), 14),
        (answer_with([(":status", "503"), ("content-type", "text/html")], body=b"<html>"), 14),
        (answer_with([(":status", "500")]), 2),
        (answer_with([(":status", "200"), ("content-type", "text/html")], body=b"<html>"), 2),
        (answer_with(OK_HEAD + big, OK_END, body=message(b"hi")), 8),
    ]
    for behave, wanted in table:
        call = one_call(behave)
        assert call["status"] == wanted, (call, wanted)
        assert call["unprocessed"] == 0 and call["was_sent"] == 1, call
    assert one_call(table[1][0])["message"] == "n\\xc3\\xa4%zz%"


@case
def informational_headers_before_the_answer_are_skipped():
    def behave(connection, stream):
        connection.send_headers(stream, [(":status", "103"), ("link", "x")])
        answer_with(OK_HEAD, OK_END, body=message(b"hi"))(connection, stream)
    assert one_call(behave)["payload"] == "hi"


def reset_with(code, head=False, body=False):
    def behave(connection, stream):
        if head:
            connection.send_headers(stream, OK_HEAD)
        if body:
            connection.send_data(stream, message(b"part", length=100))
        connection.reset_stream(stream, code)
    return behave


@case
def resets_have_a_defined_status_and_only_refused_is_unprocessed():
    for code, wanted in ((7, 14), (8, 1), (11, 8), (2, 13), (1, 13), (0, 13)):
        call = one_call(reset_with(code))
        assert call["status"] == wanted, (code, call)
        assert call["unprocessed"] == (code == 7) and call["from_peer"] == 0, (code, call)
    for head, body in ((True, False), (True, True)):
        assert one_call(reset_with(2, head, body))["status"] == 13


@case
def a_connection_that_breaks_leaves_the_outcome_unknown():
    call = one_call(lambda connection, stream: b"")
    assert call["status"] == 14, call
    assert call["unprocessed"] == 0 and call["was_sent"] == 1 and call["from_peer"] == 0, call


@case
def a_server_that_calls_our_pings_too_many_gets_half_as_many():
    pings = []

    class Server(RawServer):
        def take(self, one, connection, event):
            if isinstance(event, h2.events.PingReceived):
                pings.append((self.accepted, time.monotonic()))
            super().take(one, connection, event)

    starts = []

    def behave(connection, stream):
        if server.requests == 1:
            connection.send_headers(stream, OK_HEAD + [("grpc-status", "5")], end_stream=True)
        elif server.requests == 2:
            return frame(GOAWAY_FRAME, 0, 0, struct.pack(">II", 1, 11) + b"too_many_pings")
        else:
            starts.append(time.monotonic())
            threading.Timer(3.5, lambda: answer(connection, stream)).start()
        return None

    def answer(connection, stream):
        connection.send_headers(stream, OK_HEAD + [("grpc-status", "5")], end_stream=True)
        server.socket.sendall(connection.data_to_send())

    with Server(behave) as server:
        calls = ask(server.port, repeat=3, keepalive_ms=1000, deadline_ms=10000)
    assert [call["status"] for call in calls] == [5, 14, 5], calls
    first = min(at for accepted, at in pings if accepted == 2)
    assert first - starts[0] > 1.5, "it pinged as if nothing had been said"


@case
def calls_above_the_last_stream_of_a_goaway_are_unprocessed():
    seen = []

    def behave(connection, stream):
        seen.append(stream)
        if len(seen) < 4:
            return None
        answer = hpack.Encoder()
        return (frame(GOAWAY_FRAME, 0, 0, struct.pack(">II", seen[0], 0)) +
                frame(1, 5, seen[0], answer.encode(OK_HEAD + [("grpc-status", "5")])))

    with RawServer(behave) as server:
        calls = ask(server.port, count=4)
    assert sorted((call["status"], call["unprocessed"]) for call in calls) == \
        [(5, 0), (14, 1), (14, 1), (14, 1)], calls


@case
def a_graceful_goaway_moves_new_calls_to_a_new_connection():
    def behave(connection, stream):
        answer_with(OK_HEAD, OK_END, body=message(b"hi"))(connection, stream)
        return frame(GOAWAY_FRAME, 0, 0, struct.pack(">II", 0x7fffffff, 0))

    with RawServer(behave) as server:
        calls = ask(server.port, repeat=5)
        assert [call["status"] for call in calls] == [0] * 5, calls
        assert server.accepted == 5, server.accepted


@case
def no_more_streams_than_allowed_are_opened():
    with RawServer(lambda connection, stream: None, settings={3: 2}) as server:
        calls = ask(server.port, count=5, deadline_ms=3000)
        assert all(call["status"] == 4 for call in calls), calls
        assert server.requests == 2, server.requests
        assert sum(call["unprocessed"] for call in calls) == 3, calls


@case
def a_server_without_streams_gets_no_call():
    with RawServer(lambda connection, stream: None, settings={3: 0}) as server:
        call = ask(server.port, deadline_ms=500)[0]
        assert call["status"] == 4 and call["unprocessed"] == 1, call
        assert server.requests == 0


@case
def a_deadline_resets_the_call_with_cancel():
    with RawServer(lambda connection, stream: None) as server:
        call = ask(server.port, deadline_ms=1500)[0]
        assert call["status"] == 4 and call["unprocessed"] == 0, call
        deadline = time.monotonic() + 20
        while not server.resets and time.monotonic() < deadline:
            time.sleep(0.01)
        assert server.resets == [8], server.resets


@case
def a_server_that_never_greets_or_talks_nonsense_gets_no_call():
    for greet in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\x00" * 1000, b"SSH-2.0-x\r\n",
                  frame(SETTINGS_FRAME, 0, 1), frame(0, 0, 1, b"data before settings")):
        with RawServer(greet=greet) as server:
            call = ask(server.port, deadline_ms=500)[0]
            assert call["status"] in (4, 14) and call["unprocessed"] == 1, (greet, call)
            assert server.requests == 0


@case
def a_dead_connection_is_found_by_keepalive_while_calls_are_open():
    def behave(_connection, _stream):
        time.sleep(3)  # The thread neither reads nor answers: no PING is acknowledged.

    with RawServer(behave) as server:
        started = time.monotonic()
        call = ask(server.port, keepalive_ms=300, deadline_ms=10000)[0]
        assert call["status"] == 14 and call["unprocessed"] == 0, call
        assert 0.5 < time.monotonic() - started < 2.5


@case
def a_server_that_answers_early_need_not_read_the_request():
    def behave_early(one, connection, event):
        if isinstance(event, h2.events.RequestReceived):
            connection.send_headers(event.stream_id, OK_HEAD + [("grpc-status", "8")],
                                    end_stream=True)
            connection.reset_stream(event.stream_id, 0)

    with RawServer() as server:
        server.take = behave_early
        call = ask(server.port, payload="@2000000", repeat=3)
        assert [one["status"] for one in call] == [8] * 3, call


@case
def large_requests_wait_for_credit():
    with RawServer(answer_with(OK_HEAD, OK_END, body=message(b"hi"))) as server:
        calls = ask(server.port, payload="@1000000", count=10, deadline_ms=20000)
        assert all(call["status"] == 0 for call in calls), calls


main(sys.argv[2:])
