"""The console script, and `python -m ghapp`: the command line, whose modules take up to half a second to import."""

from __future__ import annotations

import os
import signal
from types import FrameType

from ghapp.exit_codes import INTERRUPTED

STDERR = 2


def run() -> None:
    """Runs the command line. Ctrl-C during the imports ends the process without a traceback."""
    _fill_standard_streams()
    is_default = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # a shell's background job ignores it
    if is_default:
        signal.signal(signal.SIGINT, _exit)
    from ghapp.cli.main import main

    if is_default:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    main()


def _fill_standard_streams() -> None:
    """Opens the null device in place of closed standard streams.

    Else the next files get their numbers: libuv aborts a process that uses one of them for something else.
    """
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= STDERR:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _exit(_number: int, _frame: FrameType | None) -> None:
    os._exit(INTERRUPTED)  # an exception would pass through the importing modules, some of which catch all


if __name__ == "__main__":
    run()
