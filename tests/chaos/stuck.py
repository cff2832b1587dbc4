#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the first thread of a process, and no other, until that process ends.

  stuck.py PID

What a loop that spins does to others, without a switch in the product: its other threads go on. A
program of its own, for the kernel tells the tracer of a child what it tells its parent.
"""
import ctypes
import os
import sys

SEIZE, INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def main():
    pid = int(sys.argv[1])
    ptrace = ctypes.CDLL(None, use_errno=True).ptrace
    ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    for request in (SEIZE, INTERRUPT):
        if ptrace(request, pid, None, None) != 0:
            print(os.strerror(ctypes.get_errno()), flush=True)
            sys.exit(1)
    print("held", flush=True)
    while True:
        _, status = os.waitpid(pid, WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            break


if __name__ == "__main__":
    main()
