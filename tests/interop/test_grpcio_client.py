#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A grpcio client against our server: test_grpcio_client.py RPC_PEER [case …]"""
import sys
import threading
import time

import grpc

import stubs
from peer import Peer, case, eventually, main

PROGRAM = sys.argv[1]
stubs.generate()
SERVICE = "/foliot.test.Peer/"


def unary(channel, method, path=SERVICE):
    """Raw bytes in and out."""
    return channel.unary_unary(path + method)


def status_of(function):
    try:
        function()
    except grpc.RpcError as error:
        return error.code(), error.details(), error
    raise AssertionError("the call succeeded")


def with_peer(**options):
    """Run a case with a server and a channel of its own."""
    def wrap(function):
        def run():
            peer = Peer(PROGRAM, **options)
            try:
                with grpc.insecure_channel(peer.address,
                                           options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
                    function(peer, channel)
                peer.end()
            finally:
                peer.process.kill()
                peer.process.wait()
        run.__name__ = function.__name__
        return case(run)
    return wrap


@with_peer()
def empty_small_and_large_messages_come_back_unchanged(_peer, channel):
    for message in (b"", b"x", bytes(range(256)) * 10, b"L" * 4000000):
        assert unary(channel, "Echo")(message, timeout=10) == message


@with_peer()
def many_calls_at_once_are_all_answered(_peer, channel):
    calls = [unary(channel, "Echo").future(b"%d" % i, timeout=30) for i in range(3000)]
    assert [call.result() for call in calls] == [b"%d" % i for i in range(3000)]


@with_peer(streams_max=10)
def more_calls_than_streams_wait_their_turn(_peer, channel):
    calls = [unary(channel, "Wait").future(b"20", timeout=30) for i in range(100)]
    assert all(call.result() == b"20" for call in calls)


@with_peer()
def status_message_and_details_arrive(_peer, channel):
    text = "nein: 100 % \u00e4\u4e2d\U0001f600\n\t end"
    for number in range(1, 17):
        code, details, error = status_of(
            lambda n=number: unary(channel, "Fail")(bytes([n]) + text.encode(), timeout=5))
        assert code.value[0] == number and details == text, (code, details)
        trailers = dict(error.trailing_metadata())
        assert trailers["grpc-status-details-bin"] == b"\x08\x05\x12\x02hi", trailers
        assert trailers.get("grpc-retry-pushback-ms") == "250", trailers


@with_peer(request_bytes_max=1000, response_bytes_max=1000, header_bytes_max=2000,
           buffered_bytes_max=900)
def every_refusal_of_the_server_itself_says_why_to_programs_and_people(_peer, channel):
    def call(method="Echo", message=b"", path=SERVICE, **options):
        return lambda: unary(channel, method, path)(message, timeout=5, **options)
    for function, code, reason, words, retry_s in (
            (call("Nope"), "UNIMPLEMENTED", "METHOD_UNKNOWN", "no such service or method", 0),
            (call("X", path="/no.Service/"), "UNIMPLEMENTED", "METHOD_UNKNOWN", "case-sensitive", 0),
            (call(compression=grpc.Compression.Deflate, message=b"x" * 500), "UNIMPLEMENTED",
             "ENCODING_UNKNOWN", "identity,gzip", 0),
            (call(message=b"x" * 1001), "RESOURCE_EXHAUSTED", "REQUEST_BYTES_MAX",
             "request_bytes_max is 1000 bytes", 0),
            (call("Produce", b"1001"), "RESOURCE_EXHAUSTED", "RESPONSE_BYTES_MAX",
             "response_bytes_max", 0),
            (call(metadata=[("x-big", "v" * 3000)]), "RESOURCE_EXHAUSTED", "HEADER_BYTES_MAX",
             "header_bytes_max is 2000 bytes", 0),
            (call(message=b"x" * 950), "RESOURCE_EXHAUSTED", "BUFFERED_BYTES_MAX",
             "buffered_bytes_max", 0.5),
            (call("Check", b"\xff", "/grpc.health.v1.Health/"), "INVALID_ARGUMENT",
             "INVALID_ARGUMENT", "HealthCheckRequest", 0),
            (call("Check", b"\x0a\x01x", "/grpc.health.v1.Health/"), "NOT_FOUND", "NOT_FOUND",
             "no such service", 0)):
        got, details, error = status_of(function)
        assert got.name == code and words in details, (reason, got, details)
        assert stubs.details_of(error) == (reason, "", retry_s), stubs.details_of(error)
        trailers = dict(error.trailing_metadata())
        assert trailers.get("grpc-retry-pushback-ms") == ("500" if retry_s else None), trailers


@with_peer()
def a_long_message_is_cut_between_characters(_peer, channel):
    _, details, _ = status_of(
        lambda: unary(channel, "Fail")(bytes([9]) + ("\u00e4" * 1000).encode(), timeout=5))
    assert details == "\u00e4" * 512


@with_peer()
def metadata_and_deadline_arrive(_peer, channel):
    answer = unary(channel, "Describe")(
        b"", timeout=5, metadata=(("x-text", "some text"), ("x-raw-bin", b"\x00\x01\xff")))
    assert b"path=/foliot.test.Peer/Describe" in answer, answer
    assert b"deadline=future x-text=some text x-raw-bin=0001ff" in answer, answer
    assert b"deadline=none" in unary(channel, "Describe")(b"")


@with_peer()
def unknown_methods_and_services_are_unimplemented(_peer, channel):
    for path in (SERVICE + "Nope", "/no.such.Service/Echo", "/foliot.test.Peer/echo"):
        code, _, _ = status_of(lambda p=path: channel.unary_unary(p)(b"", timeout=5))
        assert code == grpc.StatusCode.UNIMPLEMENTED, code


@with_peer()
def a_deadline_ends_the_call_on_both_sides(peer, channel):
    assert unary(channel, "Echo")(b"on", timeout=10) == b"on"  # It is connected now.

    def is_begun():
        """A slow machine may use up the time before the call gets to the handler."""
        code, _, _ = status_of(lambda: unary(channel, "Wait")(b"60000", timeout=0.2))
        assert code == grpc.StatusCode.DEADLINE_EXCEEDED, code
        return peer.stats()["handled"] > 1

    def is_ended():
        stats = peer.stats()
        return stats["cancelled"] == stats["handled"] - 1
    eventually(is_begun, 20)
    eventually(is_ended)


@with_peer()
def a_cancelled_call_is_cancelled_at_the_handler(peer, channel):
    call = unary(channel, "Wait").future(b"60000", timeout=60)
    eventually(lambda: peer.stats()["handled"] == 1)
    call.cancel()
    eventually(lambda: peer.stats()["cancelled"] == 1)
    assert unary(channel, "Echo")(b"on", timeout=5) == b"on"


@with_peer()
def a_lost_connection_cancels_its_calls(peer, channel):
    call = unary(channel, "Wait").future(b"60000", timeout=60)  # Its end would cancel the call.
    eventually(lambda: peer.stats()["handled"] == 1)
    channel.close()
    eventually(lambda: peer.stats()["cancelled"] == 1)
    assert call.done()


@with_peer(request_bytes_max=1000)
def a_request_above_the_limit_is_resource_exhausted(_peer, channel):
    assert unary(channel, "Echo")(b"x" * 1000, timeout=5) == b"x" * 1000
    for size in (1001, 3000000):
        code, details, _ = status_of(lambda s=size: unary(channel, "Echo")(b"x" * s, timeout=5))
        assert code == grpc.StatusCode.RESOURCE_EXHAUSTED, (code, details)


@with_peer(response_bytes_max=1000)
def a_response_above_the_limit_is_resource_exhausted(_peer, channel):
    assert len(unary(channel, "Produce")(b"1000", timeout=5)) == 1000
    code, _, _ = status_of(lambda: unary(channel, "Produce")(b"1001", timeout=5))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED, code


@with_peer()
def requests_in_gzip_are_understood_and_others_refused(_peer, channel):
    for body in (b"", b"x", b"x" * 1000, bytes(range(256)) * 4000):
        assert unary(channel, "Echo")(body, timeout=5, compression=grpc.Compression.Gzip) == body
    code, details, _ = status_of(lambda: unary(channel, "Echo")(
        b"x" * 1000, timeout=5, compression=grpc.Compression.Deflate))
    assert code == grpc.StatusCode.UNIMPLEMENTED, (code, details)
    code, details, _ = status_of(lambda: unary(channel, "Echo")(
        b"x" * 5000000, timeout=5, compression=grpc.Compression.Gzip))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED, (code, details)


@with_peer(compress_bytes_min=100)
def packed_answers_are_read(_peer, channel):
    for body in (b"x" * 99, b"x" * 100, bytes(range(256)) * 4000):
        assert unary(channel, "Echo")(body, timeout=5) == body


@with_peer(buffered_bytes_max=1000000)
def memory_for_requests_is_bounded_in_all(_peer, channel):
    code, details, _ = status_of(lambda: unary(channel, "Echo")(b"x" * 2000000, timeout=5))
    assert code == grpc.StatusCode.RESOURCE_EXHAUSTED and "buffered_bytes_max" in details
    assert unary(channel, "Echo")(b"x" * 900000, timeout=5) == b"x" * 900000


@with_peer()
def big_requests_at_once_all_end(_peer, channel):
    calls = [unary(channel, "Echo").future(b"%d" % (i % 10) * 3000000, timeout=50) for i in range(20)]
    good = 0
    for call in calls:
        try:
            good += len(call.result()) == 3000000
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    assert good > 0


@with_peer()
def drain_finishes_open_calls_and_refuses_new_connections(peer, channel):
    calls = [unary(channel, "Wait").future(b"500", timeout=10) for _ in range(20)]
    eventually(lambda: peer.stats()["handled"] == 20)
    peer.drain()
    assert all(call.result() == b"500" for call in calls)
    peer.read_stats()
    assert peer.process.wait(timeout=10) == 0
    code, _, _ = status_of(lambda: unary(channel, "Echo")(b"", timeout=2))
    assert code == grpc.StatusCode.UNAVAILABLE, code
    peer.end = lambda: None


@with_peer(drain_ms=300)
def drain_cuts_off_what_outlives_the_grace(peer, channel):
    call = unary(channel, "Wait").future(b"60000", timeout=30)
    eventually(lambda: peer.stats()["handled"] == 1)
    started = time.monotonic()
    peer.drain()
    code, _, _ = status_of(call.result)
    assert code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED), code
    assert peer.process.wait(timeout=10) == 0
    assert 0.25 < time.monotonic() - started < 3
    peer.end = lambda: None


@with_peer(age_ms=300, age_grace_ms=5000)
def an_old_connection_is_replaced_without_losing_a_call(peer, channel):
    started = time.monotonic()
    while time.monotonic() < started + 2 or peer.stats()["accepted"] < 3:
        assert time.monotonic() < started + 20, "its connections are not replaced"
        calls = [unary(channel, "Echo").future(b"x", timeout=5) for _ in range(20)]
        assert all(call.result() == b"x" for call in calls)


def health(message):
    return b"\x0a" + bytes([len(message)]) + message if message else b""


@with_peer()
def health_is_told_for_the_server_and_each_service(peer, channel):
    check = unary(channel, "Check", "/grpc.health.v1.Health/")
    assert check(b"", timeout=5) == b"\x08\x01"
    assert check(health(b"foliot.test.Peer"), timeout=5) == b"\x08\x01"
    assert check(health(b"grpc.health.v1.Health"), timeout=5) == b"\x08\x01"
    code, _, _ = status_of(lambda: check(health(b"no.such.Service"), timeout=5))
    assert code == grpc.StatusCode.NOT_FOUND, code
    code, _, _ = status_of(lambda: check(b"\x0a\x50short", timeout=5))
    assert code == grpc.StatusCode.INVALID_ARGUMENT, code
    peer.stats()
    assert check(b"", timeout=5) == b"\x08\x02"


@with_peer()
def health_watch_tells_changes_and_ends_with_a_drain(peer, channel):
    watch = channel.unary_stream("/grpc.health.v1.Health/Watch")
    known, unknown = watch(b""), watch(health(b"no.such.Service"))
    assert next(known) == b"\x08\x01" and next(unknown) == b"\x08\x03"
    peer.stats()
    assert next(known) == b"\x08\x02"
    cancelled = watch(b"")
    assert next(cancelled) == b"\x08\x02"
    cancelled.cancel()
    started = time.monotonic()
    peer.drain()
    code, _, _ = status_of(lambda: next(known))
    assert code == grpc.StatusCode.UNAVAILABLE, code
    final = peer.read_stats()
    assert final["open"] == 0, final
    assert peer.process.wait(timeout=10) == 0
    assert time.monotonic() - started < 4
    peer.end = lambda: None


@with_peer()
def threads_with_a_channel_each_are_served_side_by_side(peer, _channel):
    errors = []

    def work():
        try:
            with grpc.insecure_channel(peer.address,
                                       options=[("grpc.use_local_subchannel_pool", 1)]) as own:
                for i in range(50):
                    assert unary(own, "Echo")(b"%d" % i, timeout=10) == b"%d" % i
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors, errors


main(sys.argv[2:])
