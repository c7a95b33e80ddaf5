"""Runs a program that ends when its parent does: `launch.py PARENT PROGRAM ARGUMENT…`, on Linux.

The kernel sends the signal when the *thread* that started this process ends, so that thread must live as long as the parent.
It is a program of its own because nothing but a system call may safely happen between fork and exec of a process with threads.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Does not return."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    # A parent that ended before the line above sends no signal any more.
    if os.getppid() != parent:
        sys.exit("the process that starts the server has ended")
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
