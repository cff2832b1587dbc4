#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""grpcio as client and as target of two real brokers: what a user of another language sees. Every
row of bad input gets a clear status and harms nothing. Ends with "N passed, N failed"."""
import json
import os
import pathlib
import subprocess
import sys
import time
from concurrent import futures

import grpc
from google.protobuf import duration_pb2, timestamp_pb2

import node
import two_brokers
from two_brokers import harness, INVALID, LIMIT_S, expect, now_ms, timestamp

from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, receiver_pb2,  # noqa: E402
                       task_pb2)

ROOT = pathlib.Path(os.environ["FOLIOT_SOURCE_DIR"])
SHARDS = 16
SLOTS = 4096
CLAIM_LEAD_MS = 100  # CLAIM_LEAD_MS_MAX: so long before its time a task may be claimed.
KEY_TOO_LONG = "k" * 256
MASK = 2**64 - 1


# ---- the routing rule of proto/README.md, from its words ----

def xxh64(data, seed):
    """XXH64 of bytes, straight from its specification."""
    p1, p2, p3 = 11400714785074694791, 14029467366897019727, 1609587929392839161
    p4, p5 = 9650029242287828579, 2870177450012600261

    def rotate(value, bits):
        return (value << bits | value >> 64 - bits) & MASK

    def mix(acc, lane):
        return rotate(acc + lane * p2 & MASK, 31) * p1 & MASK

    at = 0
    if len(data) >= 32:
        accs = [seed + p1 + p2 & MASK, seed + p2 & MASK, seed, seed - p1 & MASK]
        while at + 32 <= len(data):
            for i in range(4):
                accs[i] = mix(accs[i], int.from_bytes(data[at:at + 8], "little"))
                at += 8
        acc = sum(rotate(a, r) for a, r in zip(accs, (1, 7, 12, 18))) & MASK
        for a in accs:
            acc = (acc ^ mix(0, a)) * p1 + p4 & MASK
    else:
        acc = seed + p5 & MASK
    acc = acc + len(data) & MASK
    while at + 8 <= len(data):
        acc = rotate(acc ^ mix(0, int.from_bytes(data[at:at + 8], "little")), 27) * p1 + p4 & MASK
        at += 8
    if at + 4 <= len(data):
        acc = rotate(acc ^ int.from_bytes(data[at:at + 4], "little") * p1 & MASK, 23) * p2 + p3 & MASK
        at += 4
    for byte in data[at:]:
        acc = rotate(acc ^ byte * p5 & MASK, 11) * p1 & MASK
    acc = (acc ^ acc >> 33) * p2 & MASK
    acc = (acc ^ acc >> 29) * p3 & MASK
    return acc ^ acc >> 32


def slot_of(namespace, queue, key):
    seed = 0x666f6c696f74
    start = xxh64(f"{namespace}\0{queue}".encode(), seed) % SLOTS
    return (start + xxh64(key.encode(), seed) % SLOTS) % SLOTS


# ---- the cases ----

def fires_a_receiver_on_time(world):
    due_ms = now_ms() + 400
    task = world.create(due_time=timestamp(due_ms), payload=b"\x00\xffhello", key="fires")
    assert task.created and task.due_time.ToMilliseconds() == due_ms, task
    attempt, actual_ms = world.target.wait(lambda: world.target.of(task.id), "the attempt")[0]
    assert actual_ms >= due_ms, f"early by {due_ms - actual_ms} ms"
    assert (attempt.payload, attempt.key, attempt.attempt) == (b"\x00\xffhello", "fires", 1)
    assert (attempt.namespace, attempt.queue) == ("default", "mail")
    assert attempt.due_time.ToMilliseconds() == due_ms
    assert attempt.deadline.ToMilliseconds() > due_ms


def fires_any_method_with_the_payload_as_the_request(world):
    due_ms = now_ms() + 300
    task = world.create("send", due_time=timestamp(due_ms), payload=b"\x08\x01", key="\u00e4")
    metadata, request = world.target.wait(
        lambda: [pair for pair in world.target.sends if pair[0].get("foliot-task-id") == task.id],
        "the call")[0]
    assert request == b"\x08\x01"
    assert metadata["foliot-attempt"] == "1" and metadata["foliot-queue"] == "send", metadata
    assert metadata["foliot-due-time"] == str(due_ms), metadata
    assert metadata["foliot-key-bin"] == "\u00e4".encode(), metadata


def retries_with_rising_attempts_until_it_is_done(world):
    world.target.plan["retries"] = [
        receiver_pb2.AttemptResult(outcome=receiver_pb2.OUTCOME_RETRY, error="later"),
        receiver_pb2.AttemptResult()]  # unspecified counts as retry
    task = world.create(key="retries")
    pairs = world.target.wait(lambda: len(world.target.of(task.id)) >= 3 and
                              world.target.of(task.id), "three attempts")
    assert [attempt.attempt for attempt, _ in pairs] == [1, 2, 3]
    time.sleep(0.5)
    assert len(world.target.of(task.id)) == 3


def waits_as_long_as_the_receiver_asks(world):
    world.target.plan["waits"] = [receiver_pb2.AttemptResult(
        outcome=receiver_pb2.OUTCOME_RETRY, retry_after=duration_pb2.Duration(seconds=1))]
    task = world.create(key="waits")
    pairs = world.target.wait(lambda: len(world.target.of(task.id)) >= 2 and
                              world.target.of(task.id), "two attempts")
    assert pairs[1][1] - pairs[0][1] >= 990, pairs[1][1] - pairs[0][1]


def gives_up_after_the_failures_of_the_queue(world):
    task = world.create("fail", payload=b"x")
    world.target.wait(lambda: len([1 for metadata, _ in world.target.sends
                                   if metadata.get("foliot-task-id") == task.id]) >= 3,
                      "three attempts")
    harness.until("the dead letter", lambda: world.stub().Get(
        task_pb2.GetTaskRequest(id=task.id), timeout=LIMIT_S).task.state ==
        task_pb2.TASK_STATE_DEAD, LIMIT_S)
    assert len([1 for metadata, _ in world.target.sends
                if metadata.get("foliot-task-id") == task.id]) == 3


def reads_a_task_by_id_and_by_key_through_either_broker(world):
    due_ms = now_ms() + 3600000
    task = world.create(due_time=timestamp(due_ms), payload=b"p" * 3000, key="reads")
    for stub in world.tasks:
        for name in ({"id": task.id}, {"queue": "mail", "key": "reads"}):
            view = stub.Get(task_pb2.GetTaskRequest(**name), timeout=LIMIT_S).task
            assert (view.id, view.key, view.queue) == (task.id, "reads", "mail"), view
            assert view.payload == b"p" * 3000 and view.due_time.ToMilliseconds() == due_ms
            assert view.state == task_pb2.TASK_STATE_WAITING and view.attempt == 0, view
            assert abs(view.create_time.ToMilliseconds() - now_ms()) < 60000
    expect(grpc.StatusCode.NOT_FOUND, "TASK_NOT_FOUND", lambda: world.stub().Get(
        task_pb2.GetTaskRequest(queue="mail", key="unknown"), timeout=LIMIT_S))


def updates_time_and_payload(world):
    task = world.create(delay=duration_pb2.Duration(seconds=3600), payload=b"old", key="updates")
    request = task_pb2.UpdateTaskRequest(queue="mail", key="updates", payload=b"new")
    reply = world.stub().Update(request, timeout=LIMIT_S)
    assert reply.id == task.id and reply.may_be_running_attempt == 0, reply
    due_ms = now_ms() + 300
    world.stub().Update(task_pb2.UpdateTaskRequest(id=task.id, due_time=timestamp(due_ms)),
                        timeout=LIMIT_S)
    attempt, actual_ms = world.target.wait(lambda: world.target.of(task.id), "the attempt")[0]
    assert attempt.payload == b"new" and actual_ms >= due_ms


def cancel_is_true(world):
    task = cancel_in_time(world)
    for stub in world.tasks:  # A repeated cancel is answered as the first one.
        answer = stub.Cancel(task_pb2.CancelTaskRequest(id=task.id), timeout=LIMIT_S)
        assert answer.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED, answer
    answer = world.stub().Cancel(task_pb2.CancelTaskRequest(queue="mail", key="never was"),
                                 timeout=LIMIT_S)
    assert answer.outcome == task_pb2.CANCEL_OUTCOME_NOT_FOUND, answer
    time.sleep(max(0, task.due_time.ToMilliseconds() - now_ms()) / 1000 + 0.5)
    assert not world.target.of(task.id)


def cancel_in_time(world):
    """A task that was cancelled before it could be claimed; again with more time if too late."""
    for seconds in (1, 2, 4, 8):
        task = world.create(delay=duration_pb2.Duration(seconds=seconds), key=f"cancels-{seconds}")
        answer = world.stub().Cancel(task_pb2.CancelTaskRequest(id=task.id), timeout=LIMIT_S)
        if now_ms() < task.due_time.ToMilliseconds() - CLAIM_LEAD_MS:
            assert answer.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED, answer
            return task
    raise AssertionError("no cancel was answered before its task was due")


def keys_keep_reject_and_replace(world):
    hour = duration_pb2.Duration(seconds=3600)
    first = world.create(key="keys", delay=hour)
    again = world.create(key="keys", delay=hour)
    assert (again.id, again.created) == (first.id, False), again
    assert again.due_time == first.due_time, again
    expect(grpc.StatusCode.ALREADY_EXISTS, "KEY_EXISTS", lambda: world.create(
        key="keys", delay=hour, key_policy=task_pb2.KEY_POLICY_REJECT))
    latest_ms = now_ms() + 1800000
    second = world.create(key="keys", delay=hour, key_policy=task_pb2.KEY_POLICY_REPLACE,
                          latest_time=timestamp(latest_ms))
    assert second.created and second.id != first.id, second
    assert second.due_time.ToMilliseconds() == latest_ms, second
    answer = world.stub().Cancel(task_pb2.CancelTaskRequest(id=first.id), timeout=LIMIT_S)
    assert answer.outcome == task_pb2.CANCEL_OUTCOME_GONE, answer


def a_key_made_many_times_at_once_is_one_task(world):
    with futures.ThreadPoolExecutor(32) as pool:
        replies = list(pool.map(lambda _: world.create(
            key="many", delay=duration_pb2.Duration(seconds=3600)), range(200)))
    assert len({reply.id for reply in replies}) == 1
    assert sum(reply.created for reply in replies) == 1


def the_slot_of_an_id_follows_from_the_key(world):
    for key in ("order-1", "\u00e4", "x" * 255, "exactly thirty-two bytes long ..", "a" * 40):
        task = world.create(key=key, delay=duration_pb2.Duration(seconds=3600))
        assert int(task.id[:3], 16) == slot_of("default", "mail", key), (key, task.id)
    assert slot_of("default", "mail", "order-1") == 1590  # the row of proto/README.md


def past_times_run_at_once(world):
    for due in (timestamp(0), timestamp(now_ms() - 365 * 86400000),
                timestamp_pb2.Timestamp(seconds=-62135596800)):
        task = world.create(due_time=due)
        world.target.wait(lambda: world.target.of(task.id), "the attempt")
    task = world.create(delay=duration_pb2.Duration(seconds=-5))
    world.target.wait(lambda: world.target.of(task.id), "the attempt")


def far_times_are_kept(world):
    due_ms = now_ms() + 100 * 365 * 86400000
    task = world.create(due_time=timestamp(due_ms))
    view = world.stub().Get(task_pb2.GetTaskRequest(id=task.id), timeout=LIMIT_S).task
    assert view.due_time.ToMilliseconds() == due_ms, view


def absurd_times_are_refused(world):
    for seconds, nanos in ((2**63 - 1, 0), (-2**63, 0), (7289568001, 0), (1700000000, -1),
                           (1700000000, 10**9)):
        due = timestamp_pb2.Timestamp(seconds=seconds, nanos=nanos)
        expect(INVALID, "TIME_OUT_OF_RANGE", lambda: world.create(due_time=due), "due_time")
    for seconds, nanos in ((2**63 - 1, 999999999), (-2**63, 0), (3155760001, 0), (1, -1)):
        delay = duration_pb2.Duration(seconds=seconds, nanos=nanos)
        expect(INVALID, "TIME_OUT_OF_RANGE", lambda: world.create(delay=delay), "delay")


def payloads_go_to_the_limit_byte_for_byte(world):
    for payload in (b"", b"\x00" * 10, os.urandom(1024), os.urandom(65536)):
        task = world.create(payload=payload)
        attempt, _ = world.target.wait(lambda: world.target.of(task.id), "the attempt")[0]
        assert attempt.payload == payload
    expect(INVALID, "PAYLOAD_TOO_LARGE", lambda: world.create(payload=b"x" * 65537), "payload",
           "PAYLOAD_BYTES_MAX")


def bad_keys_and_names_are_refused(world):
    expect(INVALID, "KEY_TOO_LONG", lambda: world.create(key=KEY_TOO_LONG), "key")
    expect(INVALID, "TEXT_INVALID", lambda: world.create(key="a\0b"), "key")
    expect(INVALID, "NAME_INVALID", lambda: world.create("Mail"), "queue")
    expect(INVALID, "NAME_MISSING", lambda: world.create(""), "queue")
    expect(INVALID, "KEY_MISSING", lambda: world.stub().Get(
        task_pb2.GetTaskRequest(queue="mail", key=""), timeout=LIMIT_S), "key")
    expect(INVALID, "ID_INVALID", lambda: world.stub().Cancel(
        task_pb2.CancelTaskRequest(id="x"), timeout=LIMIT_S), "id")
    expect(grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", lambda: world.create("no-such-queue"))
    expect(grpc.StatusCode.NOT_FOUND, "QUEUE_NOT_FOUND", lambda: world.create(
        "mail", namespace="no-such-namespace"))


def bad_bytes_are_refused(world):
    good = task_pb2.CreateTaskRequest(queue="mail", key="k", delay=duration_pb2.Duration(
        seconds=3600), payload=b"payload").SerializeToString()
    expect(INVALID, "TEXT_INVALID", lambda: world.raw("Create", b"\x12\x04mai\xff"), "queue")
    expect(INVALID, "MESSAGE_MALFORMED", lambda: world.raw("Create", good[:-1]))
    # Tags and a length that do not end. Random bytes could begin with a bad text, another reason.
    for head in (b"", b"\x78", b"\x7a", bytes(8), b"\x78\x01\x7a\x02hi"):
        expect(INVALID, "MESSAGE_MALFORMED", lambda: world.raw("Create", head + b"\xff" * 64))
    expect(INVALID, "MESSAGE_MALFORMED", lambda: world.raw("BatchCreate", b"\x1a\x7f"))
    try:
        world.raw("Create", b"\x2a" + b"\x80\x80\xc0\x02" + b"x" * (5 << 20))
        raise AssertionError("5 MiB were not refused")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.RESOURCE_EXHAUSTED, error
    expect(grpc.StatusCode.RESOURCE_EXHAUSTED, "MESSAGE_TOO_COSTLY",
           lambda: world.raw("Create", b"\x12\x04mail" + b"\xc0\x3e\x00" * 200000))


def batches_keep_bad_items_apart(world):
    stub = world.stub()
    expect(INVALID, "BATCH_EMPTY", lambda: stub.BatchCreate(
        task_pb2.BatchCreateTasksRequest(queue="mail"), timeout=LIMIT_S), "items")
    hour = duration_pb2.Duration(seconds=3600)
    items = [task_pb2.CreateTaskRequest(delay=hour, payload=b"x") for _ in range(10001)]
    expect(INVALID, "BATCH_TOO_LARGE", lambda: stub.BatchCreate(
        task_pb2.BatchCreateTasksRequest(queue="mail", items=items), timeout=LIMIT_S),
        words="BATCH_ITEM_COUNT_MAX")
    items.pop()
    items[17].key = KEY_TOO_LONG
    items[18].queue = "no-such-queue"
    items[19].key = "batch"
    items[20].key = "batch"
    reply = stub.BatchCreate(task_pb2.BatchCreateTasksRequest(queue="mail", items=items),
                             timeout=60)
    assert len(reply.results) == 10000
    refused = {index: result.error for index, result in enumerate(reply.results)
               if result.HasField("error")}
    assert set(refused) == {17, 18}, (len(refused), next(iter(refused.items())))
    assert (refused[17].code, refused[17].reason) == (3, "KEY_TOO_LONG"), refused[17]
    assert refused[17].field == "items[17].key", refused[17]
    assert (refused[18].code, refused[18].reason) == (5, "QUEUE_NOT_FOUND"), refused[18]
    ids = [result.id for index, result in enumerate(reply.results) if index not in refused]
    assert len(set(ids)) == 9997 and reply.results[19].id == reply.results[20].id
    assert reply.results[19].created != reply.results[20].created
    view = stub.Get(task_pb2.GetTaskRequest(id=ids[-1]), timeout=LIMIT_S).task
    assert view.payload == b"x"


def queues_are_read_changed_and_listed(world):
    world.queue("policy", "receiver://127.0.0.1:1",
                attempt_timeout=duration_pb2.Duration(seconds=30))
    queue = world.queues[-1].Get(queue_pb2.GetQueueRequest(name="policy"), timeout=LIMIT_S).queue
    assert queue.attempt_timeout.seconds == 30 and queue.retry.failures_max == 3, queue
    queue.concurrency_max = 7
    changed = world.queues[-1].Update(queue_pb2.UpdateQueueRequest(queue=queue),
                                     timeout=LIMIT_S).queue
    assert changed.concurrency_max == 7 and changed.version > queue.version, changed
    expect(grpc.StatusCode.FAILED_PRECONDITION, "QUEUE_CHANGED", lambda: world.queues[0].Update(
        queue_pb2.UpdateQueueRequest(queue=queue), timeout=LIMIT_S))
    expect(grpc.StatusCode.ALREADY_EXISTS, "QUEUE_EXISTS", lambda: world.queue(
        "policy", "receiver://127.0.0.1:1"))
    expect(INVALID, "TARGET_INVALID", lambda: world.queue("bad", "http://x"), "queue.target")
    names, token = [], ""
    while True:
        page = world.queues[0].List(queue_pb2.ListQueuesRequest(page_size=2, page_token=token),
                                    timeout=LIMIT_S)
        names += [queue.name for queue in page.queues]
        token = page.next_page_token
        if not token:
            break
    if "dev" in world.cluster.brokers:
        assert names.pop(0) == "default", names  # It is there from the start.
    assert names == ["mail", "send", "fail", "policy"], names


def shows_brokers_and_shards(world):
    stub = cluster_pb2_grpc.ClusterServiceStub(world.channels[0])
    topology = stub.GetTopology(cluster_pb2.GetTopologyRequest(), timeout=LIMIT_S)
    assert sorted(broker.grpc_address for broker in topology.brokers) == sorted(
        world.cluster.addresses())
    assert topology.shard_count == world.cluster.shards and topology.slot_count == SLOTS
    assert [shard.shard for shard in topology.shards] == list(range(world.cluster.shards))
    assert {shard.owner for shard in topology.shards} == set(world.cluster.brokers), topology
    assert all(shard.state == cluster_pb2.SHARD_STATE_ACTIVE for shard in topology.shards)
    assert all(shard.epoch > 0 for shard in topology.shards), topology


def the_command_works_on_the_real_thing(world):
    made = json.loads(world.cluster.cli("task", "create", "-q", "mail", "-a", "+1h", "-k", "cli",
                                        "-p", "text", "-o", "json").stdout)
    shown = json.loads(world.cluster.cli("task", "get", made["id"], "-o", "json").stdout)
    assert (shown["payload"], shown["key"]) == ("dGV4dA==", "cli"), shown
    world.cluster.cli("task", "update", made["id"], "--delay", "2h")
    assert "CANCELLED" in world.cluster.cli("task", "cancel", "-q", "mail", "-k", "cli").stdout
    assert world.cluster.cli("task", "get", made["id"], check=False).returncode == 3
    assert f": {len(world.cluster.brokers)} broker" in world.cluster.cli("cluster", "status").stdout
    assert (len(world.cluster.cli("cluster", "shards").stdout.splitlines()) ==
            world.cluster.shards + 1)


def the_example_of_the_readme_works(world):
    done = subprocess.run(["/usr/bin/python3", str(ROOT / "docs/examples/python_client.py"),
                           world.cluster.addresses()[0]], capture_output=True, text=True,
                          timeout=60, check=False,
                          env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("created ", "fired ", "CANCEL_OUTCOME_CANCELLED", "refused NOT_FOUND"):
        assert word in done.stdout, done.stdout


def buf_curl_needs_none_of_our_files(world):
    url = f"http://{world.cluster.addresses()[-1]}"

    def curl(*arguments):
        return node.buf("curl", "--http2-prior-knowledge", "--protocol", "grpc", *arguments)
    listed = curl("--list-services", url)
    assert {"foliot.v1.TaskService", "foliot.v1.QueueService", "foliot.v1.ClusterService",
            "grpc.health.v1.Health"} <= set(listed.stdout.split()), listed
    assert "internal" not in listed.stdout, listed
    # Users implement it; dev mode has one to print what its default queue fires.
    assert ("Receiver" in listed.stdout) == ("dev" in world.cluster.brokers), listed
    made = curl("--data", '{"queue": "mail", "delay": "3600s", "key": "buf", "payload": "aGk="}',
                f"{url}/foliot.v1.TaskService/Create")
    assert made.returncode == 0 and json.loads(made.stdout)["created"] is True, made
    read = curl("--data", '{"queue": "mail", "key": "buf"}', f"{url}/foliot.v1.TaskService/Get")
    assert read.returncode == 0 and json.loads(read.stdout)["task"]["payload"] == "aGk=", read
    refused = curl("--data", '{"queue": "nope"}', f"{url}/foliot.v1.TaskService/Create")
    assert "not_found" in refused.stderr and "google.rpc.ErrorInfo" in refused.stderr, refused


def nothing_was_harmed(world):
    for broker in world.cluster.brokers.values():
        assert broker.starts and broker.alive()
        assert broker.get("/readyz")[0] == 200
    for stub in world.tasks:
        task = stub.Create(task_pb2.CreateTaskRequest(queue="mail"), timeout=LIMIT_S)
        world.target.wait(lambda: world.target.of(task.id), "the attempt")
    early = [attempt for attempt, actual_ms in world.target.attempts
             if actual_ms < attempt.due_time.ToMilliseconds()]
    assert not early, early


CASES = [
    fires_a_receiver_on_time, fires_any_method_with_the_payload_as_the_request,
    retries_with_rising_attempts_until_it_is_done, waits_as_long_as_the_receiver_asks,
    gives_up_after_the_failures_of_the_queue, reads_a_task_by_id_and_by_key_through_either_broker,
    updates_time_and_payload, cancel_is_true, keys_keep_reject_and_replace,
    a_key_made_many_times_at_once_is_one_task, the_slot_of_an_id_follows_from_the_key,
    past_times_run_at_once, far_times_are_kept, absurd_times_are_refused,
    payloads_go_to_the_limit_byte_for_byte, bad_keys_and_names_are_refused, bad_bytes_are_refused,
    batches_keep_bad_items_apart, queues_are_read_changed_and_listed, shows_brokers_and_shards,
    the_command_works_on_the_real_thing, the_example_of_the_readme_works, buf_curl_needs_none_of_our_files,
    nothing_was_harmed,
]


if __name__ == "__main__":
    sys.exit(two_brokers.main(CASES, SHARDS))
