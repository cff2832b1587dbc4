#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Search the models by the rows of rows.txt and compare what comes out (tests/model/README.md).

  model_rows.py [PROGRAM] [--quick] [NAME ...]    two rows at a time, each within 2 GB

Also: every function that a step or a rule names is defined in the file that it names, and every
rule is left out by some row that then finds something.
"""
import concurrent.futures
import os
import pathlib
import re
import resource
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
ROW_BYTES_MAX = 2 << 30
ROW_CPU_S_MAX = 300  # Not by the clock: the machine may be busy with other things.


class Row:
    def __init__(self, line):
        name, self.model, self.options, self.expected, self.what = (
            part.strip() for part in line.split("|", 4))
        self.is_quick = name.startswith("+")
        self.name = name.lstrip("+")


def read_rows():
    lines = (HERE / "rows.txt").read_text(encoding="utf-8").split("\n")
    return [Row(line) for line in lines if line.strip() and not line.startswith("#")]


def limit_time():
    resource.setrlimit(resource.RLIMIT_CPU, (ROW_CPU_S_MAX, ROW_CPU_S_MAX))


def limit_all():
    limit_time()
    resource.setrlimit(resource.RLIMIT_DATA, (ROW_BYTES_MAX, ROW_BYTES_MAX))


def search(program, row):
    """(as expected, what to print)"""
    command = [program, row.model, *row.options.split()]
    is_bounded = "san" not in pathlib.Path(program).parts[-4:][0]  # Shadow memory is no state.
    result = subprocess.run(command, capture_output=True, text=True, check=False,
                            preexec_fn=limit_all if is_bounded else limit_time)
    output = result.stdout + result.stderr
    if result.returncode < 0:
        output += f"ended by signal {-result.returncode}"
    verdict = re.search(r"^(HOLDS|VIOLATED .*|NO ROOM.*)$", output, re.M)
    figures = re.search(r"states=(\d+) .*steps=(\d+) time=([\d.]+)", output)
    states, steps, seconds = figures.groups() if figures else ("-", "-", "-")
    got = verdict.group(1) if verdict else output.strip()[-200:]
    is_right = (got == "HOLDS") if row.expected == "HOLDS" else (
        got.startswith("VIOLATED") and row.expected in got)
    return is_right, f"{row.name:18} {states:>10} {steps:>5} {seconds:>6}  {got[:100]}"


def list_names(program):
    listing = subprocess.run([program, "list"], capture_output=True, text=True, check=True).stdout
    return [line.split("|") for line in listing.strip().split("\n")]


def is_defined(text, function):
    """A definition in our format: the name in column 0's line, and no semicolon before the brace."""
    return re.search(rf"^[A-Za-z][^\n;={{}}()]*\b{function}\([^;{{}}]*\)\n\{{", text, re.M)


def check_names(names):
    """Faults: names of functions that the product does not have."""
    faults = []
    for model, kind, text, code in names:
        if code in ("-", "world"):
            continue
        path, function = code.split(" ")
        source = ROOT / path
        if not source.exists() or not is_defined(source.read_text(encoding="utf-8"), function):
            faults.append(f"{model}: {kind} '{text}' names {function}() of {path}, which is not there")
    return faults


def check_rules(names, rows):
    """Faults: rules that no row leaves out."""
    left_out = {(row.model, word.split("=")[0]) for row in rows
                for word in row.options.split() if word.endswith("=0")}
    return [f"{model}: no row leaves out the rule '{name}'" for model, name, text, code in names
            if name != "step" and code != "-" and (model, name) not in left_out]


def self_test():
    assert is_defined("static int\nfoo(int a)\n{\n", "foo") is None
    assert is_defined("static int foo(int a,\n               int b)\n{\n", "foo")
    assert not is_defined("static int foo(int a);\nint bar(void)\n{\n", "foo")
    assert not is_defined("    x = foo(a)\n{\n", "foo")


def main():
    self_test()
    words = [word for word in sys.argv[1:] if word != "--quick"]
    program = os.environ.get("FOLIOT_PROGRAM_FOLIOT_MODEL") or words.pop(0)
    rows = read_rows()
    names = list_names(program)
    faults = check_names(names) + check_rules(names, rows)
    wanted = [row for row in rows if row.name in words or not words]
    if "--quick" in sys.argv:
        wanted = [row for row in wanted if row.is_quick]
    failed = len(faults)
    print("\n".join(faults))
    print(f"{'row':18} {'states':>10} {'steps':>5} {'s':>6}  result")
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        for row, (is_right, line) in zip(wanted, pool.map(lambda row: search(program, row), wanted)):
            print(line if is_right else f"{line}\n  FAILED: {row.expected} was expected: {row.what}",
                  flush=True)
            failed += not is_right
    print(f"{len(wanted) + 2 - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
