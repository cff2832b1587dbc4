# SPDX-License-Identifier: Apache-2.0
"""What is to be hurt, when and for how long: a pure function of the seed and the time there is.

Two lanes run beside each other, one of brokers and their ZooKeeper, one of databases and networks,
so that faults of different kinds meet. At the end of each minute both rest and a third lane plays
one fault alone, for how long a gap lasts is promised of one fault, not of two at once. Each lane
deals from a shuffled deck with every kind in it, so that a run which is long enough has them all.
"""
import random

MEMBERS = ("a", "b", "c")
QUIET_S = 3  # Before the first fault: the load runs.
TAIL_S = 6   # No fault begins in the last seconds.


def span(low, high):
    return lambda draw, total_s: round(draw.uniform(low, high), 1)


# kind → how long it lasts, how long the lane rests behind it.
BROKERS = {
    "kill": (span(0.2, 7), 8),
    "pause": (lambda draw, total_s: round(1 + 29 * draw.random() ** 3, 1), 6),
    "term": (span(0.2, 2), 6),
    "join": (span(5, 9), 4),
    "expire": (span(0, 0), 6),
    "leader": (span(2, 6), 4),
    "zookeeper": (lambda draw, total_s: 60.0 if total_s >= LONG_FROM_S else 15.0, 11),
    "keepercut": (span(6, 12), 7),
    "stuck": (span(0.2, 2), 14),
    "clock": (span(3, 6), 1),
    "peer": (span(2, 6), 2),
}
DATABASES = {
    "postgres": (span(0.5, 4), 4),
    "promote": (span(2, 6), 5),
    "backend": (span(5, 12), 4),
    "cut": (span(0, 0), 3),
    "late": (span(5, 5), 3),
    "half": (span(6, 10), 3),
    "basecut": (span(5, 9), 4),
    "oneway": (span(2, 6), 3),
    "slow": (span(3, 6), 1),
    "target": (span(2, 5), 4),
    "full": (span(4, 7), 4),
    "baseclock": (span(3, 6), 4),
}
LANES = {"brokers": BROKERS, "databases": DATABASES}
# What is played alone → most time that it takes to be undone, as a rule.
ALONE = {"kill": 3, "pause": 2, "term": 3, "join": 3, "expire": 3, "leader": 2, "keepercut": 2,
         "stuck": 12, "zookeeper": 6}
ALONE_EVERY_S = 60
CALM_S = 7          # of quiet before and behind it; a little more than the judge asks for
ALONE_LASTS_S = 10  # at most, in a run that is shorter than this
ALONE_FULL_S = 300
LONG = "zookeeper"   # Once in so many seconds it is away for a minute; then no lane rests.
LONG_EVERY_S = 300
LONG_FROM_S = 170    # In a shorter run it is away for 15 s, when its turn comes.
BASE_STEPS_S = (-0.3, -2, -5)  # Back only: when it goes forward again, that is a step, too.
CLOCK_STEPS_S = (-86400, -3600, -1, 1, 3600, 86400)


def details(draw, kind):
    """Who is hurt, and how."""
    found = {"broker": draw.choice(MEMBERS)}
    if kind == "clock":
        found = {"broker": "b", "step_s": draw.choice(CLOCK_STEPS_S)}
    if kind in ("postgres", "backend", "cut", "late", "half", "basecut", "oneway", "slow"):
        found["server"] = draw.choice((0, 1))
    if kind == "oneway":
        found["mode"] = draw.choice(("up", "down"))
    if kind == "backend":
        found["count"] = draw.choice((1, 2, 6))
    if kind == "baseclock":
        found["step_s"] = draw.choice(BASE_STEPS_S)
    if kind == "target":
        found |= {"receiver": draw.choice((0, 0, 1)), "mode": draw.choice(("slow", "up", "down"))}
    if kind == "keepercut":
        found["mode"] = draw.choice(("hold", "hold", "up", "down", "slow"))
    if kind == "peer":
        found["mode"] = draw.choice(("slow", "up", "down", "hold", "refuse"))
    return found


def in_the_way(windows, begin_s, end_s):
    """The end of a window that this span would reach into; None if there is none."""
    return next((end for begin, end in windows if begin_s < end and end_s > begin), None)


class Dealer:
    """Says which kind comes next in a lane: each once, in random order, then all again. `windows`:
    where no fault may be."""

    def __init__(self, draw, kinds, total_s, windows):
        self.draw, self.kinds, self.total_s, self.windows = draw, kinds, total_s, windows
        self.deck = []
        self.longs = 0
        self.is_long = LONG in kinds and total_s >= LONG_FROM_S

    def next(self, at_s):
        """(kind, seconds) for this moment; None if what has come up has no room here."""
        if self.is_long and self.longs <= at_s // LONG_EVERY_S:
            lasts_s = self.kinds[LONG][0](self.draw, self.total_s)
            if self.fits(at_s, lasts_s):
                self.longs += 1
                return LONG, lasts_s
        if not self.deck:
            self.deck = sorted(kind for kind in self.kinds if not (self.is_long and kind == LONG))
            self.draw.shuffle(self.deck)
        if not self.deck:
            return None
        kind = self.deck.pop()
        lasts_s = self.kinds[kind][0](self.draw, self.total_s)
        if self.fits(at_s, lasts_s):
            return kind, lasts_s
        self.deck.insert(self.draw.randrange(len(self.deck) + 1), kind)
        return None

    def fits(self, at_s, lasts_s):
        return at_s + lasts_s <= self.total_s - TAIL_S and \
            in_the_way(self.windows, at_s, at_s + lasts_s) is None


def lane_plan(seed, lane, total_s, only, windows=()):
    """The faults of one lane, in order; none of them in a window."""
    draw = random.Random(f"{seed}/{lane}")
    kinds = {kind: times for kind, times in LANES[lane].items() if not only or kind in only}
    dealer = Dealer(draw, kinds, total_s, windows)
    found = []
    at_s = QUIET_S + draw.uniform(0, 2)
    while kinds and at_s < total_s - TAIL_S:
        dealt = dealer.next(at_s)
        if dealt is None:
            at_s = (in_the_way(windows, at_s, at_s + 1) or at_s) + draw.uniform(0.5, 1.5)
            continue
        kind, lasts_s = dealt
        found.append({"lane": lane, "at_s": round(at_s, 1), "kind": kind, "lasts_s": lasts_s,
                      **details(draw, kind)})
        at_s += lasts_s + kinds[kind][1]
    return found


def minutes_without(draw, total_s):
    """Numbers of the minutes at whose end no lane rests, one in each LONG_EVERY_S."""
    count, each = int(total_s // ALONE_EVERY_S), LONG_EVERY_S // ALONE_EVERY_S
    if total_s < LONG_FROM_S:
        return set()
    return {draw.randrange(first, min(first + each, count) - 1)
            for first in range(0, count - 1, each)}


def alone_plan(seed, total_s, only):
    """The faults that are played alone, and the windows (from, to) that they take."""
    draw = random.Random(f"{seed}/alone")
    kinds = sorted(kind for kind in ALONE if not only or kind in only)
    found, windows, deck = [], [], []
    free_s = 0
    without = minutes_without(draw, total_s)
    for minute in range(int(total_s // ALONE_EVERY_S) if kinds else 0):
        end_s = (minute + 1) * ALONE_EVERY_S - TAIL_S
        if minute in without:
            free_s = end_s + TAIL_S + ALONE_EVERY_S / 2  # A minute has room before that.
            continue
        if not deck:
            deck = list(kinds)
            draw.shuffle(deck)
        kind = deck.pop()
        lasts_s = BROKERS[kind][0](draw, total_s)
        if total_s < ALONE_FULL_S:
            lasts_s = min(lasts_s, ALONE_LASTS_S)
        span_s = CALM_S + lasts_s + ALONE[kind] + CALM_S
        begin_s = max(end_s - span_s, free_s)
        if begin_s + span_s > total_s or begin_s + span_s > end_s + 1 and minute + 1 in without:
            deck.insert(0, kind)  # No room for it here.
            continue
        windows.append((begin_s, begin_s + span_s))
        free_s = begin_s + span_s + CALM_S
        found.append({"lane": "alone", "at_s": round(begin_s + CALM_S, 1), "kind": kind,
                      "lasts_s": lasts_s, "calm_s": CALM_S, **details(draw, kind)})
    return found, windows


def make(seed, total_s, only=()):
    """All faults, by time."""
    found, windows = alone_plan(seed, total_s, only)
    for lane in LANES:
        found += lane_plan(seed, lane, total_s, only, windows)
    return sorted(found, key=lambda fault: (fault["at_s"], fault["lane"]))
