#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The task and queue services as grpcio sees them, on two real brokers: what people do with many
tasks, with queues, and with what went wrong. Ends with "N passed, N failed"."""
import sys
import time

import grpc
from google.protobuf import duration_pb2

import stubs
import two_brokers
from two_brokers import (CONFIRM_TRIES, CONFIRM_WAIT_S, LIMIT_S, confirmed, expect, harness, now_ms,
                         timestamp, waited_for_all)

from foliot.v1 import (cluster_pb2, cluster_pb2_grpc, queue_pb2, receiver_pb2,  # noqa: E402
                       task_pb2)

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
    harness.until("the settlement", lambda: is_gone(world, by_id.id))
    expect(NOT_FOUND, "TASK_GONE", lambda: world.stub().RunNow(
        task_pb2.RunTaskNowRequest(id=by_id.id), timeout=LIMIT_S))


def explain_says_what_a_task_waits_for(world):
    task = far(world)
    answer = world.stub().Explain(task_pb2.ExplainTaskRequest(id=task.id), timeout=LIMIT_S)
    assert answer.reason == task_pb2.WAIT_REASON_DUE_TIME, answer
    assert answer.until == answer.task.due_time and "due time" in answer.text, answer
    topology = cluster_pb2_grpc.ClusterServiceStub(world.channels[0]).GetTopology(
        cluster_pb2.GetTopologyRequest(), timeout=LIMIT_S)
    owner = topology.shards[int(task.id[:3], 16) % topology.shard_count]
    assert answer.task.id == task.id, answer
    assert (answer.broker, answer.shard) == (owner.owner, owner.shard), (answer, owner)
    world.target.plan["explain"] = [receiver_pb2.AttemptResult(
        outcome=receiver_pb2.OUTCOME_RETRY, retry_after=duration_pb2.Duration(seconds=600))]
    task = world.create(key="explain")
    answer = harness.until("the failure", lambda: backoff_of(world, task.id))
    assert "1 attempts have failed" in answer.text, answer


def backoff_of(world, task_id):
    answer = world.stub().Explain(task_pb2.ExplainTaskRequest(id=task_id), timeout=LIMIT_S)
    return answer if answer.reason == task_pb2.WAIT_REASON_BACKOFF else None


# ---- lists ----

def pages(call, request, limit=1000):
    """All messages of a paged call, one request after the other."""
    answers = []
    while True:
        answer = call(request, timeout=LIMIT_S)
        answers.append(answer)
        assert len(answers) < limit, "no end"
        if not answer.next_page_token:
            return answers
        request.page_token = answer.next_page_token


def listed(world, page_size=0, **fields):
    request = task_pb2.ListTasksRequest(page_size=page_size, **fields)
    answers = pages(world.stub().List, request)
    if page_size:
        assert all(len(answer.tasks) <= page_size for answer in answers)
    return [task for answer in answers for task in answer.tasks]


def a_list_has_every_task_once_whatever_the_page(world):
    world.queue("listed", f"receiver://{world.target.address}")
    start_ms = now_ms() + FAR_MS
    made = {}
    for i in range(60):
        task = world.create("listed", due_time=timestamp(start_ms + i * 1000), payload=b"p" * i,
                            tags={"half": str(i % 2), "n": str(i)})
        made[task.id] = i
    for size in (1, 7, 500):
        tasks = listed(world, size, queue="listed")
        assert sorted(task.id for task in tasks) == sorted(made), (size, len(tasks))
    tasks = listed(world, queue="listed", with_payload=True)
    for task in tasks:
        assert task.payload == b"p" * made[task.id], task
        assert dict(task.tags) == {"half": str(made[task.id] % 2), "n": str(made[task.id])}, task
        assert task.state == task_pb2.TASK_STATE_WAITING, task
    assert not any(task.payload for task in listed(world, queue="listed"))


def a_list_is_filtered_by_tags_times_and_states(world):
    start_ms = now_ms()
    half = listed(world, queue="listed", tags={"half": "1"})
    assert len(half) == 30 and all(task.tags["half"] == "1" for task in half), len(half)
    both = listed(world, queue="listed", tags={"half": "1", "n": "3"})
    assert [task.tags["n"] for task in both] == ["3"], both
    assert not listed(world, queue="listed", tags={"half": "1", "n": "4"})
    due = min(task.due_time.ToMilliseconds() for task in half) - 1000
    some = listed(world, queue="listed", due_from=timestamp(due + 10000),
                  due_before=timestamp(due + 20000))
    assert sorted(int(task.tags["n"]) for task in some) == list(range(10, 20)), some
    assert not listed(world, queue="listed", states=[task_pb2.TASK_STATE_RUNNING])
    waiting = listed(world, queue="listed", states=[task_pb2.TASK_STATE_WAITING])
    assert len(waiting) == 60, len(waiting)
    everything = listed(world)
    assert {task.queue for task in everything} >= {"listed", "mail"}, len(everything)
    assert now_ms() - start_ms < LIMIT_S * 1000


def lists_refuse_what_they_do_not_know(world):
    expect(NOT_FOUND, "QUEUE_NOT_FOUND", lambda: world.stub().List(
        task_pb2.ListTasksRequest(queue="no-such-queue"), timeout=LIMIT_S))
    expect(two_brokers.INVALID, "TOKEN_INVALID", lambda: world.stub().List(
        task_pb2.ListTasksRequest(page_token="1"), timeout=LIMIT_S), field="page_token")


# ---- how a task ends ----

def tags_and_expiry_go_to_the_receiver(world):
    expire_ms = now_ms() + FAR_MS
    task = world.create(tags={"colour": "r\u00f6t"}, expire_time=timestamp(expire_ms))
    attempt, _ = world.target.wait(lambda: world.target.of(task.id), "the attempt")[0]
    assert dict(attempt.tags) == {"colour": "r\u00f6t"}, attempt
    assert attempt.expire_time.ToMilliseconds() == expire_ms, attempt


def a_result_is_kept_as_long_as_the_queue_says(world):
    world.queue("kept", f"receiver://{world.target.address}",
                result_memory=duration_pb2.Duration(seconds=600))
    world.target.plan["kept"] = [receiver_pb2.AttemptResult(
        outcome=receiver_pb2.OUTCOME_DONE, response=b"\x00answer")]
    task = world.create("kept", key="kept", tags={"a": "b"})
    got = harness.until("the result", lambda: ended(world, id=task.id))
    assert got.state == task_pb2.TASK_STATE_DONE and got.response == b"\x00answer", got
    assert (got.key, dict(got.tags), got.attempt, got.payload) == ("kept", {"a": "b"}, 1, b""), got
    assert got.forget_time.ToMilliseconds() - got.end_time.ToMilliseconds() == 600000, got
    assert ended(world, queue="kept", key="kept").id == task.id


def ended(world, **name):
    """The task if it has ended and is remembered."""
    try:
        task = world.stub().Get(task_pb2.GetTaskRequest(**name), timeout=LIMIT_S).task
    except grpc.RpcError as error:
        assert error.code() == NOT_FOUND, error
        return None
    return task if task.state >= task_pb2.TASK_STATE_DONE else None


def without_memory_a_result_is_gone(world):
    task = world.create()
    world.target.wait(lambda: world.target.of(task.id), "the attempt")
    harness.until("the settlement", lambda: is_gone(world, task.id))


def is_gone(world, task_id):
    try:
        world.stub().Get(task_pb2.GetTaskRequest(id=task_id), timeout=LIMIT_S)
    except grpc.RpcError as error:
        return error.code() == NOT_FOUND
    return False


def a_task_whose_time_is_over_is_not_run(world):
    world.queue("brief", f"receiver://{world.target.address}",
                result_memory=duration_pb2.Duration(seconds=600),
                expire_after=duration_pb2.Duration(seconds=5))
    late = world.create("kept", key="late", due_time=timestamp(now_ms() - 5000),
                        expire_time=timestamp(now_ms() - 1000))
    got = harness.until("the end", lambda: ended(world, id=late.id))
    assert got.state == task_pb2.TASK_STATE_EXPIRED and got.attempt == 0, got
    assert not world.target.of(late.id)
    world.target.plan["brief"] = [receiver_pb2.AttemptResult(
        outcome=receiver_pb2.OUTCOME_RETRY, retry_after=duration_pb2.Duration(seconds=60))]
    retried = world.create("brief", key="brief")
    got = harness.until("the end", lambda: ended(world, id=retried.id))
    assert got.state == task_pb2.TASK_STATE_EXPIRED and got.attempt == 1, got
    assert len(world.target.of(retried.id)) == 1


# ---- dead letters ----

def kill_some(world, queue, count, error):
    """Tasks that become dead letters; their ids."""
    ids = []
    for i in range(count):
        key = f"{queue}-{error[:4]}-{i}"
        world.target.plan[key] = [receiver_pb2.AttemptResult(
            outcome=receiver_pb2.OUTCOME_DEAD, error=error.replace("%d", str(i)))]
        ids.append(world.create(queue, key=key, payload=b"x" * (2000 if i % 2 else 10),
                                tags={"i": str(i)}).id)
    harness.until("the dead letters", lambda: all(
        (got := ended(world, id=one)) and got.state == task_pb2.TASK_STATE_DEAD for one in ids))
    return ids


def dead_letters(world, queue, **fields):
    answers = pages(world.queue_stub().ListDead,
                    queue_pb2.ListDeadRequest(queue=queue, **fields))
    return [letter for answer in answers for letter in answer.dead]


def dead_letters_are_listed_and_counted_by_error(world):
    world.queue("dying", f"receiver://{world.target.address}")
    first = kill_some(world, "dying", 12, "no such user %d")
    second = kill_some(world, "dying", 5, "disk full at 0x%d")
    letters = dead_letters(world, "dying", page_size=3)
    assert sorted(letter.id for letter in letters) == sorted(first + second), len(letters)
    one = next(letter for letter in letters if letter.id == first[3])
    assert one.error == "no such user 3" and dict(one.tags) == {"i": "3"}, one
    assert one.attempt == 1 and one.failures == 1 and not one.payload, one
    assert one.dead_time.ToMilliseconds() >= one.create_time.ToMilliseconds() > 0, one
    full = dead_letters(world, "dying", error_contains="disk")
    assert sorted(letter.id for letter in full) == sorted(second), full
    groups = world.queue_stub().GroupDead(queue_pb2.GroupDeadRequest(queue="dying"),
                                          timeout=LIMIT_S)
    assert [(group.error, group.count) for group in groups.groups] == [
        ("no such user #", 12), ("disk full at #x#", 5)], groups
    assert groups.looked_at == 17 and not groups.is_partial, groups


def a_redrive_runs_dead_letters_again_under_their_ids(world):
    letters = dead_letters(world, "dying", error_contains="user")
    chosen = [letter.id for letter in letters[:2]]
    answer = world.queue_stub().RedriveDead(queue_pb2.RedriveDeadRequest(
        queue="dying", ids=chosen + chosen[:1] + ["fff-0000012300000001"]), timeout=LIMIT_S)
    assert (answer.redriven, answer.skipped, answer.next_page_token) == (2, 1, ""), answer
    for task_id in chosen:
        pairs = world.target.wait(lambda task_id=task_id: len(world.target.of(task_id)) > 1 and
                                  world.target.of(task_id), "another attempt")
        assert [attempt.attempt for attempt, _ in pairs] == [1, 2], pairs
        assert len(pairs[1][0].payload) in (10, 2000), pairs
        assert pairs[1][0].tags["i"], pairs
    answers = pages(world.queue_stub().RedriveDead, queue_pb2.RedriveDeadRequest(
        queue="dying", error_contains="user", count_max=4))
    assert sum(answer.redriven for answer in answers) == 10, answers
    assert all(answer.redriven <= 4 for answer in answers), answers
    assert len(dead_letters(world, "dying")) == 5


def a_redrive_at_a_rate_spreads_the_due_times(world):
    ids = kill_some(world, "dying", 4, "slowly %d")
    start = time.monotonic()
    answer = world.queue_stub().RedriveDead(queue_pb2.RedriveDeadRequest(
        queue="dying", error_contains="slowly", rate_per_second=4), timeout=LIMIT_S)
    took_ms = (time.monotonic() - start) * 1000
    assert answer.redriven == 4, answer
    pairs = [world.target.wait(lambda one=one: len(world.target.of(one)) > 1 and
                               world.target.of(one), "another attempt")[1] for one in ids]
    dues = sorted(attempt.due_time.ToMilliseconds() for attempt, _ in pairs)
    # Each counts from the moment at which the call came to it.
    assert 700 <= dues[3] - dues[0] <= 1400 + took_ms, (dues, took_ms)
    assert time.monotonic() - start < LIMIT_S


def a_token_made_up_by_hand_moves_no_task_into_the_past(world):
    world.queue("tokens", f"receiver://{world.target.address}")
    ids = kill_some(world, "tokens", 2, "oh %d")
    answers = pages(world.queue_stub().RedriveDead, queue_pb2.RedriveDeadRequest(
        queue="tokens", rate_per_second=0.001, page_token="0.0.0.8000000000000000"))
    assert sum(answer.redriven for answer in answers) == 2, answers
    tasks = world.stub().List(task_pb2.ListTasksRequest(queue="tokens"), timeout=LIMIT_S).tasks
    assert sorted(task.id for task in tasks) == sorted(ids), tasks
    assert all(task.due_time.ToMilliseconds() > now_ms() for task in tasks), tasks


def a_purge_forgets_what_it_is_told_to(world):
    answer = world.queue_stub().PurgeDead(queue_pb2.PurgeDeadRequest(
        queue="dying", error_contains="no such error"), timeout=LIMIT_S)
    assert answer.purged == 0, answer
    letters = dead_letters(world, "dying")
    answer = world.queue_stub().PurgeDead(queue_pb2.PurgeDeadRequest(
        queue="dying", ids=[letters[0].id]), timeout=LIMIT_S)
    assert answer.purged == 1, answer
    assert ended(world, id=letters[0].id) is None
    answers = pages(world.queue_stub().PurgeDead, queue_pb2.PurgeDeadRequest(queue="dying"))
    assert sum(answer.purged for answer in answers) == len(letters) - 1, answers
    assert not dead_letters(world, "dying")


def a_key_that_is_held_by_another_is_not_taken_by_a_redrive(world):
    world.queue("short", f"receiver://{world.target.address}",
                key_memory=duration_pb2.Duration(nanos=1000000))
    dead = kill_some(world, "short", 1, "held %d")[0]
    key = "short-held-0"
    time.sleep(0.1)
    other = world.create("short", key=key, due_time=timestamp(now_ms() + FAR_MS))
    assert other.created, other
    answer = world.queue_stub().RedriveDead(queue_pb2.RedriveDeadRequest(
        queue="short", ids=[dead]), timeout=LIMIT_S)
    assert (answer.redriven, answer.skipped) == (0, 1), answer
    assert ended(world, id=dead).state == task_pb2.TASK_STATE_DEAD


# ---- the life of a queue ----

def ask_queue(world, method, **fields):
    request = getattr(queue_pb2, f"{method}QueueRequest")(**fields)
    return getattr(world.queue_stub(), method)(request, timeout=LIMIT_S)


def stats_of(world, name):
    answer = world.queue_stub().GetStats(queue_pb2.GetQueueStatsRequest(name=name),
                                         timeout=LIMIT_S)
    assert answer.queue.name == name and not answer.stats.missing_shards, answer
    return answer.stats


def a_paused_queue_waits_until_it_is_resumed(world):
    world.queue("held", f"receiver://{world.target.address}")
    answer = confirmed(lambda: ask_queue(world, "Pause", name="held"))
    assert answer.queue.state == queue_pb2.QUEUE_STATE_PAUSED, answer
    assert not answer.queue.HasField("paused_until"), answer
    task = world.create("held")
    harness.until("the reason", lambda: world.stub().Explain(
        task_pb2.ExplainTaskRequest(id=task.id), timeout=LIMIT_S).reason ==
        task_pb2.WAIT_REASON_QUEUE_PAUSED)
    assert not world.target.of(task.id)
    updated = world.queue_stub().Update(queue_pb2.UpdateQueueRequest(queue=queue_pb2.Queue(
        name="held", target=f"receiver://{world.target.address}", concurrency_max=7)),
        timeout=LIMIT_S).queue
    assert updated.state == queue_pb2.QUEUE_STATE_PAUSED, updated
    answer = ask_queue(world, "Resume", name="held")
    assert answer.queue.state == queue_pb2.QUEUE_STATE_ACTIVE, answer
    assert answer.queue.concurrency_max == 7, answer
    world.target.wait(lambda: world.target.of(task.id), "the attempt")


def a_pause_ends_by_itself(world):
    asked_ms = now_ms()
    answer = confirmed(lambda: ask_queue(world, "Pause", name="held",
                                         duration=duration_pb2.Duration(seconds=1)))
    until_ms = answer.queue.paused_until.ToMilliseconds()
    assert asked_ms + 950 <= until_ms <= now_ms() + 1100, (asked_ms, answer)
    task = world.create("held")
    made_ms = now_ms()
    pairs = world.target.wait(lambda: world.target.of(task.id), "the attempt")
    assert pairs[0][1] >= until_ms - 1, (pairs[0][1], until_ms)
    assert pairs[0][1] <= max(until_ms, made_ms) + 2000, (pairs[0][1], until_ms, made_ms)


def a_draining_queue_takes_nothing_and_can_be_deleted_when_it_is_empty(world):
    world.queue("leaving", f"receiver://{world.target.address}")
    tasks = [far(world, "leaving") for _ in range(5)]
    expect(PRECONDITION, "QUEUE_NOT_DRAINING",
           lambda: ask_queue(world, "Delete", name="leaving"))
    answer = confirmed(lambda: ask_queue(world, "Drain", name="leaving"))
    assert answer.queue.state == queue_pb2.QUEUE_STATE_DRAINING, answer
    for _ in range(2):
        expect(PRECONDITION, "QUEUE_DRAINING", lambda: world.create("leaving"))
    result = world.stub().BatchCreate(task_pb2.BatchCreateTasksRequest(
        queue="leaving", items=[task_pb2.CreateTaskRequest()]), timeout=LIMIT_S).results[0]
    assert (result.error.reason, result.error.field) == ("QUEUE_DRAINING", "items[0].queue"), result
    expect(PRECONDITION, "QUEUE_NOT_EMPTY", lambda: deleted(world, "leaving"),
           words="5 tasks and 0 dead letters")
    world.stub().BatchCancel(task_pb2.BatchCancelTasksRequest(
        items=[task_pb2.CancelTaskRequest(id=task.id) for task in tasks]), timeout=LIMIT_S)
    answer = deleted(world, "leaving")
    if answer.unconfirmed_brokers:  # It cannot be made again; until they read it they still drain.
        harness.until("all brokers to read it", lambda: all(
            refusal_of(stub, "leaving") == "QUEUE_NOT_FOUND" for stub in world.tasks),
                      CONFIRM_TRIES * CONFIRM_WAIT_S)
    for _ in range(2):
        expect(NOT_FOUND, "QUEUE_NOT_FOUND", lambda: world.create("leaving"))
        expect(NOT_FOUND, "QUEUE_NOT_FOUND", lambda: ask_queue(world, "Drain", name="leaving"))
    world.queue("leaving", f"receiver://{world.target.address}")
    made = world.create("leaving")
    world.target.wait(lambda: world.target.of(made.id), "the attempt")


def deleted(world, name):
    """Delete, again as long as a broker has not read the drain."""
    def try_it():
        try:
            return waited_for_all(lambda: ask_queue(world, "Delete", name=name))
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:
                raise
            return None
    return harness.until("the deletion", try_it)


def refusal_of(stub, queue):
    """Why a broker makes no task in a queue."""
    try:
        answer = stub.Create(task_pb2.CreateTaskRequest(queue=queue), timeout=LIMIT_S)
    except grpc.RpcError as error:
        return stubs.details_of(error)[0]
    raise AssertionError(f"not refused: {answer}")


def figures_count_what_is_there(world):
    world.queue("counted", f"receiver://{world.target.address}")
    assert stats_of(world, "counted").pending == 0
    due_ms = now_ms() + FAR_MS
    for i in range(30):
        world.create("counted", due_time=timestamp(due_ms + i))
    kill_some(world, "counted", 2, "counted %d")
    done = world.create("counted")
    world.target.wait(lambda: world.target.of(done.id), "the attempt")
    stats = harness.until("the figures", lambda: (
        got if (got := stats_of(world, "counted")).done == 1 else None))
    assert (stats.pending, stats.overdue, stats.dead, stats.died) == (30, 0, 2, 2), stats
    assert stats.first_due_time.ToMilliseconds() == due_ms and stats.running == 0, stats
    assert abs(stats.count_time.ToMilliseconds() - now_ms()) < 10000, stats
    expect(NOT_FOUND, "QUEUE_NOT_FOUND", lambda: stats_of(world, "no-such-queue"))


CASES = [
    a_bulk_cancel_answers_every_item_for_itself, a_bulk_cancel_of_one_task_twice_is_one_cancel,
    an_empty_bulk_cancel_is_refused, run_now_runs_a_far_task_at_once,
    explain_says_what_a_task_waits_for, a_list_has_every_task_once_whatever_the_page,
    a_list_is_filtered_by_tags_times_and_states, lists_refuse_what_they_do_not_know,
    tags_and_expiry_go_to_the_receiver, a_result_is_kept_as_long_as_the_queue_says,
    without_memory_a_result_is_gone, a_task_whose_time_is_over_is_not_run,
    dead_letters_are_listed_and_counted_by_error, a_redrive_runs_dead_letters_again_under_their_ids,
    a_redrive_at_a_rate_spreads_the_due_times, a_token_made_up_by_hand_moves_no_task_into_the_past,
    a_purge_forgets_what_it_is_told_to,
    a_key_that_is_held_by_another_is_not_taken_by_a_redrive,
    a_paused_queue_waits_until_it_is_resumed, a_pause_ends_by_itself,
    a_draining_queue_takes_nothing_and_can_be_deleted_when_it_is_empty, figures_count_what_is_there,
]


if __name__ == "__main__":
    sys.exit(two_brokers.main(CASES, SHARDS))
