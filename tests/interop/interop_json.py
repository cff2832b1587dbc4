#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The API in JSON on the admin port of a real broker, asked by Python's own HTTP client, by hand and
by curl's rules: the answers are those that grpcio gets. Ends with "N passed, N failed"."""
import base64
import concurrent.futures
import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory

ROOT = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402
import node  # noqa: E402
import peer  # noqa: E402
import stubs  # noqa: E402

stubs.generate()
from foliot.v1 import cluster_pb2, queue_pb2, task_pb2, task_pb2_grpc  # noqa: E402
from google.rpc import error_details_pb2  # noqa: E402

SERVICES = [pb2.DESCRIPTOR.services_by_name[name] for pb2, name in (
    (cluster_pb2, "ClusterService"), (queue_pb2, "QueueService"), (task_pb2, "TaskService"))]
CREATE = "/foliot.v1.TaskService/Create"
TOPOLOGY = "/foliot.v1.ClusterService/GetTopology"
COUNT_MAX = 64  # ADMIN_POST_COUNT_MAX
BYTES_MAX = 6 << 20  # ADMIN_POST_BYTES_MAX
case = peer.case


class World:
    """One broker, a queue that never runs anything, and both doors to it."""
    cluster = None
    broker = None
    stub = None
    channel = None


def connect(broker=None, timeout=30):
    host, port = (broker or World.broker).admin.split(":")
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def post(path, body, headers=None, method="POST", broker=None):
    """Status, headers and decoded body of one call."""
    connection = connect(broker)
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
    answer = connection.getresponse()
    raw = answer.read()
    connection.close()
    is_json = answer.getheader("Content-Type") == "application/json"
    return answer.status, dict(answer.getheaders()), json.loads(raw) if is_json else raw


def refused(status, code, path, body, words="", **options):
    """The call is refused with this HTTP status and code; the answer."""
    got, headers, answer = post(path, body, **options)
    assert (got, answer["code"]) == (status, code), (got, answer)
    assert words in answer["message"], answer
    return headers, answer


def detail(answer, kind):
    """The detail of a kind, from its bytes, which say the same as its JSON."""
    for one in answer["details"]:
        if one["type"] == f"google.rpc.{kind}":
            message = getattr(error_details_pb2, kind).FromString(
                base64.b64decode(one["value"] + "=="))
            assert json_format.ParseDict(one["debug"], type(message)()) == message, one
            return message
    raise AssertionError(f"no {kind} in {answer}")


# ---- methods ----

@case
def a_task_is_made_read_and_cancelled():
    status, headers, made = post(CREATE, {
        "queue": "json", "delay": "3600s", "payload": "AAH/", "key": "\u00e4", "keyPolicy":
        "KEY_POLICY_REJECT"})
    assert status == 200 and made["created"] is True and len(made["id"]) == 20, made
    assert headers["Cache-Control"] == "no-store" and "X-Content-Type-Options" in headers, headers
    view = World.stub.Get(task_pb2.GetTaskRequest(id=made["id"]), timeout=10).task
    assert view.payload == b"\x00\x01\xff" and view.key == "\u00e4", view
    status, _, shown = post("/foliot.v1.TaskService/Get", {"queue": "json", "key": "\u00e4"})
    assert status == 200
    assert shown == json_format.MessageToDict(task_pb2.GetTaskResponse(task=view)), shown
    assert shown["task"]["state"] == "TASK_STATE_WAITING", shown
    status, _, gone = post("/foliot.v1.TaskService/Cancel", {"id": made["id"]})
    assert (status, gone["outcome"]) == (200, "CANCEL_OUTCOME_CANCELLED"), gone


@case
def every_method_is_there_and_answers_as_over_grpc():
    factory = message_factory.MessageFactory(descriptor_pool.Default())
    count = 0
    for service in SERVICES:
        for method in service.methods:
            path = f"/{service.full_name}/{method.name}"
            call = World.channel.unary_unary(path, response_deserializer=factory.GetPrototype(
                method.output_type).FromString)
            status, _, answer = post(path, {})
            try:
                wanted = json_format.MessageToDict(call(b"", timeout=10))
                assert status == 200 and set(answer) == set(wanted), (path, answer, wanted)
            except grpc.RpcError as error:
                assert answer["code"] == error.code().name.lower(), (path, answer, error)
                assert answer["message"] == error.details(), (path, answer)
            count += 1
    assert count > 10, count


@case
def binary_messages_are_taken_too():
    request = task_pb2.CreateTaskRequest(queue="json", key="binary")
    request.delay.seconds = 3600
    status, headers, raw = post(CREATE, request.SerializeToString(),
                                {"Content-Type": "application/proto"})
    assert status == 200 and headers["Content-Type"] == "application/proto", headers
    assert task_pb2.CreateTaskResponse.FromString(raw).created
    status, _, answer = post(CREATE, b"\xff\xff", {"Content-Type": "application/proto"})
    assert (status, answer["code"]) == (400, "invalid_argument"), answer


@case
def a_batch_of_ten_thousand_has_its_results():
    items = [{"queue": "json", "delay": "3600s", "key": f"batch-{i}"} for i in range(10000)]
    items[17]["key"] = "k" * 256
    status, _, answer = post("/foliot.v1.TaskService/BatchCreate", {"items": items})
    assert status == 200 and len(answer["results"]) == 10000
    assert answer["results"][17]["error"]["reason"] == "KEY_TOO_LONG", answer["results"][17]
    assert all(result["created"] for i, result in enumerate(answer["results"]) if i != 17)


@case
def one_connection_carries_many_calls():
    connection = connect()
    for _ in range(200):
        connection.request("POST", TOPOLOGY, b"{}", {"Content-Type": "application/json"})
        answer = connection.getresponse()
        assert answer.status == 200 and json.loads(answer.read())["shardCount"] == 8
    connection.close()


@case
def many_clients_at_once_get_their_own_answers():
    def one(number):
        status, _, answer = post(CREATE, {"queue": "json", "delay": "3600s",
                                          "key": f"many-{number}"})
        assert status == 200, answer
        status, _, view = post("/foliot.v1.TaskService/Get", {"id": answer["id"]})
        assert view["task"]["key"] == f"many-{number}", view
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        list(pool.map(one, range(300)))


# ---- other people's programs ----

@case
def curl_calls_it_as_the_page_says():
    url = f"http://{World.broker.admin}{CREATE}"
    page = (ROOT / "docs/JSON.md").read_text()
    assert '-H \'Content-Type: application/json\' http://127.0.0.1:7401' + CREATE in page

    def curl(data, *options):
        done = subprocess.run(["curl", "-sSd", data, "-H", "Content-Type: application/json",
                               *options, url], capture_output=True, text=True, check=True, timeout=30)
        return json.loads(done.stdout)
    assert curl('{"queue":"json","delay":"7200s","key":"curl"}')["created"] is True
    answer = curl('{"queue":"nothing"}')
    assert answer["code"] == "not_found" and "QueueService/Create" in answer["message"], answer
    with tempfile.NamedTemporaryFile() as body:  # Large enough that curl asks before it sends.
        body.write(b'{"queue":"json","delay":"7200s"' + b" " * 3000000 + b"}")
        body.flush()
        assert curl(f"@{body.name}", "-H", "Expect: 100-continue")["created"] is True


@case
def buf_curl_speaks_connect_to_it():
    done = node.buf("curl", "--schema", str(ROOT / "proto"), "--protocol", "connect", "--data",
                    '{"queue": "json", "delay": "3600s", "key": "buf"}',
                    f"http://{World.broker.admin}{CREATE}")
    assert done.returncode == 0 and json.loads(done.stdout)["created"] is True, done.stderr
    done = node.buf("curl", "--schema", str(ROOT / "proto"), "--protocol", "connect", "--data",
                    '{"queue": "nothing"}', f"http://{World.broker.admin}{CREATE}")
    assert done.returncode != 0 and '"not_found"' in done.stderr, done.stderr


# ---- errors ----

@case
def errors_have_code_reason_field_and_delay():
    _, answer = refused(400, "invalid_argument", CREATE, {"queue": "json", "key": "k" * 256})
    assert detail(answer, "ErrorInfo").reason == "KEY_TOO_LONG"
    assert detail(answer, "BadRequest").field_violations[0].field == "key"
    _, answer = refused(404, "not_found", CREATE, {"queue": "nothing"})
    assert detail(answer, "ErrorInfo").reason == "QUEUE_NOT_FOUND"
    post(CREATE, {"queue": "json", "delay": "3600s", "key": "held"})
    _, answer = refused(409, "already_exists", CREATE,
                        {"queue": "json", "key": "held", "keyPolicy": "KEY_POLICY_REJECT"})
    assert detail(answer, "ErrorInfo").reason == "KEY_EXISTS"


@case
def texts_that_are_no_message_are_told_apart():
    for body, reason, field in (
            (b"{", "JSON_MALFORMED", ""), (b"[]", "JSON_MALFORMED", ""),
            (b"\xff", "JSON_MALFORMED", ""), ({"queue_": "x"}, "FIELD_UNKNOWN", "queue_"),
            ({"delay": "1 hour"}, "VALUE_INVALID", "delay"),
            ({"delay": "1s", "dueTime": "2030-01-01T00:00:00Z"}, "FIELD_TWICE", "due_time"),
            ({"keyPolicy": "REPLACE"}, "ENUM_UNKNOWN", "key_policy"),
            ({"payload": "%"}, "VALUE_INVALID", "payload")):
        _, answer = refused(400, "invalid_argument", CREATE, body)
        assert detail(answer, "ErrorInfo").reason == reason, answer
        if field:
            assert detail(answer, "BadRequest").field_violations[0].field == field, answer
    _, answer = refused(400, "invalid_argument", CREATE, {"queue_": "x"})
    assert "namespace, queue," in answer["message"], answer  # It says what there is.
    refused(429, "resource_exhausted", CREATE, b"[" * 100000, "12")
    refused(429, "resource_exhausted", CREATE, b'{"tags":{' + b",".join(
        b'"%d":"x"' % i for i in range(200001)) + b"}}", "200000")


@case
def requests_that_are_none_are_refused():
    headers, _ = refused(415, "invalid_argument", CREATE, b"x", "application/json",
                         headers={"Content-Type": "text/plain"})
    assert headers["Accept-Post"] == "application/json, application/proto", headers
    status, _, _ = post(CREATE, None, method="GET")
    assert status == 404
    for path in ("/", "/foliot.v1.TaskService/create", "/foliot.v1.TaskService",
                 "/foliot.internal.Peer/Report", "/grpc.health.v1.Health/Check"):
        refused(501, "unimplemented", path, {}, "/foliot.v1.TaskService/Create")
    refused(501, "unimplemented", CREATE, {}, "Content-Encoding",
            headers={"Content-Encoding": "gzip"})
    refused(400, "invalid_argument", CREATE, {}, "Connect-Protocol-Version",
            headers={"Connect-Protocol-Version": "2"})
    for bad in ("", "x", "-1", "1.5", "12345678901"):
        refused(400, "invalid_argument", CREATE, {}, "Connect-Timeout-Ms",
                headers={"Connect-Timeout-Ms": bad})
    for good in ({"Connect-Protocol-Version": "1"}, {"Connect-Timeout-Ms": "9999999999"},
                 {"Content-Type": "application/json; charset=utf-8"}):
        status, _, answer = post(TOPOLOGY, b"", headers=good)
        assert status == 200 and answer["slotCount"] == 4096, answer


@case
def a_deadline_is_kept():
    refused(504, "deadline_exceeded", TOPOLOGY, {}, headers={"Connect-Timeout-Ms": "0"})
    World.cluster.server("stop-pg")
    try:
        start = time.monotonic()
        # The write has been sent: only that is certain.
        _, answer = refused(500, "unknown", CREATE, {"queue": "json", "delay": "3600s"},
                            headers={"Connect-Timeout-Ms": "1000"})
        assert detail(answer, "ErrorInfo").reason == "OUTCOME_UNKNOWN"
        assert 0.95 < time.monotonic() - start < 4
    finally:
        World.cluster.server("cont-pg")
    harness.until("the database to answer", lambda: post(
        CREATE, {"queue": "json", "delay": "3600s"})[0] == 200, 30)


@case
def pages_of_other_sites_may_not_call():
    own = World.broker.admin
    for origin, host in (("http://evil.example", own), ("null", own), ("http://" + own + "0", own),
                         ("http://evil.example:7401", "evil.example:7401")):
        refused(403, "permission_denied", TOPOLOGY, {}, headers={"Origin": origin, "Host": host})
    for host in (own, "localhost:" + own.split(":")[1], "[::1]:7401"):
        status, _, answer = post(TOPOLOGY, {}, headers={"Origin": "http://" + host, "Host": host})
        assert status == 200, answer


# ---- limits ----

@case
def large_bodies_go_to_the_limit():
    request = {"queue": "json", "delay": "3600s", "payload": base64.b64encode(b"x" * 65536).decode()}
    status, _, answer = post(CREATE, request)
    assert status == 200, answer
    refused(429, "resource_exhausted", CREATE, b" " * (BYTES_MAX + 1), "ADMIN_POST_BYTES_MAX")
    refused(429, "resource_exhausted", CREATE,
            {"payload": base64.b64encode(b"x" * (4 << 20)).decode()}, "4194304")

    def chunks():
        for _ in range(100):
            yield b" " * 65536
    connection = connect()
    connection.request("POST", CREATE, chunks(), {"Content-Type": "application/json"},
                       encode_chunked=True)
    answer = connection.getresponse()
    assert answer.status == 429 and b"ADMIN_POST_BYTES_MAX" in answer.read()
    connection.close()


def raw(text):
    host, port = World.broker.admin.split(":")
    connection = socket.create_connection((host, int(port)), 20)
    connection.sendall(text)
    return connection


@case
def more_calls_than_there_is_room_for_are_refused_and_harm_none():
    head = (f"POST {TOPOLOGY} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\n\r\n").encode()
    waiting = [raw(head + b"{") for _ in range(COUNT_MAX)]
    harness.until("all of them to be read", lambda: post(TOPOLOGY, {})[0] == 429, 20)
    headers, _ = refused(429, "resource_exhausted", TOPOLOGY, {}, "ADMIN_POST_COUNT_MAX")
    assert int(headers["Retry-After"]) >= 1, headers
    assert World.broker.get("/livez")[0] == 200  # Others have their room.
    for connection in waiting[:COUNT_MAX // 2]:
        connection.sendall(b"}")
        assert connection.recv(64).startswith(b"HTTP/1.1 200"), "the call was not answered"
    for connection in waiting:
        connection.close()
    harness.until("room", lambda: post(TOPOLOGY, {})[0] == 200, 10)


@case
def clients_that_go_away_leave_nothing_behind():
    head = (f"POST {CREATE} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
            "Content-Length: 42\r\n\r\n").encode()
    World.cluster.server("stop-pg")
    try:
        for body in (b"", b'{"queue":"json"', b'{"queue":"json","delay":"3600s"           }'):
            for _ in range(10):
                raw(head + body).close()
        time.sleep(0.5)
    finally:
        World.cluster.server("cont-pg")
    harness.until("the database to answer", lambda: post(
        CREATE, {"queue": "json", "delay": "3600s"})[0] == 200, 30)
    for _ in range(COUNT_MAX + 10):  # As many as would be missing.
        assert post(TOPOLOGY, {})[0] == 200


# ---- starting and ending ----

@case
def either_broker_takes_any_call():
    """Half of the shards are the other broker's: calls in JSON are passed on as any other."""
    World.cluster.broker_options = []
    other = World.cluster.start_broker("other")
    World.cluster.wait_ready()
    harness.until("it to own shards", lambda: other.metric("foliot_shards_owned") > 0)
    for number in range(32):
        key = f"either-{number}"
        status, _, made = post(CREATE, {"queue": "json", "delay": "3600s", "key": key})
        assert status == 200, made
        status, _, view = post("/foliot.v1.TaskService/Get", {"queue": "json", "key": key},
                               broker=other)
        assert status == 200 and view["task"]["id"] == made["id"], view
        _, answer = refused(409, "already_exists", CREATE, {
            "queue": "json", "key": key, "keyPolicy": "KEY_POLICY_REJECT"}, broker=other)
        assert detail(answer, "ErrorInfo").reason == "KEY_EXISTS"
    harness.until("calls that were passed on",
                  lambda: other.metric("foliot_calls_forwarded_total") > 10, 10)
    assert other.stop(40) == 0
    del World.cluster.brokers["other"]
    World.cluster.wait_ready()



@case
def a_broker_ends_while_calls_wait():
    World.cluster.broker_options = ["--drain-timeout", "500ms"]
    broker = World.cluster.start_broker("ends")
    World.cluster.wait_ready()
    World.cluster.server("stop-pg")
    pool = concurrent.futures.ThreadPoolExecutor(20)
    try:
        def one(number):
            try:
                return post(CREATE, {"queue": "json", "delay": "3600s", "key": f"end-{number}"},
                            broker=broker)
            except (OSError, http.client.HTTPException) as error:
                return error
        calls = [pool.submit(one, number) for number in range(20)]
        harness.until("calls to wait", lambda: broker.metric("foliot_calls_tasks_waiting") > 0, 10)
        broker.signal(signal.SIGTERM)
        answers = [call.result(40) for call in calls]
    finally:
        World.cluster.server("cont-pg")
        pool.shutdown()
    assert broker.popen.wait(30) is not None
    assert broker.popen.returncode >= 0, f"ended by signal {-broker.popen.returncode}"
    for answer in answers:
        assert isinstance(answer, Exception) or answer[0] in (500, 503, 504), answer
    del World.cluster.brokers["ends"]
    World.cluster.wait_ready()


@case
def it_is_there_on_loopback_only_unless_it_is_asked_for():
    for options, status in ((["--admin-json", "off"], 503),
                            (["--admin-listen", "0.0.0.0:{port}"], 503),
                            (["--admin-listen", "0.0.0.0:{port}", "--admin-json", "on"], 404)):
        port = harness.free_port()
        World.cluster.ports["off"] = (f"127.0.0.1:{harness.free_port()}", f"127.0.0.1:{port}")
        World.cluster.broker_options = [word.format(port=port) for word in options]
        broker = World.cluster.start_broker("off")
        harness.until("the broker to be ready", broker.is_ready)
        got, _, answer = post(CREATE, {"queue": "nothing"}, broker=broker)
        assert got == status, (options, got, answer)
        assert status != 503 or b"admin.json" in answer, answer
        assert broker.get("/metrics")[0] == 200
        assert broker.stop() == 0
        del World.cluster.brokers["off"]


@case
def nothing_was_harmed():
    assert World.broker.alive() and World.broker.get("/readyz")[0] == 200
    assert post(TOPOLOGY, {})[0] == 200


def main():
    build = os.path.basename(os.environ["FOLIOT_BUILD_DIR"])
    with harness.Cluster(build, 8) as cluster:
        World.cluster = cluster
        World.broker = cluster.start_broker("a")
        cluster.wait_ready()
        World.channel = grpc.insecure_channel(World.broker.grpc)
        World.stub = task_pb2_grpc.TaskServiceStub(World.channel)
        status, _, answer = post("/foliot.v1.QueueService/Create", {"queue": {
            "name": "json", "target": "receiver://127.0.0.1:1", "retry": {"failuresMax": 3}}})
        assert status == 200, answer
        peer.main(sys.argv[1:])


if __name__ == "__main__":
    main()
