#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The judge of the nemesis bites: in journals in which one promise is broken, that one is found
and no other; what a fault or a promotion explains is not. The plan is a function of its seed. Ends
with "N passed, N failed"."""
import copy
import pathlib
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "tools"), str(HERE.parent / "lib")]
import faults  # noqa: E402
import history  # noqa: E402
import judge as judges  # noqa: E402
import keeper  # noqa: E402
import plan as plans  # noqa: E402
import proxy  # noqa: E402
import report  # noqa: E402

S = 1_000_000
NOW = 1_700_000_000 * S
DUE_MS = NOW // 1000 + 1000
TASK = "00a-0000010000000001"   # shard 2, in db0
OTHER = "00b-0000010000000001"  # shard 3, in db1
SERVED = {"served_s": 1.0, "figures": {}}


class Book:
    """Journals of a good run: TASK is made, claimed by broker a, called and done."""

    def __init__(self):
        self.producer = [
            {"t": NOW, "c": "p.1", "op": "create", "items": [
                {"p": "p.1", "k": 1, "due": DUE_MS, "plan": "done"}]},
            {"t": NOW + 100, "c": "p.1", "st": "OK", "items": [[TASK, True, DUE_MS]]}]
        self.receiver = self.call(TASK, 1, DUE_MS * 1000 + 500)
        self.nemesis = [{"t": NOW, "kind": "broker", "name": "a", "instance": "ia"},
                        {"t": NOW, "kind": "broker", "name": "b", "instance": "ib"},
                        {"t": NOW - 9 * S, "kind": "owner", "shard": 2, "name": "a"},
                        {"t": NOW - 9 * S, "kind": "owner", "shard": 3, "name": "b"},
                        {"t": NOW + 100 * S, "kind": "heal"}]
        self.lines = [[NOW + 50, "make", "ia", 2, TASK, 0],
                      [DUE_MS * 1000 - 50, "claim", "ia", 2, TASK, 1],
                      [DUE_MS * 1000 + 900, "end", "ia", 2, TASK, 0]]
        self.pending, self.dead, self.left = [], [], []
        self.quiet = copy.deepcopy(SERVED)

    @staticmethod
    def call(task, number, at_us, out="done", deadline_ms=DUE_MS + 3000, due_ms=DUE_MS):
        """An attempt, answered half a millisecond later."""
        return [{"t": at_us, "id": task, "n": number, "p": "p.1", "out": out, "due": due_ms,
                 "dl": deadline_ms}, {"t": at_us + 500, "id": task, "n": number, "end": out}]

    def change(self, op, at_us, answer, **ask):
        """A call about TASK and its answer."""
        name = f"p.{len(self.producer)}"
        self.producer += [{"t": at_us, "c": name, "op": op, "id": TASK, **ask},
                          {"t": at_us + 100, "c": name, "st": "OK", **answer}]

    def repeat(self, after_ms=3500):
        """Attempt 2, by broker a, after its due time."""
        self.receiver += self.call(TASK, 2, (DUE_MS + after_ms) * 1000,
                                   deadline_ms=DUE_MS + after_ms + 3000)
        self.lines.append([(DUE_MS + after_ms) * 1000 - 50, "claim", "ia", 2, TASK, 2])

    def fault(self, begin_ms, end_ms, brokers=(), databases=(), receivers=(), what="kill"):
        number = len(self.nemesis)
        self.nemesis += [
            {"t": (DUE_MS + begin_ms) * 1000, "kind": "begin", "fault": number,
             "what": what, "brokers": list(brokers), "databases": list(databases),
             "receivers": list(receivers), "shards": [2]},
            {"t": (DUE_MS + end_ms) * 1000, "kind": "end", "fault": number}]

    def late(self, late_ms, task=TASK):
        """The only attempt comes so late."""
        self.receiver = self.call(task, 1, (DUE_MS + late_ms) * 1000, deadline_ms=DUE_MS + 9000)

    def owner(self, at_ms, shard, name):
        self.nemesis.append({"t": (DUE_MS + at_ms) * 1000, "kind": "owner", "shard": shard,
                             "name": name})

    def judge(self):
        databases = {"shards": {n: f"db{n % 2}" for n in range(8)}, "lines": self.lines,
                     "pending": self.pending, "dead": self.dead, "left": self.left}
        return judges.Judge(history.History([self.producer], [self.receiver], self.nemesis,
                                            databases), self.quiet)

    def broken(self):
        return {verdict.name for verdict in self.judge().failed()}

    def lose(self, *kinds):
        """The lines of these kinds are only with an old primary."""
        gone = [line for line in self.lines if line[1] in kinds]
        self.lines = [line for line in self.lines if line[1] not in kinds]
        self.left = [{"database": "db0", "lines": gone}]


def a_good_run_is_good():
    book = Book()
    assert book.broken() == set(), book.broken()


def a_lost_task_is_found():
    book = Book()
    book.receiver = []
    assert book.broken() == {"lost"}, book.broken()
    book.pending = [[TASK, 0, DUE_MS, "p.1"]]
    assert book.broken() == {"lost"}, book.broken()  # Overdue.
    book.pending = [[TASK, 0, DUE_MS + 10**9, "p.1"]]
    assert book.broken() == set(), book.broken()


def a_task_that_the_promotion_lost_is_counted():
    book = Book()
    book.receiver = []
    book.lose("make", "claim", "end")
    judge = book.judge()
    assert not judge.failed() and judge.lost_work["creates"] == 1, judge.lost_work


def a_cancelled_task_is_not_lost():
    book = Book()
    book.receiver = []
    book.change("cancel", NOW + S // 2, {"out": "CANCELLED", "n": 0})
    assert book.broken() == set(), book.broken()


def an_early_attempt_is_found():
    book = Book()
    book.receiver = book.call(TASK, 1, DUE_MS * 1000 - 1)
    assert book.broken() == {"early"}, book.broken()


def an_attempt_with_an_earlier_due_time_than_asked_is_found():
    book = Book()
    book.receiver = book.call(TASK, 1, DUE_MS * 1000 - 5000, due_ms=DUE_MS - 10)
    assert book.broken() == {"early"}, book.broken()


def a_number_that_does_not_rise_is_found():
    book = Book()
    book.receiver = book.call(TASK, 2, DUE_MS * 1000 + 400, "retry") + book.receiver
    assert book.broken() == {"order"}, book.broken()


def a_late_delivery_that_was_refused_is_no_fault():
    book = Book()
    book.receiver += book.call(TASK, 1, DUE_MS * 1000 + 4 * S, "late")
    assert book.broken() == set(), book.broken()


def a_repeat_without_a_fault_is_found():
    book = Book()
    book.repeat()
    assert book.broken() == {"repeats"}, book.broken()


def a_repeat_is_excused_by_a_fault_on_whom_its_claim_was_live():
    for who in ({"brokers": "a"}, {"databases": ["db0"]}, {"receivers": [0]}):
        book = Book()
        book.repeat()
        book.fault(100, 200, **who)
        assert book.broken() == set(), (who, book.broken())
        assert book.judge().excused == {"kill": 1}
    for who in ({"brokers": "b"}, {"databases": ["db1"]}, {"receivers": [1]}):
        book = Book()
        book.repeat()
        book.fault(100, 200, **who)
        assert book.broken() == {"repeats"}, (who, book.broken())


def a_fault_before_the_claim_or_after_the_deadline_excuses_nothing():
    for begin_ms, end_ms in ((-900, -1), (3001, 3200)):
        book = Book()
        book.repeat()
        book.fault(begin_ms, end_ms, brokers="a")
        assert book.broken() == {"repeats"}, book.broken()


def a_repeat_of_what_was_answered_too_late_is_no_fault():
    book = Book()
    book.repeat()
    book.receiver[1]["t"] = (DUE_MS + 501) * 1000
    assert book.broken() == set(), book.broken()
    book.receiver[1]["t"] = (DUE_MS + 499) * 1000
    assert book.broken() == {"repeats"}, book.broken()


def a_repeat_behind_a_move_is_excused_by_stalls_only():
    for stalls, broken in (([], True), ([[DUE_MS * 1000, DUE_MS * 1000 + S]], False)):
        book = Book()
        book.repeat()
        book.quiet["spans"] = stalls
        assert book.broken() == {"repeats"}, book.broken()  # It has not moved.
        book.nemesis.append({"t": (DUE_MS + 50) * 1000, "kind": "owner", "shard": 2, "name": "b"})
        assert book.broken() == ({"repeats"} if broken else set()), book.broken()


def zookeepers_stop_excuses_nothing_until_it_is_back():
    for hurt_ms, broken in ((3100, True), (2900, False)):
        book = Book()
        book.repeat()
        book.fault(-2500, 5000)
        book.nemesis.append({"t": (DUE_MS + hurt_ms) * 1000, "kind": "hurt",
                             "fault": book.nemesis[-1]["fault"], "brokers": ["a"]})
        assert book.broken() == ({"repeats"} if broken else set()), (hurt_ms, book.broken())


def a_fault_on_the_next_owner_excuses():
    book = Book()
    book.repeat()
    book.fault(100, 200, brokers="b")
    book.nemesis.append({"t": (DUE_MS + 50) * 1000, "kind": "owner", "shard": 2, "name": "b"})
    assert book.broken() == set(), book.broken()


def a_repeat_before_the_deadline_is_found():
    book = Book()
    book.repeat(2999)
    book.fault(100, 200, brokers="a")
    assert book.broken() == {"overlap"}, book.broken()


def an_overlap_by_a_claim_that_the_promotion_lost_is_counted():
    book = Book()
    book.receiver += book.call(TASK, 1, DUE_MS * 1000 + 800)
    book.lose("claim")
    assert book.broken() == set(), book.broken()


def a_second_end_is_found():
    book = Book()
    book.lines.append([DUE_MS * 1000 + 950, "end", "ia", 2, TASK, 0])
    assert book.broken() == {"one outcome"}, book.broken()


def what_is_done_and_pending_is_found():
    book = Book()
    book.pending = [[TASK, 0, DUE_MS + 10**9, "p.1"]]
    assert book.broken() == {"one outcome"}, book.broken()


def a_stale_write_is_found():
    book = Book()
    book.lines.append([NOW + 60, "stale", "ib", 2, "000-0000000000000000", 0])
    assert book.broken() == {"stale"}, book.broken()


def an_epoch_that_does_not_rise_is_found():
    for first, second, is_lost in ((512, 512, False), (768, 512, False), (512, 512, True)):
        book = Book()
        bumps = [[NOW + at, "bump", "ib", 2, f"000-{epoch:016x}", 0]
                 for at, epoch in ((1, first), (2, second))]
        if is_lost:
            book.left = [{"database": "db0", "lines": bumps[:1]}]
            bumps = bumps[1:]
        book.lines += bumps
        assert book.broken() == {"stale"}, book.broken()


def an_id_that_is_given_twice_is_found():
    book = Book()
    book.producer += [{"t": NOW, "c": "p.2", "op": "create", "items": [
        {"p": "p.2", "k": 0, "due": DUE_MS, "plan": "done"}]},
                      {"t": NOW + S, "c": "p.2", "st": "OK", "items": [[TASK, True, DUE_MS]]}]
    assert book.broken() == {"keys"}, book.broken()


def an_attempt_that_was_claimed_twice_is_found():
    book = Book()
    book.lines.append([DUE_MS * 1000 - 40, "claim", "ib", 2, TASK, 1])
    assert book.broken() == {"stale"}, book.broken()


def an_attempt_after_a_cancel_is_found():
    for out, number, broken in (("CANCELLED", 0, True), ("STOPPED", 1, False), ("GONE", 0, False),
                                ("STOPPED", 0, True)):
        book = Book()
        book.change("cancel", NOW + S // 2, {"out": out, "n": number})
        assert book.broken() == ({"cancelled"} if broken else set()), (out, book.broken())


def a_cancel_that_does_not_know_the_task_is_found():
    book = Book()
    book.change("cancel", NOW + S // 2, {"out": "NOT_FOUND", "n": 0})
    assert book.broken() == {"cancelled"}, book.broken()


def an_attempt_by_an_old_due_time_is_found():
    book = Book()
    book.change("update", NOW + S // 2, {"due": DUE_MS + 500, "n": 0}, due=DUE_MS + 500)
    assert book.broken() == {"updates"}, book.broken()
    book = Book()
    book.change("update", NOW + S // 2, {"due": DUE_MS + 500, "n": 1}, due=DUE_MS + 500)
    assert book.broken() == set(), book.broken()


def a_key_with_two_tasks_is_found():
    book = Book()
    book.producer += [{"t": NOW + S, "c": "p.2", "op": "create", "items": [
        {"p": "p.1", "k": 1, "due": DUE_MS, "plan": "done"}]},
                      {"t": NOW + S, "c": "p.2", "st": "OK", "items": [[OTHER, True, DUE_MS]]}]
    book.receiver += [dict(line, id=OTHER) for line in book.receiver]
    assert book.broken() == {"keys"}, book.broken()


def a_refused_create_that_has_happened_is_found():
    for status, reason, broken in (("UNAVAILABLE", "OWNER_UNKNOWN", True),
                                   ("RESOURCE_EXHAUSTED", "OVERLOADED", True),
                                   ("UNKNOWN", "OUTCOME_UNKNOWN", False),
                                   ("UNAVAILABLE", "", False)):
        book = Book()
        book.producer[1] = {"t": NOW + 100, "c": "p.1", "st": status, "why": reason}
        assert book.broken() == ({"honest"} if broken else set()), (status, book.broken())


def a_broker_that_ends_by_itself_is_found():
    for line in ({"kind": "ended", "name": "a", "status": -6, "log": "a.1.err"},
                 {"kind": "drained", "name": "a", "status": 1},
                 {"kind": "watchdog", "name": "a", "ended": False}):
        book = Book()
        book.nemesis.append({"t": NOW, **line})
        assert book.broken() == {"brokers"}, book.broken()


def a_slow_recovery_is_found():
    for quiet in ({"served_s": None}, {"served_s": 5.6}, {"served_s": 1, "figures": {"x": 1}}):
        book = Book()
        book.quiet = quiet
        assert book.broken() == {"recovery"}, book.broken()
    book = Book()
    book.quiet = {"served_s": 5.6, "stalled": True}
    assert book.broken() == set(), book.broken()


def a_gap_ends_with_the_last_late_task():
    book = Book()
    book.fault(-100, 100, brokers="a")
    book.receiver = book.call(TASK, 1, (DUE_MS + 700) * 1000)
    gap_s, is_alone = next(iter(book.judge().gaps().values()))
    assert (round(gap_s, 3), is_alone) == (0.8, True), gap_s


def a_gap_that_is_too_long_is_found():
    for late_s, stalls, broken in ((5.3, [], False), (5.6, [], True),
                                   (5.6, [[DUE_MS * 1000, DUE_MS * 1000 + S]], False)):
        book = Book()
        book.fault(-100, 100, brokers="a")
        book.receiver = book.call(TASK, 1, DUE_MS * 1000 + int(late_s * S),
                                  deadline_ms=DUE_MS + 9000)
        book.quiet["spans"] = stalls
        assert book.broken() == ({"gap"} if broken else set()), (late_s, book.broken())


def a_shard_that_moves_in_order_for_too_long_is_found():
    for what, moves, late_ms, stalls, broken in (
            ("term", True, 199, [], False), ("join", True, 201, [], True),
            ("term", False, 201, [], False), ("term", False, 251, [], True),
            ("kill", True, 251, [], False),
            ("term", True, 251, [[DUE_MS * 1000, DUE_MS * 1000 + S // 10]], False)):
        book = Book()
        book.fault(-100, 100, what=what)
        book.late(late_ms)
        if moves:
            book.owner(50, 2, "b")
        book.quiet["spans"] = stalls
        assert book.broken() == ({"moves"} if broken else set()), (what, late_ms, book.broken())


def what_others_used_of_the_machine_excuses():
    for part, broken in ((0.24, True), (0.26, False)):
        book = Book()
        book.fault(-100, 100, what="term")
        book.late(260)
        book.quiet["samples"] = [[DUE_MS * 1000, DUE_MS * 1000 + S // 4, part]]
        assert book.broken() == ({"moves"} if broken else set()), (part, book.broken())


def a_move_beside_another_fault_says_nothing():
    for begin_ms, end_ms, broken in ((-9000, -6200, True), (-9000, -5900, False),
                                     (6050, 6080, False), (6200, 6300, True)):
        book = Book()
        book.fault(-100, 100, what="term")
        book.fault(begin_ms, end_ms, what="target")
        book.late(260)
        book.owner(50, 2, "b")
        assert book.broken() == ({"moves"} if broken else set()), (begin_ms, book.broken())


def a_task_that_was_written_late_waits_from_then_on():
    book = Book()
    book.fault(-100, 100, what="term")
    book.late(290)
    book.owner(50, 2, "b")
    book.lines[0][0] = (DUE_MS + 100) * 1000
    assert book.broken() == set(), book.broken()
    book.lines[0][0] = NOW
    assert book.broken() == {"moves"}, book.broken()
    book.lines.insert(1, [(DUE_MS + 100) * 1000, "change", "ia", 2, TASK, 0])
    assert book.broken() == set(), book.broken()
    book.lines[1][0] = (DUE_MS + 291) * 1000  # Behind its attempt.
    assert book.broken() == {"moves"}, book.broken()


def what_is_late_without_zookeeper_is_found():
    for late_ms, moves, what, broken in (
            (251, False, "zookeeper", True), (249, False, "zookeeper", False),
            (251, True, "zookeeper", False), (251, False, "leader", True)):
        book = Book()
        book.fault(-500, 900, what=what)
        book.nemesis.append({"t": (DUE_MS + 500) * 1000, "kind": "hurt", "brokers": ["a"],
                             "fault": book.nemesis[-1]["fault"]})
        book.late(late_ms)
        if moves:
            book.owner(-600, 2, "")
        assert book.broken() == ({"away"} if broken else set()), (late_ms, book.broken())


def the_page_has_every_fault_and_every_promise():
    book = Book()
    book.fault(-100, 100, brokers="a")
    book.late(5300)
    judge = book.judge()
    with tempfile.TemporaryDirectory() as folder:
        page = pathlib.Path(folder) / "page.md"
        report.write_page(page, judge, 0.01, "what was run")
        lines = page.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "what was run"
    assert any(line.startswith("| `kill` | 1 | 0 |") and "| 5.40 s |" in line for line in lines)
    for verdict in judge.verdicts:
        assert any(line.startswith(f"| {verdict.name} |") for line in lines), verdict.name


def what_is_alone_waits_for_what_is_beside():
    turns, order = faults.Turns(), []

    def alone():
        with turns.taken(True):
            order.append("alone")

    with turns.taken(False):
        thread = threading.Thread(target=alone)
        thread.start()
        with turns.change:
            assert turns.change.wait_for(lambda: turns.is_alone or order, 10)
        order.append("beside")
    thread.join()
    with turns.taken(False):
        order.append("next")
    assert order == ["beside", "alone", "next"], order


def the_plan_is_a_function_of_its_seed():
    first = plans.make(7, 180)
    assert first == plans.make(7, 180) and first != plans.make(8, 180)
    kinds = {kind for lane in plans.LANES.values() for kind in lane}
    assert {line["kind"] for seed in range(4) for line in plans.make(seed, 180)} == kinds
    for lane in plans.LANES:
        lines = [line for line in first if line["lane"] == lane]
        assert all(a["at_s"] + a["lasts_s"] <= b["at_s"] for a, b in zip(lines, lines[1:]))


def the_plan_leaves_room_for_faults_that_are_alone():
    for total_s in (45, 60, 90, 180, 1800):
        for seed in range(20):
            lines = plans.make(seed, total_s)
            alone = [line for line in lines if line["lane"] == "alone"]
            assert bool(alone) == (total_s >= 60), (total_s, seed)
            for one in alone:
                begin_s = one["at_s"] - plans.CALM_S
                end_s = one["at_s"] + one["lasts_s"] + plans.CALM_S
                assert end_s <= total_s
                assert not any(begin_s + 0.1 < line["at_s"] + line["lasts_s"] and
                               line["at_s"] < end_s - 0.1 for line in lines if line is not one), (total_s, seed, one)


def the_plan_of_a_long_run_has_zookeeper_away_for_a_minute():
    for total_s in (180, 300, 700, 1800):
        for seed in range(20):
            away = [line for line in plans.make(seed, total_s)
                    if line["kind"] == "zookeeper" and line["lane"] == "brokers"]
            assert len(away) >= max(1, total_s // plans.LONG_EVERY_S), (total_s, seed, away)
            assert all(line["lasts_s"] == 60 for line in away)


def the_proxy_knows_the_commit_of_a_write():
    def bind(name):
        body = b"\0" + name + b"\0" + b"\0" * 6
        return b"B" + (len(body) + 4).to_bytes(4, "big") + body

    messages = proxy.Messages()
    start = (8).to_bytes(4, "big") + proxy.STARTUP.to_bytes(4, "big")
    encrypt = (8).to_bytes(4, "big") + (80877103).to_bytes(4, "big")
    sync = b"S\0\0\0\4"
    text = encrypt + start + bind(b"begin") + bind(b"fence") + bind(b"commit") + sync
    found = messages.feed(text[:33]) + messages.feed(text[33:])
    assert b"".join(found) == text and len(found) == 6
    assert [messages.is_commit(one) for one in found] == [False] * 4 + [True, False]
    assert not messages.is_commit(bind(b"commit"))  # That of a read, which began otherwise.


def a_sessions_password_is_that_of_java():
    # new Random(0x100000000000000L ^ 0xB3415C00L).nextBytes(new byte[16])
    assert len(keeper.password_of(1 << 56)) == 16
    assert keeper.password_of(0xB3415C00)[:4] == (0xBB20B460).to_bytes(4, "little")


CASES = [case for name, case in list(globals().items())
         if callable(case) and getattr(case, "__module__", "") == "__main__" and
         name.startswith(("a_", "an_", "the_", "what_", "zookeepers_"))]


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
