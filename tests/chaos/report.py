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


HEADS = ("fault", "done", "left", "longest", "gap p50", "gap max", "alone", "alone p50",
         "alone max", "repeats")


def fault_cells(judge):
    """The rows of the table, as text."""
    for what, done, left, longest, gap, alone, repeats in fault_rows(judge):
        seconds = [quantile(gap, 500) if gap else None, max(gap, default=None),
                   quantile(alone, 500) if alone else None, max(alone, default=None)]
        seconds = ["-" if one is None else f"{one:.2f} s" for one in seconds]
        yield [what, str(done), str(left), f"{longest:.1f} s", *seconds[:2], str(len(alone)),
               *seconds[2:], str(repeats)]


def pause_text(pauses):
    """How late tasks were of shards that stood still, or not."""
    late = [pause.late_us / 1000 for pause in pauses]
    return (f"{len(late)}, p50 {quantile(late, 500):.0f} ms, p99 {quantile(late, 990):.0f} ms, "
            f"max {max(late, default=0):.0f} ms")


def figures(judge, stalled):
    """Everything about a run but its faults and verdicts: (of what, text)."""
    it = judge.it
    for what, why in sorted({(fault.what, fault.left) for fault in it.faults if fault.left}):
        yield "left out", f"{what}: {why}"
    attempts = sum(len(lines) for lines in it.attempts.values())
    yield "tasks", (f"{sum(1 for _ in judge.tasks())} answered OK, {len(it.pending)} still to "
                    f"come, {len(it.dead)} dead letters; attempts {attempts}, refused by receivers "
                    f"as too late {judge.late_refused()}")
    words = collections.defaultdict(dict)
    for (op, word), count in it.answers.items():
        words[op][word] = count
    for op in sorted(words):
        yield f"answers to {op}", counted(words[op])
    yield "repeats", (f"{sum(judge.excused.values())} excused, by fault: "
                      f"{counted(judge.excused)}")
    late = [one.at_us - one.ready_us for one in it.firsts()]
    p50, p99 = quantile(late, 500) / 1000, quantile(late, 990) / 1000
    yield "lateness", (f"p50 {p50:.1f} ms, p99 {p99:.0f} ms, max "
                       f"{max(late, default=0) / 1e6:.1f} s; the machine stalled "
                       f"{stalled * 100:.1f} %")
    for name, text in (("moved", "shards moved in order by a join or a leave alone"),
                       ("stayed", "shards that stayed at one"),
                       ("away", "shards while ZooKeeper alone was away, or its leader")):
        yield text, pause_text(judge.pauses[name])
    yield "recovery", (f"every shard served again {judge.quiet.get('served_s')} s after the last "
                       f"fault; quiet after {judge.quiet.get('quiet_s')} s")
    if it.lost_lines or judge.lost_work:
        yield "promotion", (f"PostgreSQL lost {counted(it.lost_lines)} of {len(it.lost)} tasks; by "
                            f"that lost: {counted(judge.lost_work)}")


def print_table(judge, stalled):
    """Everything about one run but its verdicts."""
    for row in (HEADS, *fault_cells(judge)):
        print(f"  {row[0]:<11}" + "".join(f"{cell:>10}" for cell in row[1:]))
    for what, text in figures(judge, stalled):
        print(f"  {what}: {text}")


def write_page(path, judge, stalled, about):
    """The same in Markdown, for docs/TESTING.md; `about`: what was run, and where."""
    def line(cells):
        return f"| {' | '.join(cells)} |\n"

    rows = [line(HEADS), line(["---"] + ["---:"] * (len(HEADS) - 1)),
            *(line([f"`{row[0]}`", *row[1:]]) for row in fault_cells(judge)),
            "\n", line(("figure", "")), line(("---", "---")),
            *(line(pair) for pair in figures(judge, stalled)),
            "\n", line(("promise", "", "broken", "by what a promotion lost", "excused by stalls")),
            line(["---", "---", "---:", "---:", "---:"]),
            *(line((one.name, one.text, str(len(one.faults)), str(one.lost), str(one.excused)))
              for one in judge.verdicts)]
    path.write_text(f"{about}\n\n{''.join(rows)}", encoding="utf-8")


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
