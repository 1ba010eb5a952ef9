"""Run a command, and end it with all its processes once standard input closes, as when the owner stops or dies.

A separate program, which any interpreter can run by its path: ``python guard.py GRACE_SECONDS COMMAND ...``.
"""

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress


def main(grace: float, command: list[str]) -> int:
    """Run the command in its own process group, end the group when the owner is gone, and return the exit status."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    child = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)  # noqa: S603 (the owner's)
    threading.Thread(target=_end_without_owner, args=(child.pid, grace), daemon=True).start()
    try:
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)  # not reaped, so that its group keeps its id
    finally:
        _send(child.pid, signal.SIGKILL)
    status = child.wait()
    return status if status >= 0 else 128 - status


def _end_without_owner(group: int, grace: float) -> None:
    while os.read(0, 1):
        pass
    _send(group, signal.SIGTERM)
    time.sleep(grace)
    _send(group, signal.SIGKILL)


def _send(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
