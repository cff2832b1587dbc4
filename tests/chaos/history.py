# SPDX-License-Identifier: Apache-2.0
"""A run as its journals and the databases tell it, put in order by task."""
import collections

import journal

MOVE_US = 2_000_000   # Shards that are moved when ZooKeeper stops have no owner to tell.
AHEAD_US = 4_000_000  # No attempt comes longer than this after its claim.
NOTHING = ("UNAVAILABLE", "RESOURCE_EXHAUSTED")


class Item:
    """One create: what was asked, and every answer to it. `nothing`: all of its answers say that
    nothing happened."""

    def __init__(self, line):
        self.token, self.has_key, self.due_ms = line["p"], bool(line["k"]), line["due"]
        self.plan = line["plan"]
        self.is_delay = bool(line.get("rel"))
        self.answers = []  # (answered at in µs, asked at in µs, id or "", word, due in ms)

    def ids(self):
        return {id_ for _, _, id_, _, _ in self.answers if id_}

    def is_nothing(self):
        return bool(self.answers) and all(word == "nothing" for _, _, _, word, _ in self.answers)


class Attempt:
    """What a receiver has seen of one attempt. `end` is what it answered, once it has."""

    def __init__(self, line):
        self.at_us, self.task, self.number = line["t"], line["id"], line["n"]
        self.due_ms, self.deadline_ms, self.token = line["due"], line["dl"], line["p"]
        self.out = line["out"]
        self.end_us = 0

    def __repr__(self):
        return f"{self.task}/{self.number}"


class Fault:
    """One that was done: on whom, from when to when."""

    def __init__(self, line):
        self.number, self.what, self.begin_us = line["fault"], line["what"], line["t"]
        self.hurt_us = self.begin_us  # from when claims of those that it is on may be lost
        self.end_us = 1 << 62
        self.brokers, self.databases = set(line["brokers"]), set(line["databases"])
        self.receivers, self.shards = set(line["receivers"]), set(line["shards"])
        self.left = None

    def hurts(self, brokers, database, receiver, begin_us, end_us):
        """True if it was on one of these at a moment of this span."""
        was_moving = (self.hurt_us > self.begin_us and self.begin_us <= end_us and
                      self.begin_us + MOVE_US >= begin_us)
        return (self.left is None and
                (self.hurt_us <= end_us and self.end_us >= begin_us or was_moving) and
                bool(self.brokers & brokers or database in self.databases or
                     receiver in self.receivers))


def word_of(status, reason):
    """What an answer says: nothing, unknown, refused. A status without a reason comes from the
    client's own library: then nobody knows."""
    if not reason or status in ("UNKNOWN", "DEADLINE_EXCEEDED", "CANCELLED", "INTERNAL"):
        return "unknown"
    return "nothing" if status in NOTHING else "refused"


class History:
    """Everything, by task. Built from lists of journal lines; the databases' side is
    {"shards": {shard: database}, "lines": […], "pending": […], "dead": […],
    "left": [{"lines": […]}]}."""

    def __init__(self, producers, receivers, nemesis, databases):
        self.items = {}      # token → Item
        self.changes = collections.defaultdict(list)   # id → (answered µs, op, answer), in order
        self.answers = collections.Counter()           # (op, word)
        self.attempts = collections.defaultdict(list)  # id → Attempts by arrival
        self.first_attempts = []
        self.faults = []
        self.instances = {}  # instance → broker
        self.owned = collections.defaultdict(list)  # shard → (since µs, broker or "")
        self.events = [line for line in nemesis if line["kind"] in ("ended", "drained", "watchdog")]
        self.shard_databases = databases["shards"]
        self.pending = {row[0]: row for row in databases["pending"]}
        self.dead = {row[0]: row for row in databases["dead"]}
        for lines in producers:
            self.read_producer(lines)
        for number, lines in enumerate(receivers):
            self.read_receiver(lines, number)
        self.read_nemesis(nemesis)
        self.read_databases(databases)

    def shard_of(self, task):
        return int(task[:3], 16) % len(self.shard_databases)

    def database_of(self, task):
        return self.shard_databases[self.shard_of(task)]

    # ---- producers ----

    def read_producer(self, lines):
        asked = {}
        for line in lines:
            if "op" in line:
                asked[line["c"]] = line
                for item in line.get("items", ()):
                    self.items.setdefault(item["p"], Item(item))
            else:
                self.answered(asked.pop(line["c"]), line)
        for line in asked.values():  # Never answered: the producer was ended.
            self.answered(line, {"t": 1 << 62, "st": "UNKNOWN", "why": ""})

    def answered(self, ask, answer):
        op = ask["op"]
        if op in ("create", "batch"):
            results = answer.get("items") or [["", answer["st"], answer.get("why", "")]] * \
                len(ask["items"])
            for item, (task, second, third) in zip(ask["items"], results):
                word = "ok" if task else word_of(second, third)
                self.answers["create", word] += 1
                self.items[item["p"]].answers.append(
                    (answer["t"], ask["t"], task, word, third if task else 0))
            return
        word = "ok" if answer["st"] == "OK" else word_of(answer["st"], answer.get("why", ""))
        self.answers[op, f"ok {answer['out']}" if word == "ok" and op == "cancel" else word] += 1
        if "id" in ask:
            self.changes[ask["id"]].append((answer["t"], ask["t"], op, word, answer, ask))

    # ---- receivers ----

    def read_receiver(self, lines, number):
        open_ = {}
        for line in lines:
            if "out" in line:
                attempt = Attempt(line)
                attempt.receiver = number
                self.attempts[attempt.task].append(attempt)
                open_[attempt.task, attempt.number] = attempt
            else:
                open_[line["id"], line["n"]].end_us = line["t"]

    # ---- the nemesis and the databases ----

    def read_nemesis(self, lines):
        faults = {}
        self.heal_us = 0
        for line in lines:
            if line["kind"] == "begin":
                faults[line["fault"]] = Fault(line)
            elif line["kind"] == "hurt":
                faults[line["fault"]].brokers = set(line["brokers"])
                faults[line["fault"]].hurt_us = line["t"]
            elif line["kind"] == "end":
                faults[line["fault"]].end_us = line["t"]
            elif line["kind"] == "left":
                if line["fault"] in faults:
                    faults[line["fault"]].left = line["why"]
            elif line["kind"] == "broker":
                self.instances[line["instance"]] = line["name"]
            elif line["kind"] == "owner":
                self.owned[line["shard"]].append((line["t"], line["name"]))
            elif line["kind"] == "heal":
                self.heal_us = line["t"]
        self.faults = sorted(faults.values(), key=lambda fault: fault.begin_us)

    def read_databases(self, databases):
        """Who claimed what; and what only an old primary has: then the promotion has lost it."""
        self.claims = {}   # (task, attempt) → (at in µs, instance), the first one
        self.written_us = collections.defaultdict(list)  # task → when, by its database's clock
        self.lines = collections.Counter()
        self.ends = collections.Counter()
        self.stale = []
        self.bumps = collections.defaultdict(list)      # shard → epochs, in order
        self.lost_bumps = collections.defaultdict(set)
        kept = set()
        for line in databases["lines"]:
            kept.add(tuple(line))
            self.read_line(*line)
        self.lost = collections.defaultdict(set)  # task → kinds of lines that are gone
        self.lost_lines = collections.Counter()
        for left in databases["left"]:
            for line in left["lines"]:
                if tuple(line) not in kept:
                    at_us, kind, instance, _, task, attempt = line
                    self.lost[task].add(kind)
                    self.lost_lines[kind] += 1
                    if kind == "claim":
                        self.claims.setdefault((task, attempt), (at_us, instance))
                    elif kind == "bump":  # An epoch that was lost must not be given again.
                        self.lost_bumps[line[3]].add(int(task[4:], 16))

    def read_line(self, at_us, kind, instance, shard, task, attempt):
        self.lines[kind] += 1
        if kind == "claim":
            self.lines["claimed twice"] += (task, attempt) in self.claims
            self.claims.setdefault((task, attempt), (at_us, instance))
        elif kind in ("make", "change") and attempt == 0:
            self.written_us[task].append(at_us)
        elif kind == "end":
            self.ends[task] += 1
        elif kind == "stale":
            self.stale.append((at_us, instance, shard))
        elif kind == "bump":
            self.bumps[shard].append(int(task[4:], 16))

    # ---- questions ----

    def owner_of(self, attempt):
        """Broker that claimed an attempt, and when; None if no claim is known."""
        claim = self.claims.get((attempt.task, attempt.number))
        return claim and (self.instances.get(claim[1], claim[1]), claim[0])

    def owners_in(self, shard, begin_us, end_us):
        """Who owned a shard at some moment of a span, as ZooKeeper was seen to say; whoever could
        have, if nobody did: it was given to somebody who did not come for it."""
        found, last = set(), ""
        for at_us, name in self.owned[shard]:
            if at_us > end_us:
                break
            if at_us > begin_us:
                found.add(last)
            last = name
        found.add(last)
        return found | set(self.instances.values()) if "" in found else found

    def excuse(self, attempt):
        """The fault at which the claim of an attempt was live: on its owner, on whom its shard
        went to meanwhile, on its database or receiver; the last one to begin. None if there was
        none."""
        owner = self.owner_of(attempt)
        # The time of a claim is by its database's clock, which may be behind.
        begin_us = max(owner[1], attempt.at_us - AHEAD_US) if owner else attempt.at_us
        end_us = attempt.deadline_ms * 1000
        brokers = self.owners_in(self.shard_of(attempt.task), begin_us, end_us)
        brokers |= {owner[0]} if owner else set()
        for fault in reversed(self.faults):
            if fault.hurts(brokers, self.database_of(attempt.task), attempt.receiver, begin_us,
                           end_us):
                return fault
        return None

    def firsts(self):
        """First attempts with number 1, by when their tasks were ready: due, and as they are in the
        database. A create or an update that lay for long with a broker who was stopped, or could
        not tell whose the shard is, makes no task late."""
        if not self.first_attempts:
            self.first_attempts = [lines[0] for lines in self.attempts.values()
                                   if lines[0].number == 1]
            for one in self.first_attempts:
                one.ready_us = max(one.due_ms * 1000, *(
                    at_us for at_us in (0, *self.written_us[one.task]) if at_us <= one.at_us))
            self.first_attempts.sort(key=lambda one: one.ready_us)
        return self.first_attempts


def read(folder, databases):
    """From the files of a run."""
    def all_of(name):
        return [journal.read(path) for path in sorted(folder.glob(f"{name}*.journal"))]

    return History(all_of("producer"), all_of("receiver"), all_of("nemesis")[0], databases)
