#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Reflection as foreign tools use it: grpcio with the official messages, protobuf's own descriptor
pool as the judge of what comes, and `buf curl`: test_reflection.py RPC_PEER [case …]"""
import atexit
import json
import queue
import shutil
import subprocess
import sys
import tempfile
import threading

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool

import node
from peer import Peer, case, eventually, main

PROGRAM = sys.argv[1]
PATHS = ["/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
         "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"]
SERVICES = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection",
            "grpc.reflection.v1alpha.ServerReflection"}


def official_messages():
    """The messages of grpc/reflection/v1, which v1alpha has with the same numbers."""
    scratch = tempfile.mkdtemp(prefix="foliot-reflection-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    subprocess.run(["protoc", "-I", "/usr/share/grpc-proto/grpc/reflection/v1",
                    f"--python_out={scratch}", "reflection.proto"], check=True)
    sys.path.insert(0, scratch)
    import reflection_pb2
    return reflection_pb2


pb = official_messages()


def with_peer(**options):
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


class Stream:
    """The bidirectional stream, one request at a time."""

    def __init__(self, channel, path=PATHS[0]):
        self.requests = queue.Queue()
        self.call = channel.stream_stream(
            path, request_serializer=pb.ServerReflectionRequest.SerializeToString,
            response_deserializer=pb.ServerReflectionResponse.FromString)(
                iter(self.requests.get, None), timeout=20)

    def ask(self, **fields):
        self.requests.put(pb.ServerReflectionRequest(**fields))
        return next(self.call)

    def end(self):
        self.requests.put(None)
        assert list(self.call) == []
        assert self.call.code() == grpc.StatusCode.OK, self.call.code()


def files_of(answer):
    """The files of an answer by name, the one asked for first."""
    files = [descriptor_pb2.FileDescriptorProto.FromString(one)
             for one in answer.file_descriptor_response.file_descriptor_proto]
    names = [one.name for one in files]
    assert len(names) == len(set(names)) > 0, names
    for one in files:  # everything that is imported is there
        assert set(one.dependency) <= set(names), (one.name, names)
    return files


def pool_of(files):
    """protobuf's own pool, which checks every reference. Dependencies go first."""
    pool = descriptor_pool.DescriptorPool()
    by_name = {one.name: one for one in files}
    done = set()

    def add(name):
        if name not in done:
            done.add(name)
            for imported in by_name[name].dependency:
                add(imported)
            pool.Add(by_name[name])
    for name in by_name:
        add(name)
    return pool


@with_peer()
def both_versions_list_what_is_served(_peer, channel):
    for path in PATHS:
        stream = Stream(channel, path)
        answer = stream.ask(list_services="*", host="here")
        assert {one.name for one in answer.list_services_response.service} == SERVICES, answer
        assert answer.valid_host == "here" and answer.original_request.list_services == "*"
        stream.end()


@with_peer()
def a_symbol_of_every_kind_is_found_with_all_imports(_peer, channel):
    stream = Stream(channel)
    task = "foliot/v1/task.proto"
    for symbol, name in {
            "foliot.v1.TaskService": task, "foliot.v1.TaskService.Create": task,
            "foliot.v1.Task": task, "foliot.v1.Task.id": task,
            "foliot.v1.Receiver": "foliot/v1/receiver.proto",
            "foliot.v1.ShardState": "foliot/v1/cluster.proto",
            "foliot.v1.SHARD_STATE_ACTIVE": "foliot/v1/cluster.proto",
            "google.protobuf.Timestamp": "google/protobuf/timestamp.proto",
            "google.rpc.BadRequest.FieldViolation": "google/rpc/error_details.proto",
            "grpc.health.v1.HealthCheckResponse.ServingStatus": "grpc/health/v1/health.proto",
            "grpc.health.v1.HealthCheckResponse.SERVING": "grpc/health/v1/health.proto",
            "grpc.reflection.v1.ServerReflectionRequest.message_request":
                "grpc/reflection/v1/reflection.proto"}.items():
        files = files_of(stream.ask(file_containing_symbol=symbol))
        assert files[0].name == name, (symbol, [one.name for one in files])
        assert files_of(stream.ask(file_by_filename=name)) == files
    files = files_of(stream.ask(file_by_filename=task))
    service = pool_of(files).FindServiceByName("foliot.v1.TaskService")
    assert service.FindMethodByName("Create").input_type.full_name == "foliot.v1.CreateTaskRequest"
    stream.end()


@with_peer()
def what_is_not_there_is_said_in_the_stream_which_goes_on(_peer, channel):
    stream = Stream(channel)
    extension = pb.ExtensionRequest(containing_type="foliot.v1.Task", extension_number=1)
    for fields in ({"file_by_filename": "foliot/v1/nope.proto"}, {"file_by_filename": ""},
                   {"file_containing_extension": extension},
                   {"all_extension_numbers_of_type": "foliot.v1.Task"},
                   *({"file_containing_symbol": symbol} for symbol in (
                       "", ".", "foliot", "foliot.v1", "foliot.v1.", "foliot.v1.Task.", "Task",
                       "foliot.v1.Task.id.x", "foliot.v1.Tas", "foliot.v1.task", "foliot.v1..Task",
                       ".foliot.v1.Task", "foliot.v1.TaskService.Nope", "foliot.internal.Peer",
                       "foliot.v1.ShardState.SHARD_STATE_ACTIVE", "x" * 3000))):
        answer = stream.ask(**fields)
        assert answer.error_response.error_code == 5, (fields, answer)
        assert answer.error_response.error_message, fields
        assert answer.original_request == pb.ServerReflectionRequest(**fields)
    assert stream.ask().error_response.error_code == 3
    assert files_of(stream.ask(file_containing_symbol="foliot.v1.Task"))
    stream.end()


@with_peer()
def a_thousand_requests_at_once_are_answered_in_order(_peer, channel):
    call = channel.stream_stream(PATHS[0], response_deserializer=pb.ServerReflectionResponse.FromString)
    requests = [pb.ServerReflectionRequest(host=str(i), list_services="").SerializeToString()
                for i in range(1000)]
    assert [one.valid_host for one in call(iter(requests), timeout=20)] == \
        [str(i) for i in range(1000)]


@with_peer(response_bytes_max=100000)
def a_client_that_asks_and_never_reads_is_refused(_peer, channel):
    all_sent = threading.Event()

    def requests():
        for _ in range(2000):
            yield pb.ServerReflectionRequest(
                file_by_filename="foliot/v1/task.proto").SerializeToString()
        all_sent.set()
    answers = channel.stream_stream(PATHS[0])(requests(), timeout=20)
    assert all_sent.wait(10), "its requests were not taken any more"
    try:
        list(answers)
        raise AssertionError("every answer was kept for it")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error


@with_peer()
def what_is_no_request_ends_the_stream(_peer, channel):
    call = channel.stream_stream(PATHS[0])
    for garbage in (b"\xff", b"\x0a\x05abc", b"\x0b", b"\x00", b"\x3a" * 5000):
        try:
            list(call(iter([garbage]), timeout=5))
            raise AssertionError(garbage)
        except grpc.RpcError as error:
            assert error.code() == grpc.StatusCode.INVALID_ARGUMENT, (garbage, error)
    assert list(call(iter([]), timeout=5)) == []


@with_peer()
def a_stream_ends_with_its_deadline_its_caller_or_the_server(peer, channel):
    call = channel.stream_stream(PATHS[0])
    forever = queue.Queue()
    late = call(iter(forever.get, None), timeout=0.2)
    try:
        next(late)
        raise AssertionError("an answer to nothing")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED, error
    dropped = call(iter(queue.Queue().get, None), timeout=20)
    dropped.cancel()
    left = call(iter(queue.Queue().get, None), timeout=20)
    eventually(lambda: peer.stats()["open"] == 1)
    peer.drain()
    try:
        next(left)
        raise AssertionError("an answer to nothing")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNAVAILABLE, error


@with_peer()
def buf_curl_lists_and_calls(peer, _channel):
    def curl(*arguments):
        return node.buf("curl", "--http2-prior-knowledge", "--protocol", "grpc", *arguments)
    url = f"http://{peer.address}"
    for version in ("grpc-v1", "grpc-v1alpha"):
        reflect = ("--reflect-protocol", version)
        listed = curl(*reflect, "--list-services", url)
        assert listed.returncode == 0 and set(listed.stdout.split()) == SERVICES, listed
        methods = curl(*reflect, "--list-methods", url)
        assert "grpc.health.v1.Health/Check" in methods.stdout, methods
        called = curl(*reflect, "--data", "{}", f"{url}/grpc.health.v1.Health/Check")
        assert called.returncode == 0 and json.loads(called.stdout) == {"status": "SERVING"}, called
        called = curl(*reflect, "--data", '{"service": "grpc.health.v1.Nope"}',
                      f"{url}/grpc.health.v1.Health/Check")
        assert '"not_found"' in called.stderr, called


if __name__ == "__main__":
    main(sys.argv[2:])
