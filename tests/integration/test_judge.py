#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of clusters (tools/cluster.py) bites: each broken promise, written down by hand, is
found, and an unbroken history is not. Ends with "N passed, N failed"."""
import json
import pathlib
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import cluster as harness  # noqa: E402

SHARDS = 8
DUE_MS = 1_700_000_000_000
TASK = "00a-0000010000000001"  # in shard 2
OTHER = "00b-0000010000000001"  # in shard 3


def call(task, after_ms, attempt=1, due_ms=DUE_MS, deadline_ms=12_000, failed=False):
    """A line of `foliot receive`, so long after DUE_MS."""
    actual_us = (DUE_MS + after_ms) * 1000
    return {"taskId": task, "attempt": attempt, "dueMs": due_ms, "actualUs": actual_us,
            "latenessUs": actual_us - due_ms * 1000, "deadlineMs": DUE_MS + deadline_ms,
            "failed": failed}


def judge_of(answered, calls):
    """What a judge makes of files with these lines; the last line is still being written."""
    judge = harness.Judge(SHARDS)
    with tempfile.TemporaryDirectory() as folder:
        for name, lines in (("load", [{"id": task, "dueMs": DUE_MS} for task in answered]),
                            ("calls", [{"address": "a", "port": 1}] + calls)):
            text = "".join(json.dumps(line) + "\n" for line in lines) + '{"taskId":"00'
            pathlib.Path(folder, name).write_text(text, encoding="utf-8")
        judge.read_load(pathlib.Path(folder, "load"))
        judge.read_receiver(pathlib.Path(folder, "calls"))
    return judge


def found(judge):
    """Names of the promises that it calls broken."""
    return {name for name in ("lost", "early", "not_rising", "overlaps") if getattr(judge, name)()}


def a_good_history_is_good():
    judge = judge_of([TASK, OTHER], [
        call(TASK, 0), call(OTHER, 3, failed=True), call(OTHER, 900, 2)])
    assert found(judge) == set(), found(judge)
    assert (judge.count, judge.repeats()) == (3, 1)
    assert judge.lateness() == [0, 3000]


def a_repeat_after_the_deadline_is_good():
    judge = judge_of([TASK], [call(TASK, 0), call(TASK, 12_000, 2, deadline_ms=24_000)])
    assert found(judge) == set(), found(judge)


def a_lost_task_is_found():
    assert found(judge_of([TASK, OTHER], [call(TASK, 1)])) == {"lost"}


def a_task_of_an_unanswered_create_is_no_loss():
    assert found(judge_of([TASK], [call(TASK, 1), call(OTHER, 1)])) == set()


def an_early_attempt_is_found():
    assert found(judge_of([TASK], [call(TASK, -1)])) == {"early"}


def a_number_that_does_not_rise_is_found():
    for second in (1, 0):
        judge = judge_of([TASK], [call(TASK, 0, 1, failed=True), call(TASK, 900, second)])
        assert found(judge) == {"not_rising"}, found(judge)


def a_repeat_before_the_deadline_is_found():
    judge = judge_of([TASK], [call(TASK, 0), call(TASK, 11_999, 2)])
    assert found(judge) == {"overlaps"}, found(judge)


def gap_of(calls, shards, *end_us):
    """Gap in ms and worst lateness behind it in ms, after a kill at DUE_MS, of a broker that was dead
    20 ms later."""
    tasks = {line["taskId"] for line in calls}
    kill = harness.Kill(DUE_MS * 1000, DUE_MS * 1000 + 20_000, True)
    gap_us, worst_us = judge_of(tasks, calls).outage(kill, shards, *end_us)
    return gap_us // 1000, worst_us // 1000


def task_of(shard, number):
    return f"{shard:03x}-{number:016x}"


def a_gap_ends_with_the_last_late_first_attempt_of_the_shards():
    calls = [call(TASK, 5_000, due_ms=DUE_MS + 1_000), call(OTHER, 9_000, due_ms=DUE_MS + 1_000)]
    assert gap_of(calls, {2}) == (5_000, 0)
    assert gap_of(calls, {2, 3}) == (9_000, 0)
    assert gap_of(calls, {2, 3}, DUE_MS * 1000 + 6_000_000) == (5_000, 0)
    assert gap_of(calls, {4}) == (0, 0)


def a_gap_lasts_until_all_that_became_due_in_it_was_attempted():
    calls = [call(task_of(2, 1), 4_000, due_ms=DUE_MS + 3_900),  # It works again,
             call(task_of(2, 2), 7_000, due_ms=DUE_MS + 500)]    # and the backlog takes its time.
    assert gap_of(calls, {2}) == (7_000, 0)


def an_attempt_sent_before_the_kill_ends_no_gap():
    calls = [call(task_of(2, 1), 10, due_ms=DUE_MS - 5),
             call(task_of(2, 2), 6_000, due_ms=DUE_MS + 2_000)]
    assert gap_of(calls, {2}) == (6_000, 0)


def an_attempt_sent_by_the_dying_ends_no_gap():
    calls = [call(task_of(2, 1), 15, due_ms=DUE_MS + 15),
             call(task_of(2, 2), 6_000, due_ms=DUE_MS + 2_000)]
    assert gap_of(calls, {2}) == (6_000, 0)


def lateness_behind_a_gap_is_told_apart():
    calls = [call(task_of(2, 1), 4_000, due_ms=DUE_MS + 1_000),
             call(task_of(2, 2), 4_100, due_ms=DUE_MS + 4_050),
             call(task_of(2, 3), 5_800, due_ms=DUE_MS + 5_000)]
    assert gap_of(calls, {2}) == (4_000, 800)


CASES = [a_good_history_is_good, a_repeat_after_the_deadline_is_good, a_lost_task_is_found,
         a_task_of_an_unanswered_create_is_no_loss, an_early_attempt_is_found,
         a_number_that_does_not_rise_is_found, a_repeat_before_the_deadline_is_found,
         a_gap_ends_with_the_last_late_first_attempt_of_the_shards,
         a_gap_lasts_until_all_that_became_due_in_it_was_attempted,
         an_attempt_sent_before_the_kill_ends_no_gap, an_attempt_sent_by_the_dying_ends_no_gap,
         lateness_behind_a_gap_is_told_apart]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
        except AssertionError as error:
            failed += 1
            print(f"FAILED {case.__name__}: {error}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
