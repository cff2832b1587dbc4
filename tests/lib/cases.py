# SPDX-License-Identifier: Apache-2.0
"""What plain programs of cases share: cases run one after the other on one world, and the closing
line that tools/run-tests adds up."""
import sys

import devmode


def run(cases, world, words=None):
    """(passed, failed) of the cases whose names have one of the words in them; of all without words.
    The words are those of the command line unless others are given."""
    words = sys.argv[1:] if words is None else words
    passed = failed = 0
    for case in cases:
        if words and not any(word in case.__name__ for word in words):
            continue
        try:
            case(world)
            passed += 1
        except Exception as error:  # pylint: disable=broad-except
            failed += 1
            print(f"FAILED {case.__name__}: {type(error).__name__}: {error}", flush=True)
    return passed, failed


def of(names):
    """The functions of a program, by its globals(), that take the world, in order."""
    return [value for value in list(names.values())
            if callable(value) and getattr(value, "__module__", "") == "__main__"
            and not isinstance(value, type) and value.__code__.co_varnames[:1] == ("world",)]


def play_on_dev(found, make_world):
    """Cases on the world that is made of a `foliot dev`, which then has to end well; the exit status."""
    with devmode.Dev() as dev:
        passed, failed = run(found, make_world(dev))
        code, _, err = dev.stop()
        if code != 0:
            failed += 1
            print(f"foliot dev ended with {code}: {err}")
    return finish(passed, failed)


def finish(passed, failed):
    """Print the closing line; the exit status. Nothing run is no success."""
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0
