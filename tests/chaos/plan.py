# SPDX-License-Identifier: Apache-2.0
"""What is to be hurt, when and for how long: a pure function of the seed and the time there is.

Two lanes run beside each other, one of brokers and their ZooKeeper, one of databases and networks,
so that faults of different kinds meet. Each lane deals from a shuffled deck with every kind in it,
so that a run which is long enough has them all.
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
    "zookeeper": (lambda draw, total_s: 60.0 if total_s >= 170 else 15.0, 11),
    "keepercut": (span(6, 12), 7),
    "stuck": (span(0.2, 2), 14),
    "clock": (span(3, 6), 1),
    "peer": (span(2, 6), 2),
}
DATABASES = {
    "postgres": (span(0.5, 4), 4),
    "promote": (span(2, 4), 5),
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
LONG = ("zookeeper",)  # once in a run of up to so many seconds
LONG_EVERY_S = 300
BASE_STEPS_S = (-0.3, -2, -5)  # Back only: when it goes forward again, that is a step, too.
CLOCK_STEPS_S = (-86400, -3600, -1, 1, 3600, 86400)


def details(draw, kind):
    """Who is hurt, and how."""
    found = {"broker": draw.choice(MEMBERS)}
    if kind == "clock":
        found = {"broker": "b", "step_s": draw.choice(CLOCK_STEPS_S)}
    if kind in ("postgres", "backend", "cut", "late", "half", "basecut", "oneway", "slow"):
        found["server"] = draw.choice((0, 1))
    if kind == "backend":
        found["count"] = draw.choice((1, 2, 6))
    if kind == "baseclock":
        found["step_s"] = draw.choice(BASE_STEPS_S)
    if kind == "target":
        found |= {"receiver": draw.choice((0, 0, 1)), "mode": draw.choice(("slow", "up", "down"))}
    if kind == "peer":
        found["mode"] = draw.choice(("slow", "up", "down", "hold", "refuse"))
    return found


def lane_plan(seed, lane, total_s, only):
    """The faults of one lane, in order."""
    draw = random.Random(f"{seed}/{lane}")
    kinds = {kind: times for kind, times in LANES[lane].items() if not only or kind in only}
    found, deck, longs = [], [], 0
    at_s = QUIET_S + draw.uniform(0, 2)
    while kinds and at_s < total_s - TAIL_S:
        if not deck:
            deck = sorted(kinds)
            draw.shuffle(deck)
        kind = deck.pop()
        lasts_s = kinds[kind][0](draw, total_s)
        one = {"lane": lane, "at_s": round(at_s, 1), "kind": kind, "lasts_s": lasts_s,
               **details(draw, kind)}
        if kind in LONG and longs > total_s / LONG_EVERY_S:
            continue
        if at_s + lasts_s > total_s - TAIL_S:  # No room for it any more: a shorter one, perhaps.
            at_s += 1
            continue
        longs += kind in LONG
        found.append(one)
        at_s += lasts_s + kinds[kind][1]
    return found


def make(seed, total_s, only=()):
    """All faults, by time."""
    found = [fault for lane in LANES for fault in lane_plan(seed, lane, total_s, only)]
    return sorted(found, key=lambda fault: (fault["at_s"], fault["lane"]))
