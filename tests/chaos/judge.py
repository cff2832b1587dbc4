# SPDX-License-Identifier: Apache-2.0
"""Holds a history (history.py) against the promises K-1 … K-8. It knows nothing of the brokers:
only what clients asked and were answered, what receivers saw by their own clock, what the nemesis
did, and what is in the databases.

What a promotion has lost is known exactly: the lines that only the old primary has. Answered work
may be missing, repeated or undone only for tasks with such a line.
"""
import bisect
import collections
import itertools
import pathlib

import moves as pauses
import stalls

SESSION_S, TICK_S, SLACK_S = 4, 0.5, 1
ON_TIME_US = 250_000
# The watchdog looks four times in a session timeout. It ends a loop that has not turned for five of
# its looks, the first of which asked for a turn.
WATCHDOG_S = SESSION_S * 6 / 4
# Most seconds for a gap, of faults that nothing else came between. A loop that is stuck is ended
# first, and then its session has to expire.
GAP_MAX_S = {"kill": SESSION_S + TICK_S + SLACK_S, "pause": SESSION_S + TICK_S + SLACK_S,
             "keepercut": SESSION_S + TICK_S + SLACK_S, "expire": SESSION_S + TICK_S + SLACK_S,
             "stuck": WATCHDOG_S + SESSION_S + TICK_S + SLACK_S}
SLOW_MS = 2500
MOVE_US = 200_000   # For so long a shard stands still that is moved in order: 99 of 100.
BEFORE_US = 1_000_000  # What happens so shortly before a task is ready holds it up, too.
START_US = 8_000_000   # A fault makes tasks late within this, or not at all.
CALM_US = 1_000_000    # A gap is over when no task was late for so long.
AFTER_US = 6_000_000   # So long behind its end a fault still disturbs the gaps of others.
AHEAD_US = 15_000_000  # Behind the end of a fault, for how long a gap is looked for.


class Verdict:
    """A promise, what breaks it, and how often a promotion's loss has excused it."""

    def __init__(self, name, text):
        self.name, self.text = name, text
        self.faults = []
        self.lost = 0  # excused by what the promotion has lost
        self.excused = 0  # by stalls of the machine

    def add(self, fault):
        self.faults.append(fault)


class Judge:
    """The verdicts over one history."""

    def __init__(self, history, quiet=None):
        self.it = history
        self.quiet = quiet or {}
        self.machine = stalls.Stalls(pathlib.Path())  # As it was measured then.
        self.machine.spans = self.quiet.get("spans", [])
        self.machine.samples = self.quiet.get("samples", [])
        self.verdicts = []
        self.excused = collections.Counter()   # by what fault
        self.lost_work = collections.Counter()
        self.pauses = {}  # moved, stayed, away → Pauses
        self.judge()

    def judge(self):
        for check in (self.lost, self.rising, self.one_outcome, self.early, self.stale,
                      self.overlap, self.repeats, self.cancelled, self.updates, self.keys,
                      self.honest, self.brokers, self.gap, self.moves, self.away, self.recovery):
            self.verdicts.append(check())

    def failed(self):
        return [verdict for verdict in self.verdicts if verdict.faults]

    def is_lost(self, task, verdict, *kinds):
        """True if a promotion has lost something of this task that explains what was found."""
        if self.it.lost.get(task, set()) & set(kinds):
            verdict.lost += 1
            return True
        return False

    # ---- what has become of a task ----

    def is_done(self, task):
        return any(one.out in ("done", "obsolete") and one.end_us
                   for one in self.it.attempts.get(task, ()))

    def was_cancelled(self, task):
        """By an answer, or perhaps by a call that was never answered."""
        for _, _, op, word, answer, _ in self.it.changes.get(task, ()):
            if op == "cancel" and (word == "unknown" or
                                   word == "ok" and answer["out"] in ("CANCELLED", "STOPPED")):
                return True
        return False

    def tasks(self):
        """(id, item, answered at) of all that was answered OK."""
        for item in self.it.items.values():
            for at_us, _, task, word, _ in item.answers:
                if word == "ok":
                    yield task, item, at_us

    def lost(self):
        """K-1, K-2: answered OK, and neither done nor cancelled nor in a database."""
        verdict = Verdict("lost", "answered work is in effect")
        for task in {task for task, _, _ in self.tasks()}:
            if task in self.it.dead or self.is_done(task) or self.was_cancelled(task):
                continue
            if task in self.it.pending:
                if self.it.pending[task][2] * 1000 < self.it.heal_us:
                    verdict.add(f"{task} was due and is still pending")
                continue
            if self.is_lost(task, verdict, "make", "change"):
                self.lost_work["creates"] += 1
            else:
                verdict.add(f"{task} is lost")
        return verdict

    def rising(self):
        """K-2: the numbers of a task's attempts only rise. What comes after its own deadline was
        held up by the network, and is refused."""
        verdict = Verdict("order", "attempt numbers rise")
        for task, lines in self.it.attempts.items():
            highest = 0
            for one in lines:
                if one.out != "late" and one.number <= highest and \
                        not self.is_lost(task, verdict, "claim", "make", "change", "end"):
                    verdict.add(f"{one!r} came after attempt {highest}")
                highest = max(highest, one.number)
        return verdict

    def one_outcome(self):
        """K-3: a task ends once; what is done is not pending."""
        verdict = Verdict("one outcome", "a task ends once, each attempt is claimed once")
        for task, count in self.it.ends.items():
            redriven = sum(one.out == "dead" for one in self.it.attempts.get(task, ()))
            if count > 1 + redriven and not self.is_lost(task, verdict, "end"):
                verdict.add(f"{task} ended {count} times")
        for task in self.it.pending:
            if self.is_done(task) and \
                    not self.is_lost(task, verdict, "end", "claim", "change", "make"):
                verdict.add(f"{task} is done and still pending")
        return verdict

    def is_behind(self, task, asked_us, answered_us):
        """True if the clock of a task's database, from which delays count, was put back between."""
        return any(fault.what == "baseclock" and self.it.shard_of(task) in fault.shards and
                   fault.begin_us - AFTER_US < answered_us and
                   asked_us < fault.end_us + AFTER_US
                   for fault in self.it.faults)

    def early(self):
        """K-4: no attempt before its due time, by the receiver's clock; none with another due time
        than was asked for."""
        verdict = Verdict("early", "never before the due time")
        asked = {}
        for task, item, answered_us in self.tasks():
            asked_us = min(answer[1] for answer in item.answers)
            if not item.is_delay or not self.is_behind(task, asked_us, answered_us):
                asked[task] = item.due_ms
        for task, lines in self.it.attempts.items():
            moved = [change for change in self.it.changes.get(task, ())
                     if change[2] in ("update", "run")]
            for one in lines:
                if one.at_us < one.due_ms * 1000:
                    verdict.add(f"{one!r} came {one.due_ms * 1000 - one.at_us} µs early")
                elif task in asked and not moved and one.at_us < asked[task] * 1000:
                    verdict.add(f"{one!r} came before {asked[task]}, which was asked for")
        return verdict

    def stale(self):
        """K-5: nobody writes to a shard that is another's; epochs of a shard rise."""
        verdict = Verdict("stale", "no write of an old epoch is visible")
        for line in self.it.stale:
            verdict.add(f"written by another than the owner: {line}")
        for shard, bumps in self.it.bumps.items():
            for before, after in zip(bumps, bumps[1:]):
                if after <= before:
                    verdict.add(f"shard {shard}: epoch {after} after {before}")
            for epoch in self.it.lost_bumps[shard] & set(bumps):
                verdict.add(f"shard {shard}: epoch {epoch} was lost, and was given again")
        if self.it.lines["claimed twice"]:
            verdict.add(f"{self.it.lines['claimed twice']} attempts were claimed twice")
        return verdict

    def pairs(self):
        """Attempts in a row of one task that the receiver took, the first of them not failed."""
        for task, lines in self.it.attempts.items():
            taken = [one for one in lines if one.out != "late"]
            for first, second in zip(taken, taken[1:]):
                if first.out in ("done", "obsolete"):
                    yield task, first, second

    @staticmethod
    def was_slow(attempt):
        """True if the answer may have come after the attempt's time: a deadline is 2 s behind the
        end of an attempt that starts at its due time, and the answer has a way to go."""
        return not attempt.end_us or attempt.end_us > (attempt.deadline_ms - SLOW_MS) * 1000

    def moved_slowly(self, attempt):
        """True if the shard of an attempt changed hands while its claim was live, on a machine that
        stood still: its outcome is told to the new owner, who may have come too late for it."""
        owner = self.it.owner_of(attempt)
        span = (owner[1] if owner else attempt.at_us, attempt.deadline_ms * 1000)
        names = self.it.owners_in(self.it.shard_of(attempt.task), *span)
        return len(names) > 1 and self.machine.excuses(*span)

    def overlap(self):
        """K-6: no attempt before the deadline of one whose outcome is not known."""
        verdict = Verdict("overlap", "no repeat before the deadline")
        for task, first, second in self.pairs():
            if second.at_us < first.deadline_ms * 1000 and \
                    not self.is_lost(task, verdict, "claim", "make", "change", "end"):
                early_ms = first.deadline_ms - second.at_us // 1000
                verdict.add(f"{second!r} came {early_ms} ms before the deadline of {first!r}")
        return verdict

    def repeats(self):
        """K-6: what was done in time is repeated only if its claim was live at a fault on its
        owner, its database or its receiver."""
        verdict = Verdict("repeats", "only of claims that were live at a fault")
        for task, first, second in self.pairs():
            fault = self.it.excuse(first)
            if self.is_lost(task, verdict, "end", "claim", "change", "make"):
                self.lost_work["outcomes"] += 1
            elif fault is not None:
                self.excused[fault.what] += 1
            elif self.moved_slowly(first):
                self.excused["(moved while the machine stalled)"] += 1
            elif self.was_slow(first):
                self.excused["(answered after its time)"] += 1
            else:
                verdict.add(f"{second!r} repeats {first!r} of {self.it.owner_of(first)}, "
                            "at whose claim nothing was hurt")
        return verdict

    def cancelled(self):
        """A cancel's answer holds: no attempt ever, or none above the one it names."""
        verdict = Verdict("cancelled", "no attempt after CANCELLED, none after STOPPED's")
        for task, changes in self.it.changes.items():
            lines = self.it.attempts.get(task, ())
            for _, _, op, word, answer, _ in changes:
                if op != "cancel" or word != "ok":
                    continue
                highest = {"CANCELLED": 0, "STOPPED": answer["n"]}.get(answer["out"])
                late = [one for one in lines if highest is not None and one.number > highest]
                if late and not self.is_lost(task, verdict, "end", "make", "change", "claim"):
                    verdict.add(f"{answer['out']} {answer['n']}, and then {late}")
                elif late:
                    self.lost_work["cancels"] += 1
                if answer["out"] == "NOT_FOUND" and \
                        not self.is_lost(task, verdict, "make"):
                    verdict.add(f"NOT_FOUND for {task}, which was answered OK")
        return verdict

    def updates(self):
        """An answered change of the due time holds for every attempt but the one it names."""
        verdict = Verdict("updates", "a moved task runs at its new time")
        for task, changes in self.it.changes.items():
            moves = [change for change in changes if change[2] in ("update", "run")]
            if len(moves) != 1 or moves[0][3] != "ok" or moves[0][2] != "update":
                continue
            answered_us, _, _, _, answer, ask = moves[0]
            if any(one.out == "dead" for one in self.it.attempts.get(task, ())):
                continue  # It was revived, to run at once.
            for one in self.it.attempts.get(task, ()):
                if one.number > answer["n"] and one.due_ms < ask["due"] and \
                        answered_us < one.at_us < ask["due"] * 1000 and \
                        not self.is_lost(task, verdict, "change", "claim", "make"):
                    verdict.add(f"{one!r} came by the old due time, attempt {answer['n']} might")
        return verdict

    def keys(self):
        """A create that is repeated with its key makes one task."""
        verdict = Verdict("keys", "one task for each key, one id for each task")
        tokens = {}
        for task, item, _ in self.tasks():
            if tokens.setdefault(task, item.token) != item.token:
                verdict.add(f"{task} is {tokens[task]} and {item.token}")
        for item in self.it.items.values():
            ids = item.ids()
            if len(ids) > 1 and not any(self.is_lost(task, verdict, "make", "end") for task in ids):
                verdict.add(f"{item.token} is {sorted(ids)}")
        return verdict

    def honest(self):
        """K-8: what was answered UNAVAILABLE or RESOURCE_EXHAUSTED has not happened."""
        verdict = Verdict("honest", "UNAVAILABLE means that nothing happened")
        seen = {one.token for lines in self.it.attempts.values() for one in lines}
        seen |= {row[3] for row in (*self.it.pending.values(), *self.it.dead.values())}
        for item in self.it.items.values():
            if item.is_nothing() and item.token in seen:
                verdict.add(f"{item.token} was refused, and exists")
        return verdict

    def brokers(self):
        """Nobody ends by itself, an orderly end is one, and a stuck loop ends its process."""
        verdict = Verdict("brokers", "nobody ends by itself; drains are orderly")
        for line in self.it.events:
            if line["kind"] == "ended":
                verdict.add(f"{line['name']} has ended with {line['status']}: {line['log']}")
            elif line["kind"] == "drained" and line["status"] != 0:
                verdict.add(f"{line['name']} drained with {line['status']}")
            elif line["kind"] == "watchdog" and not line["ended"]:
                verdict.add(f"{line['name']} was stuck and has not ended itself")
        return verdict

    def gap(self):
        """K-7: a broker's shards are on time again within the session timeout, a tick and a
        second."""
        verdict = Verdict("gap", "within the promise, of faults that were alone")
        for fault, (gap_s, is_alone) in self.gaps().items():
            limit_s = GAP_MAX_S.get(fault.what)
            if limit_s is None or not is_alone or gap_s <= limit_s:
                continue
            if self.machine.excuses(fault.begin_us, fault.begin_us + gap_s * 1e6):
                verdict.excused += 1
            else:
                verdict.add(f"{fault.what} {fault.number}: {gap_s:.2f} s, the promise is "
                            f"{limit_s} s")
        return verdict

    def too_late(self, all_pauses, limit_us, verdict):
        """Pauses beyond the limit that nothing excuses."""
        late = [pause for pause in all_pauses if pause.late_us > limit_us]
        found = [pause for pause in late if not self.machine.excuses(
            pause.ready_us - BEFORE_US, pause.ready_us + pause.late_us)]
        verdict.excused += len(late) - len(found)
        return found

    def moves(self):
        """What moves in order stands still shortly, and what does not move not at all."""
        verdict = Verdict("moves", "orderly moves pause shortly, others never")
        moved, stayed = pauses.of_moves(self.it)
        self.pauses["moved"], self.pauses["stayed"] = moved, stayed
        late = self.too_late(moved, MOVE_US, verdict)
        for pause in late if len(late) > len(moved) // 100 else ():
            verdict.add(f"{pause!r}, one of {len(moved)}")
        for pause in self.too_late(stayed, ON_TIME_US, verdict):
            verdict.add(f"{pause!r}, and it stayed")
        return verdict

    def away(self):
        """Without ZooKeeper what is owned is on time."""
        verdict = Verdict("away", "without ZooKeeper owned shards are on time")
        self.pauses["away"] = pauses.of_away(self.it)
        for pause in self.too_late(self.pauses["away"], ON_TIME_US, verdict):
            verdict.add(repr(pause))
        return verdict

    def recovery(self):
        """K-7: soon after the last fault every shard is served and nothing is overdue."""
        verdict = Verdict("recovery", "every shard is served, nothing is overdue")
        limit_s = GAP_MAX_S["kill"]
        served_s = self.quiet.get("served_s")
        if served_s is None or served_s > limit_s and not self.quiet.get("stalled"):
            verdict.add(f"every shard was served after {served_s} s, the promise is {limit_s} s")
        for name, value in self.quiet.get("figures", {}).items():
            if value:
                verdict.add(f"{name} is {value}")
        return verdict

    # ---- figures ----

    def last_late(self, fault, firsts, end_us):
        """When the last task came that a fault made late: tasks of its shards that were late one
        after the other, with no second between them in which all were on time."""
        found_us, edge_us = 0, fault.begin_us + START_US
        begin = bisect.bisect_right(firsts, fault.begin_us, key=lambda one: one.ready_us)
        for one in itertools.islice(firsts, begin, None):
            if one.ready_us > min(end_us, edge_us):
                break
            if one.at_us - one.ready_us > ON_TIME_US and \
                    self.it.shard_of(one.task) in fault.shards:
                found_us = max(found_us, one.at_us)
                edge_us = one.ready_us + CALM_US
        return found_us

    def gaps(self):
        """Fault → (seconds until the last task of its shards that it made late, 0 if it made none;
        whether no other fault was on these shards or on a broker meanwhile)."""
        found = {}
        firsts = self.it.firsts()
        faults = [fault for fault in self.it.faults if fault.left is None]
        for fault in faults:
            end_us = min(fault.end_us, self.it.heal_us) + AHEAD_US
            for other in faults:
                if other.begin_us > fault.begin_us and other.shards & fault.shards:
                    end_us = min(end_us, other.begin_us)
            last_us = self.last_late(fault, firsts, end_us) or fault.begin_us
            is_alone = not any(
                other is not fault and other.begin_us < last_us and
                other.end_us + AFTER_US > fault.begin_us and
                (other.brokers or other.shards & fault.shards) for other in faults)
            found[fault] = ((last_us - fault.begin_us) / 1e6, is_alone)
        return found

    def late_refused(self):
        return sum(one.out == "late" for lines in self.it.attempts.values() for one in lines)
