#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The task and queue services as grpcio sees them, on two real brokers: what people do with many
tasks, with queues, and with what went wrong. Ends with "N passed, N failed"."""
import sys

import grpc

import two_brokers
from two_brokers import LIMIT_S, expect, now_ms, timestamp

from foliot.v1 import task_pb2  # noqa: E402

SHARDS = 16
FAR_MS = 3600000
PRECONDITION = grpc.StatusCode.FAILED_PRECONDITION
NOT_FOUND = grpc.StatusCode.NOT_FOUND


def far(world, queue="mail", **fields):
    """A task that is not due while the test runs."""
    return world.create(queue, due_time=timestamp(now_ms() + FAR_MS), **fields)


# ---- many tasks ----

def a_bulk_cancel_answers_every_item_for_itself(world):
    made = [far(world, key=f"bulk-{i}") for i in range(20)]
    items = [task_pb2.CancelTaskRequest(id=task.id) for task in made[:10]]
    items += [task_pb2.CancelTaskRequest(key=f"bulk-{i}") for i in range(10, 20)]
    items += [task_pb2.CancelTaskRequest(id="what"),
              task_pb2.CancelTaskRequest(key="never-made"),
              task_pb2.CancelTaskRequest(queue="no-such-queue", key="x")]
    request = task_pb2.BatchCancelTasksRequest(queue="mail", items=items)
    results = world.stub().BatchCancel(request, timeout=LIMIT_S).results
    assert len(results) == len(items), results
    for task, result in zip(made, results):
        assert result.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED, result
        assert result.id == task.id, result
    assert (results[20].error.reason, results[20].error.field) == ("ID_INVALID", "items[20].id")
    assert results[21].outcome == task_pb2.CANCEL_OUTCOME_NOT_FOUND, results[21]
    assert results[22].error.reason == "QUEUE_NOT_FOUND", results[22]
    again = world.stub().BatchCancel(task_pb2.BatchCancelTasksRequest(items=items[:10]),
                                     timeout=LIMIT_S).results
    assert all(result.outcome == task_pb2.CANCEL_OUTCOME_CANCELLED for result in again), again


def a_bulk_cancel_of_one_task_twice_is_one_cancel(world):
    task = far(world)
    request = task_pb2.BatchCancelTasksRequest(
        items=[task_pb2.CancelTaskRequest(id=task.id)] * 3)
    results = world.stub().BatchCancel(request, timeout=LIMIT_S).results
    assert [result.outcome for result in results] == [task_pb2.CANCEL_OUTCOME_CANCELLED] * 3


def an_empty_bulk_cancel_is_refused(world):
    expect(two_brokers.INVALID, "BATCH_EMPTY", lambda: world.stub().BatchCancel(
        task_pb2.BatchCancelTasksRequest(), timeout=LIMIT_S))


# ---- one task ----

def run_now_runs_a_far_task_at_once(world):
    by_id, by_key = far(world), far(world, key="run-now")
    for request, task in ((task_pb2.RunTaskNowRequest(id=by_id.id), by_id),
                          (task_pb2.RunTaskNowRequest(queue="mail", key="run-now"), by_key)):
        asked_ms = now_ms()
        answer = world.stub().RunNow(request, timeout=LIMIT_S)
        assert answer.id == task.id and answer.may_be_running_attempt == 0, answer
        assert answer.due_time.ToMilliseconds() >= asked_ms - 50, answer
        pairs = world.target.wait(lambda task=task: world.target.of(task.id), "the attempt")
        assert pairs[0][0].attempt == 1, pairs
    expect(NOT_FOUND, "TASK_GONE", lambda: world.stub().RunNow(
        task_pb2.RunTaskNowRequest(id=by_id.id), timeout=LIMIT_S))


CASES = [
    a_bulk_cancel_answers_every_item_for_itself, a_bulk_cancel_of_one_task_twice_is_one_cancel,
    an_empty_bulk_cancel_is_refused, run_now_runs_a_far_task_at_once,
]


if __name__ == "__main__":
    sys.exit(two_brokers.main(CASES, SHARDS))
