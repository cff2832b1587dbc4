#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What is written from the tables of options: the reference of settings in docs/ is the one that the
table gives, manual pages are well-formed and have all that --help has. Ends with "N passed, N
failed"."""
import os
import re
import subprocess
import sys

SOURCE, BUILD = os.environ["FOLIOT_SOURCE_DIR"], os.environ["FOLIOT_BUILD_DIR"]
FOLIOT, FOLIOTD = os.environ["FOLIOT_PROGRAM_FOLIOT"], os.environ["FOLIOT_PROGRAM_FOLIOTD"]
MAN = os.path.join(BUILD, "man")


def run(*words, code=0):
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == code, (words, done.returncode, done.stdout[-2000:], done.stderr)
    return done.stdout


def text_of(page):
    """A manual page as plain text."""
    return re.sub(r"\s+", " ", re.sub(r".\x08", "", run("mandoc", "-Tutf8", os.path.join(MAN, page))))


def the_reference_is_what_the_table_says():
    run(os.path.join(SOURCE, "tools", "reference"), "--check")


def a_reference_that_differs_is_found():
    """The check bites."""
    with open(os.path.join(MAN, "CONFIGURATION.md"), encoding="utf-8") as page:
        text = page.read()
    other = os.path.join(BUILD, "reference-teeth", "man")
    os.makedirs(other, exist_ok=True)
    with open(os.path.join(other, "CONFIGURATION.md"), "w", encoding="utf-8") as page:
        page.write(text.replace("`4s`", "`5s`", 1))
    done = subprocess.run([os.path.join(SOURCE, "tools", "reference"), "--check"], check=False,
                          env={**os.environ, "FOLIOT_BUILD_DIR": os.path.dirname(other)},
                          capture_output=True, text=True, timeout=30)
    assert done.returncode == 1 and "run tools/reference" in done.stderr, done


def every_setting_of_the_help_is_in_the_reference_and_the_manual():
    flags = re.findall(r"^  (--[a-z-]+) ", run(FOLIOTD, "--help"), re.M)
    manual = text_of("foliotd.8")
    with open(os.path.join(SOURCE, "docs", "CONFIGURATION.md"), encoding="utf-8") as page:
        reference = page.read()
    own = ("--config", "--check-config", "--print-config", "--version")
    assert len(flags) > 20 and set(own) < set(flags), flags
    for flag in flags:
        assert flag in manual, flag
        assert flag in own or f"`{flag} " in reference, flag


def pages_are_well_formed():
    pages = sorted(name for name in os.listdir(MAN) if name.endswith((".1", ".8")))
    assert len(pages) > 8, pages
    done = subprocess.run(["mandoc", "-Tlint", "-W", "warning",
                           *(os.path.join(MAN, page) for page in pages)],
                          capture_output=True, text=True, timeout=30, check=False)
    # They have a version, not a date: the same source makes the same pages on any day.
    faults = [line for line in done.stdout.splitlines() if "missing date" not in line]
    assert not faults, faults


def commands():
    return re.findall(r"^  ([a-z]+) +([a-z]*) +[A-Z]", run(FOLIOT, "help"), re.M)


def every_command_and_option_is_in_its_page():
    found = commands()
    assert len(found) > 15, found
    for noun, verb in found:
        page = text_of(f"foliot-{noun}.1")
        name = f"foliot {noun} {verb}".strip()
        assert name in page, name
        usage = run(FOLIOT, *name.split()[1:], "--help")
        options = re.findall(r"^  (?:-., |    )(--[a-z-]+)", usage, re.M)
        assert "--help" in options and "examples:\n  " in usage, (name, usage)
        for option in options:
            assert option in page, (name, option)


CASES = [the_reference_is_what_the_table_says, a_reference_that_differs_is_found,
         every_setting_of_the_help_is_in_the_reference_and_the_manual, pages_are_well_formed,
         every_command_and_option_is_in_its_page]


def main():
    failed = 0
    for case in CASES:
        try:
            case()
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"{case.__name__}: {type(error).__name__}: {error}")
    print(f"{len(CASES) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
