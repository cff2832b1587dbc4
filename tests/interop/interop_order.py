#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Order keys as grpcio sees them, on two real brokers. Ends with "N passed, N failed"."""
import sys

from google.protobuf import duration_pb2

import two_brokers
from two_brokers import INVALID, LIMIT_S, expect, harness, now_ms, timestamp

from foliot.v1 import queue_pb2, receiver_pb2, task_pb2  # noqa: E402

SHARDS = 16
FAR_MS = 3600000
CLAIM_LEAD_MS = 100  # CLAIM_LEAD_MS_MAX: so long before its time a task may be claimed.


def retry_after(seconds):
    return receiver_pb2.AttemptResult(outcome=receiver_pb2.OUTCOME_RETRY,
                                      retry_after=duration_pb2.Duration(seconds=seconds))


def arrivals(world, order_key):
    """Payloads of the attempts of an order key, as they came."""
    return [attempt.payload for attempt, _ in world.target.attempts
            if attempt.order_key == order_key]


def tasks_of_an_order_key_come_one_by_one_by_due_time(world):
    payloads = [b"%d" % i for i in range(20)]
    for lead_ms in (1500, 3000, 6000, 12000):
        steps = f"steps-{lead_ms}"
        start_ms = now_ms() + lead_ms
        # The last to be created is the first to be due.
        made = [world.create(order_key=steps, payload=payload,
                             due_time=timestamp(start_ms + int(payload)))
                for payload in reversed(payloads)]
        in_time = now_ms() < start_ms - CLAIM_LEAD_MS  # Else some came before others were there.
        assert len({task.id[:3] for task in made}) == 1, "all lie in one slot"
        world.target.wait(lambda: len(arrivals(world, steps)) == 20, "all of them")
        if in_time:
            break
    assert in_time, "no twenty tasks were created before they were due"
    assert arrivals(world, steps) == payloads, arrivals(world, steps)


def a_failing_task_blocks_its_order_key_and_no_other(world):
    world.target.plan["blocker"] = [retry_after(600)]
    head = world.create(order_key="blocked", key="blocker", payload=b"head")
    world.target.wait(lambda: world.target.of(head.id), "the first attempt")
    behind = world.create(order_key="blocked", payload=b"behind")
    other = world.create(order_key="free", payload=b"other")
    world.target.wait(lambda: world.target.of(other.id), "the other one")
    answer = harness.until("the reason", lambda: explained(world, behind.id))
    assert answer.behind == head.id and head.id in answer.text, answer
    assert not world.target.of(behind.id)
    cancelled = world.stub().Cancel(task_pb2.CancelTaskRequest(
        queue="mail", key="blocker", order_key="blocked"), timeout=LIMIT_S)
    assert (cancelled.id, cancelled.outcome) == (head.id, task_pb2.CANCEL_OUTCOME_STOPPED), cancelled
    world.target.wait(lambda: world.target.of(behind.id), "the one behind")


def explained(world, task_id):
    answer = world.stub().Explain(task_pb2.ExplainTaskRequest(id=task_id), timeout=LIMIT_S)
    return answer if answer.reason == task_pb2.WAIT_REASON_ORDER_KEY else None


def a_queue_can_pass_over_a_failing_task_or_end_it(world):
    where = f"receiver://{world.target.address}"
    world.queue("skips", where, order=queue_pb2.OrderPolicy(
        on_failure=queue_pb2.ORDER_MODE_SKIP, failures=1))
    world.queue("ends", where, order=queue_pb2.OrderPolicy(
        on_failure=queue_pb2.ORDER_MODE_DEAD_LETTER))
    got = world.queue_stub().Get(queue_pb2.GetQueueRequest(name="skips"), timeout=LIMIT_S).queue
    assert (got.order.on_failure, got.order.failures) == (queue_pb2.ORDER_MODE_SKIP, 1), got
    for queue, results, starts in (("skips", [retry_after(600)], 1),
                                   ("ends", [retry_after(0)] * 3, 3)):
        world.target.plan[f"{queue}-head"] = results
        head = world.create(queue, order_key="k", key=f"{queue}-head")
        behind = world.create(queue, order_key="k")
        world.target.wait(lambda task=behind: world.target.of(task.id), "the one behind")
        assert len(world.target.of(head.id)) == starts, (queue, world.target.of(head.id))
    letters = world.queue_stub().ListDead(queue_pb2.ListDeadRequest(queue="ends"),
                                          timeout=LIMIT_S).dead
    assert [(letter.key, letter.order_key) for letter in letters] == [("ends-head", "k")], letters
    world.queue_stub().RedriveDead(queue_pb2.RedriveDeadRequest(queue="ends"), timeout=LIMIT_S)
    world.target.wait(lambda: len(world.target.of(letters[0].id)) == 4, "the revived one")
    assert world.target.of(letters[0].id)[3][0].order_key == "k"


def a_key_is_unique_within_its_order_key(world):
    far = timestamp(now_ms() + FAR_MS)
    made = [world.create(due_time=far, key="same", **fields)
            for fields in ({}, {"order_key": "a"}, {"order_key": "b"}, {"order_key": "a"})]
    assert [task.created for task in made] == [True, True, True, False], made
    assert made[3].id == made[1].id and len({task.id for task in made}) == 3
    for order_key, task in (("", made[0]), ("a", made[1]), ("b", made[2])):
        got = world.stub().Get(task_pb2.GetTaskRequest(queue="mail", key="same",
                                                       order_key=order_key), timeout=LIMIT_S).task
        assert (got.id, got.key, got.order_key) == (task.id, "same", order_key), got
    listed = world.stub().List(task_pb2.ListTasksRequest(queue="mail", order_key="b"),
                               timeout=LIMIT_S)
    while listed.next_page_token and not listed.tasks:
        listed = world.stub().List(task_pb2.ListTasksRequest(
            queue="mail", order_key="b", page_token=listed.next_page_token), timeout=LIMIT_S)
    assert [task.id for task in listed.tasks] == [made[2].id], listed
    updated = world.stub().Update(task_pb2.UpdateTaskRequest(
        queue="mail", key="same", order_key="b", payload=b"new"), timeout=LIMIT_S)
    assert updated.id == made[2].id, updated
    ran = world.stub().RunNow(task_pb2.RunTaskNowRequest(queue="mail", key="same", order_key="b"),
                              timeout=LIMIT_S)
    assert ran.id == made[2].id, ran
    world.target.wait(lambda: world.target.of(made[2].id), "the attempt")
    attempt = world.target.of(made[2].id)[0][0]
    assert (attempt.key, attempt.order_key, attempt.payload) == ("same", "b", b"new"), attempt
    results = world.stub().BatchCancel(task_pb2.BatchCancelTasksRequest(queue="mail", items=[
        task_pb2.CancelTaskRequest(key="same", order_key="a"),
        task_pb2.CancelTaskRequest(key="same")]), timeout=LIMIT_S).results
    assert [result.id for result in results] == [made[1].id, made[0].id], results


def batches_have_order_keys_too(world):
    items = [task_pb2.CreateTaskRequest(order_key=f"batch-{i % 3}", payload=b"%d" % i,
                                        due_time=timestamp(now_ms() - 1000 + i))
             for i in range(30)]
    results = world.stub().BatchCreate(task_pb2.BatchCreateTasksRequest(queue="mail", items=items),
                                       timeout=LIMIT_S).results
    assert all(result.created for result in results), results
    for key in range(3):
        world.target.wait(lambda key=key: len(arrivals(world, f"batch-{key}")) == 10, "its ten")
        assert arrivals(world, f"batch-{key}") == [b"%d" % i for i in range(key, 30, 3)]


def a_method_is_told_the_order_key(world):
    world.create("send", order_key="\u00e4", payload=b"method")
    sends = world.target.wait(lambda: [metadata for metadata, request in world.target.sends
                                       if request == b"method"], "the call")
    assert sends[0]["foliot-order-key-bin"] == "\u00e4".encode(), sends


def what_makes_no_sense_is_refused(world):
    expect(INVALID, "ORDER_KEY_TOO_LONG", lambda: world.create(order_key="x" * 256),
           field="order_key", words="ORDER_KEY_BYTES_MAX")
    expect(INVALID, "FIELD_UNUSED", lambda: world.stub().Get(task_pb2.GetTaskRequest(
        id="0a7-0000012300000001", order_key="a"), timeout=LIMIT_S), field="order_key")
    expect(INVALID, "FIELD_UNUSED", lambda: world.queue("odd", "receiver://127.0.0.1:1",
           order=queue_pb2.OrderPolicy(failures=2)), field="queue.order.failures")
    expect(INVALID, "VALUE_OUT_OF_RANGE", lambda: world.queue("odd", "receiver://127.0.0.1:1",
           order=queue_pb2.OrderPolicy(on_failure=queue_pb2.ORDER_MODE_SKIP, failures=1001)),
           field="queue.order.failures")
    expect(INVALID, "ENUM_UNKNOWN", lambda: world.queue("odd", "receiver://127.0.0.1:1",
           order=queue_pb2.OrderPolicy(on_failure=9)), field="queue.order.on_failure")


def the_order_holds_when_owners_die(world):
    """A thousand tasks of a few order keys while one broker is killed and comes back."""
    if "b" not in world.cluster.brokers:
        return  # `foliot dev` is one process.
    start_ms = now_ms() + 1000
    items = [task_pb2.CreateTaskRequest(order_key=f"kill-{i % 7}", payload=b"%d" % i,
                                        due_time=timestamp(start_ms + i)) for i in range(700)]
    results = world.stub().BatchCreate(task_pb2.BatchCreateTasksRequest(queue="mail", items=items),
                                       timeout=LIMIT_S).results
    assert all(result.created for result in results), results
    keys = [f"kill-{key}" for key in range(7)]
    world.target.wait(lambda: sum(len(arrivals(world, key)) for key in keys) >= 100, "some of them")
    world.cluster.kill("b")
    world.cluster.start_broker("b")
    for key in range(7):
        wanted = [b"%d" % i for i in range(key, 700, 7)]
        world.target.wait(lambda key=key: len(set(arrivals(world, f"kill-{key}"))) == 100,
                          f"all of kill-{key}", 60)
        # What was running when its owner died comes again, but none before one that is due earlier.
        seen = list(dict.fromkeys(arrivals(world, f"kill-{key}")))
        assert seen == wanted, seen


CASES = [
    tasks_of_an_order_key_come_one_by_one_by_due_time,
    a_failing_task_blocks_its_order_key_and_no_other,
    a_queue_can_pass_over_a_failing_task_or_end_it, a_key_is_unique_within_its_order_key,
    batches_have_order_keys_too, a_method_is_told_the_order_key, what_makes_no_sense_is_refused,
    the_order_holds_when_owners_die,
]


if __name__ == "__main__":
    sys.exit(two_brokers.main(CASES, SHARDS))
