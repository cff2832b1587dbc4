# SPDX-License-Identifier: Apache-2.0
"""The table of a run."""
import collections


def quantile(values, permille):
    """Of any values; 0 if there are none."""
    values = sorted(values)
    return values[min(len(values) - 1, len(values) * permille // 1000)] if values else 0


def counted(counter):
    return ", ".join(f"{name} {count}" for name, count in sorted(counter.items())) or "none"


def fault_rows(judge):
    """Faults by kind: how often, how long, their gaps, those of faults that were alone, what they
    have excused."""
    gaps = judge.gaps()
    kinds = collections.defaultdict(list)
    for fault in judge.it.faults:
        kinds[fault.what].append(fault)
    for what, faults in sorted(kinds.items()):
        done = [fault for fault in faults if fault.left is None]
        lasted = [(min(fault.end_us, judge.it.heal_us) - fault.begin_us) / 1e6 for fault in done]
        gap = [gaps[fault][0] for fault in done if fault.shards]
        alone = [gaps[fault][0] for fault in done if fault.shards and gaps[fault][1]]
        yield (what, len(done), len(faults) - len(done), max(lasted, default=0), gap, alone,
               judge.excused[what])


def print_table(judge, stalled):
    """Everything about one run but its verdicts."""
    it = judge.it
    print(f"  {'fault':<12}{'done':>5}{'left':>5}{'longest':>9}{'gap p50':>9}{'gap max':>9}"
          f"{'alone':>9}{'repeats':>9}")
    for what, done, left, longest, gap, alone, repeats in fault_rows(judge):
        cells = (quantile(gap, 500), max(gap, default=None), max(alone, default=None))
        text = "".join(f"{'-':>9}" if cell is None else f"{cell:>8.2f}s" for cell in cells)
        print(f"  {what:<12}{done:>5}{left:>5}{longest:>8.1f}s{text}{repeats:>9}")
    reasons = {(fault.what, fault.left) for fault in it.faults if fault.left}
    for what, why in sorted(reasons):
        print(f"  left out: {what}: {why}")
    attempts = sum(len(lines) for lines in it.attempts.values())
    late = [one.at_us - one.due_ms * 1000 for one in it.firsts()]
    print(f"  tasks: {sum(1 for _ in judge.tasks())} answered OK, {len(it.pending)} still to come, "
          f"{len(it.dead)} dead letters; attempts {attempts}, refused by receivers as too late "
          f"{judge.late_refused()}")
    words = collections.defaultdict(dict)
    for (op, word), count in it.answers.items():
        words[op][word] = count
    for op in sorted(words):
        print(f"  answers to {op}: {counted(words[op])}")
    print(f"  repeats: {sum(judge.excused.values())} excused, by fault: {counted(judge.excused)}")
    p50, p99 = quantile(late, 500) / 1000, quantile(late, 990) / 1000
    print(f"  lateness: p50 {p50:.1f} ms, p99 {p99:.0f} ms, max "
          f"{max(late, default=0) / 1e6:.1f} s; the machine stalled {stalled * 100:.1f} %")
    print(f"  every shard served again {judge.quiet.get('served_s')} s after the last fault; quiet "
          f"after {judge.quiet.get('quiet_s')} s")
    if it.lost_lines or judge.lost_work:
        print(f"  promotion: PostgreSQL lost {counted(it.lost_lines)} of {len(it.lost)} tasks; by "
              f"that lost: {counted(judge.lost_work)}")


def print_verdicts(judge):
    """One line for each promise; how many failed."""
    for verdict in judge.verdicts:
        more = f" ({verdict.lost} by what the promotion lost)" if verdict.lost else ""
        more += f" ({verdict.excused} excused by stalls)" if verdict.excused else ""
        print(f"  {'FAIL' if verdict.faults else 'ok':<5}{verdict.name:<12}{verdict.text}: "
              f"{len(verdict.faults)} broken{more}")
        for fault in verdict.faults[:5]:
            print(f"         {fault}")
    failed = len(judge.failed())
    print(f"{len(judge.verdicts) - failed} passed, {failed} failed")
    return failed
