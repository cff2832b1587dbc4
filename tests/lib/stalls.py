#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What the machine did to us: a process of its own notes when a sleep of 5 ms took far longer, and
how much of the processors was used by programs that are not of the test. Bounds of time among real
processes are excused by these two, and by nothing else; what the test's own processes use excuses
nothing.
"""
import bisect
import os
import subprocess
import sys
import time

STALL_MS = 50        # A sleep of 5 ms that takes longer than this is a stall.
SLEEP_S = 0.005
WAKES = 400          # wake_late_ms() looks at so many sleeps …
WAKE_S = 0.002       # … of this length.
SAMPLE_S = 0.25      # How often the processors' use is looked at.
FOREIGN_MAX = 0.25   # Part of all processors that others may use before bounds are excused.


def wake_late_ms():
    """How late a sleep ends on this machine just now, p99. Ask while the test itself is idle: a second
    or so."""
    late_ns = []
    for _ in range(WAKES):
        before = time.monotonic_ns()
        time.sleep(WAKE_S)
        late_ns.append(time.monotonic_ns() - before - int(WAKE_S * 1e9))
    return sorted(late_ns)[WAKES * 99 // 100] / 1e6


class Stalls:
    """Use as a context manager, or start() and stop(). Of the test are this process and whatever
    descends from it or is below `folder`, such as the servers."""

    def __init__(self, folder):
        self.folder = folder
        self.path = folder / "stalls"
        self.popen = None
        self.spans = []    # (begin, end) in microseconds since 1970, in order
        self.samples = []  # (begin, end, part that others used)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()

    def start(self):
        with open(self.path, "wb") as out:
            self.popen = subprocess.Popen(
                [sys.executable, os.path.abspath(__file__), str(os.getpid()), str(self.folder)],
                stdout=out, stdin=subprocess.PIPE)

    def stop(self):
        """End the process, which ends by itself when we do, and read what it has seen."""
        if self.popen is not None:
            self.popen.stdin.close()
            self.popen.wait()
            self.popen = None
            self.read()

    def read(self):
        self.spans, self.samples = [], []
        with open(self.path, encoding="ascii") as file:
            for line in file:
                kind, begin, end, part = line.split() if line.endswith("\n") else "...."
                if kind == "stall":
                    self.spans.append((int(begin), int(end)))
                elif kind == "use":
                    self.samples.append((int(begin), int(end), float(part)))

    def within(self, begin_us, end_us):
        """Microseconds of a span in which the machine stood still."""
        first = bisect.bisect_left(self.spans, begin_us, key=lambda span: span[1])
        total = 0
        for begin, end in self.spans[first:]:
            if begin >= end_us:
                break
            total += min(end, end_us) - max(begin, begin_us)
        return total

    def foreign(self, begin_us, end_us):
        """Largest part of the processors that others used at a time within a span."""
        first = bisect.bisect_left(self.samples, begin_us, key=lambda sample: sample[1])
        worst = 0.0
        for begin, _, part in self.samples[first:]:
            if begin >= end_us:
                break
            worst = max(worst, part)
        return worst

    def excuses(self, begin_us, end_us):
        """Whether the machine was not ours then."""
        return (self.within(begin_us, end_us) > 0.01 * (end_us - begin_us) or
                self.foreign(begin_us, end_us) > FOREIGN_MAX)


class Use:
    """Ticks of the processors, of all and of the test's own processes."""

    def __init__(self, root, folder):
        self.root, self.folder = root, folder
        self.mine = {}     # process → whether it is of the test
        self.ticks = {}    # process of the test → its ticks
        self.gone = 0      # ticks of those that have ended
        self.before = None

    def is_mine(self, pid, parent):
        """By descent, or, for the servers' keeper, by what it was told to keep."""
        if pid not in self.mine:
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    named = self.folder in file.read()
            except OSError:
                named = False
            self.mine[pid] = named or pid == self.root or self.mine.get(parent, False)
        return self.mine[pid]

    def look(self):
        """Part of the processors that others used since the last look, and None at first."""
        with open("/proc/stat", encoding="ascii") as file:
            fields = [int(word) for word in file.readline().split()[1:9]]
        total, idle = sum(fields), fields[3] + fields[4]
        ticks = {}
        for pid in sorted(int(name) for name in os.listdir("/proc") if name.isdigit()):
            try:
                with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                    text = file.read()
            except OSError:
                continue
            words = text[text.rindex(")") + 2:].split()
            if self.is_mine(pid, int(words[1])):
                ticks[pid] = int(words[11]) + int(words[12])
        self.gone += sum(used for pid, used in self.ticks.items() if pid not in ticks)
        self.ticks = ticks
        now = (total, total - idle, sum(ticks.values()) + self.gone)
        before, self.before = self.before, now
        if before is None or now[0] == before[0]:
            return None
        whole, busy, ours = (a - b for a, b in zip(now, before))
        return max(0, busy - ours) / whole


def main():
    """Until whoever has started us closes our standard input."""
    use = Use(int(sys.argv[1]), sys.argv[2].encode())
    os.set_blocking(0, False)
    looked = time.time_ns() // 1000
    while True:
        before = time.time_ns() // 1000
        time.sleep(SLEEP_S)
        after = time.time_ns() // 1000
        if after - before > STALL_MS * 1000:
            print("stall", before, after, 1, flush=True)
        if after - looked > SAMPLE_S * 1e6:
            part = use.look()
            if part is not None:
                print("use", looked, after, f"{part:.2f}", flush=True)
            looked = after
        try:
            if os.read(0, 1) == b"":
                return
        except BlockingIOError:
            pass


if __name__ == "__main__":
    main()
