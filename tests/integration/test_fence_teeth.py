#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""The fence's test must fail when the fence is weak: run it with statements that read the epoch
without a lock, and see the stale write. Ends with "N passed, N failed"."""
import subprocess
import sys

# case -> what its failure must say; a failure of another kind proves nothing.
WANTED = {
    "stale_write_never_commits_after_the_bump": "insertion.batch.result",
    "commit_held_back_for_5_s_is_void_after_the_epoch_has_risen": "world_table_rows(&world, 0)",
}


def main():
    passed = 0
    for case, words in WANTED.items():
        done = subprocess.run([sys.argv[1], case], capture_output=True, text=True, check=False)
        said = done.stdout + done.stderr
        if done.returncode != 0 and words in said and "0 passed, 1 failed" in said:
            passed += 1
        else:
            print(f"{case} does not see a weak fence:\n{said}")
    print(f"{passed} passed, {len(WANTED) - passed} failed")
    return 0 if passed == len(WANTED) else 1


if __name__ == "__main__":
    sys.exit(main())
