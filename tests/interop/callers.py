# SPDX-License-Identifier: Apache-2.0
"""Foreign clients of the API behind one face: call(path, message) gives the response or raises
Refused. Each has its own code for HTTP, gRPC or Connect, and for messages."""
import atexit
import base64
import http.client
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading
import time

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from google.protobuf.descriptor import FieldDescriptor as Field

import node
import stubs

stubs.generate()
from foliot.v1 import cluster_pb2, queue_pb2, task_pb2  # noqa: E402
from google.rpc import error_details_pb2, status_pb2  # noqa: E402

LIMIT_S = 20
SOURCE = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
HERE = pathlib.Path(__file__).resolve().parent
SERVICES = [pb2.DESCRIPTOR.services_by_name[name] for pb2, name in (
    (cluster_pb2, "ClusterService"), (queue_pb2, "QueueService"), (task_pb2, "TaskService"))]
METHODS = {f"/{service.full_name}/{method.name}": method
           for service in SERVICES for method in service.methods}
CODES = {code.value[0]: code for code in grpc.StatusCode}
BY_NAME = {code.name.lower(): code for code in grpc.StatusCode} | {"canceled": grpc.StatusCode.CANCELLED}
factory = message_factory.MessageFactory(descriptor_pool.Default())


class Refused(Exception):
    """A call that failed: status, message, and what the details say."""

    def __init__(self, code, message, details):
        super().__init__(f"{code.name}: {message}")
        self.code = code
        self.message = message
        self.reason = self.field = ""
        for kind, value in details:
            if kind == "google.rpc.ErrorInfo":
                self.reason = error_details_pb2.ErrorInfo.FromString(value).reason
            elif kind == "google.rpc.BadRequest":
                self.field = error_details_pb2.BadRequest.FromString(value).field_violations[0].field


def details_of(status):
    """The details inside of a serialized google.rpc.Status."""
    return [(one.type_url.split("/")[-1], one.value)
            for one in status_pb2.Status.FromString(status).details]


def response_type(path):
    return factory.GetPrototype(METHODS[path].output_type)


class Grpcio:
    """python3-grpcio."""
    name = "grpcio"

    def __init__(self, place):
        self.channel = grpc.insecure_channel(place["address"])

    def call(self, path, message, timeout_s=LIMIT_S):
        call = self.channel.unary_unary(path, type(message).SerializeToString,
                                        response_type(path).FromString)
        try:
            return call(message, timeout=timeout_s)
        except grpc.RpcError as error:
            status = dict(error.trailing_metadata() or ()).get("grpc-status-details-bin", b"")
            raise Refused(error.code(), error.details(), details_of(status)) from error

    def close(self):
        self.channel.close()


class Http:
    """Python's own HTTP client on the admin port, in JSON."""
    name = "http.client"
    idle_s = 5  # The server's header "Keep-Alive: timeout=5": for longer it keeps no connection.

    def __init__(self, place):
        host, port = place["adminAddress"].split(":")
        self.connection = http.client.HTTPConnection(host, int(port), timeout=LIMIT_S)
        self.used = time.monotonic()

    def call(self, path, message, timeout_s=LIMIT_S):
        if time.monotonic() - self.used >= self.idle_s:
            self.connection.close()  # The request opens it again.
        self.connection.request("POST", path, json_format.MessageToJson(message), {
            "Content-Type": "application/json", "Connect-Timeout-Ms": str(int(timeout_s * 1000))})
        answer = json.loads(self.connection.getresponse().read())
        self.used = time.monotonic()
        if "code" in answer and "message" in answer:
            raise Refused(BY_NAME[answer["code"]], answer["message"], [
                (one["type"], base64.b64decode(one["value"] + "=="))
                for one in answer.get("details", ())])
        return json_format.ParseDict(answer, response_type(path)())

    def close(self):
        self.connection.close()


# ---- children of Node ----

class Child:
    """node_peer.mjs in some role; lines of JSON both ways, answers by their number."""

    def __init__(self, *arguments):
        node.install()
        self.process = subprocess.Popen(
            ["node", str(HERE / "node_peer.mjs"), *arguments], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True, cwd=HERE)
        self.number = 0
        self.first = json.loads(self.process.stdout.readline())

    def lines(self):
        for line in self.process.stdout:
            yield json.loads(line)

    def ask(self, **words):
        self.number += 1
        self.process.stdin.write(json.dumps({"number": self.number, **words}) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        assert answer["number"] == self.number, answer
        return answer

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(LIMIT_S) == 0, "node_peer.mjs has failed"


def to_loader(message):
    """A message in the form of @grpc/proto-loader: times as their two numbers, bytes in base64."""
    out = {}
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            out[field.name] = dict(value)
        elif field.label == Field.LABEL_REPEATED:
            out[field.name] = [loader_value(field, one) for one in value]
        else:
            out[field.name] = loader_value(field, value)
    return out


def loader_value(field, value):
    if field.type == Field.TYPE_MESSAGE:
        return to_loader(value)
    if field.type == Field.TYPE_BYTES:
        return base64.b64encode(value).decode()
    if field.type == Field.TYPE_ENUM:
        return field.enum_type.values_by_number[value].name
    return str(value) if field.cpp_type in (Field.CPPTYPE_INT64, Field.CPPTYPE_UINT64) else value


def from_loader(tree, message):
    """The way back."""
    for name, value in tree.items():
        field = message.DESCRIPTOR.fields_by_name[name]
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            getattr(message, name).update(value)
        elif field.label == Field.LABEL_REPEATED and field.type == Field.TYPE_MESSAGE:
            for one in value:
                from_loader(one, getattr(message, name).add())
        elif field.label == Field.LABEL_REPEATED:
            getattr(message, name).extend(scalar(field, one) for one in value)
        elif field.type == Field.TYPE_MESSAGE:
            getattr(message, name).SetInParent()
            from_loader(value, getattr(message, name))
        else:
            setattr(message, name, scalar(field, value))
    return message


def scalar(field, value):
    if field.type == Field.TYPE_BYTES:
        return base64.b64decode(value)
    if field.type == Field.TYPE_ENUM and isinstance(value, str):
        return field.enum_type.values_by_name[value].number
    return int(value) if field.cpp_type in (Field.CPPTYPE_INT64, Field.CPPTYPE_UINT64) else value


class GrpcJs:
    """@grpc/grpc-js with @grpc/proto-loader."""
    name = "grpc-js"

    def __init__(self, place):
        self.child = Child("client", "grpc-js", place["address"], str(SOURCE / "proto"))

    def call(self, path, message, timeout_s=LIMIT_S):
        answer = self.child.ask(path=path, request=to_loader(message), timeoutMs=timeout_s * 1000)
        if answer["code"] != 0:
            raise Refused(CODES[answer["code"]], answer["message"],
                          details_of(base64.b64decode(answer["status"])))
        return from_loader(answer["response"], response_type(path)())

    def close(self):
        self.child.close()


def descriptor_set():
    """protoc's descriptors of the API in a file."""
    scratch = tempfile.mkdtemp(prefix="foliot-set-")
    atexit.register(shutil.rmtree, scratch, ignore_errors=True)
    path = os.path.join(scratch, "set.binpb")
    files = [f"foliot/v1/{name}" for name in sorted(os.listdir(SOURCE / "proto/foliot/v1"))]
    subprocess.run(["protoc", "-I", str(SOURCE / "proto"), "--include_imports",
                    f"--descriptor_set_out={path}", *files], check=True)
    return path


class Connect:
    """@connectrpc/connect-node with protobuf-es."""

    def __init__(self, place, kind, address):
        self.name = kind
        self.child = Child("client", kind, place[address], descriptor_set())

    def call(self, path, message, timeout_s=LIMIT_S):
        answer = self.child.ask(path=path, request=json.loads(json_format.MessageToJson(message)),
                                timeoutMs=timeout_s * 1000)
        if answer["code"] != 0:
            raise Refused(CODES[answer["code"]], answer["message"], [
                (one["type"], base64.b64decode(one["value"])) for one in answer["details"]])
        return json_format.ParseDict(answer["response"], response_type(path)())

    def close(self):
        self.child.close()


def callers(place):
    """One of each; place says where the two ports are."""
    yield Grpcio(place)
    yield Http(place)
    yield GrpcJs(place)
    yield Connect(place, "connect", "adminAddress")
    yield Connect(place, "connect-binary", "adminAddress")
    yield Connect(place, "connect-grpc", "address")


class NodeTarget:
    """A grpc-js server as a target of both kinds; what came, in the order in which it came."""

    def __init__(self):
        self.child = Child("server", str(SOURCE / "proto"))
        self.address = self.child.first["address"]
        self.came = []
        self.lock = threading.Condition()
        threading.Thread(target=self.listen, daemon=True).start()

    def listen(self):
        for line in self.child.lines():
            with self.lock:
                self.came.append(line)
                self.lock.notify_all()

    def wait(self, test, what):
        """Wait until test(came) is true; its result."""
        with self.lock:
            assert self.lock.wait_for(lambda: test(self.came), LIMIT_S), f"in vain for {what}"
            return test(self.came)

    def attempts(self, task_id):
        return [attempt for line in self.came if line["kind"] == "Deliver"
                for attempt in line["attempts"] if attempt["task_id"] == task_id]

    def calls(self, task_id):
        return [line for line in self.came
                if line.get("metadata", {}).get("foliot-task-id") == task_id]

    def close(self):
        self.child.close()
