"""The command ``psimil``, also as ``python -m psimil``: it ends when it is told to, whatever it is busy with."""

import os
import signal
import sys
import threading
import time
from contextlib import suppress

INTERRUPTED, TERMINATED = 130, 143
GRACE = 20.0  # seconds to close files and stop helpers, after SIGTERM


def main() -> None:
    """Run the command line of this process; always ends in SystemExit."""
    asked = signal.getsignal(signal.SIGINT)
    if asked is signal.default_int_handler:  # a background job ignores it, and goes on doing so
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # nothing is open yet that had to be closed
    from psimil.cli.main import main as run

    end_after_grace()
    try:
        signal.signal(signal.SIGINT, asked)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


def end_after_grace() -> None:
    """End this process some time after SIGTERM even if it never comes back to Python, as from BLAS without memory."""
    heard, told = os.pipe()
    os.set_blocking(told, False)

    def wake(told: int) -> None:
        with suppress(ValueError):  # only the main thread may say so
            signal.set_wakeup_fd(told, warn_on_full_buffer=False)

    def watch() -> None:
        while os.read(heard, 1) != bytes([signal.SIGTERM]):
            pass
        time.sleep(GRACE)
        os._exit(TERMINATED)

    wake(told)
    os.register_at_fork(before=lambda: wake(-1), after_in_parent=lambda: wake(told))  # what ends a child is not for us
    threading.Thread(target=watch, daemon=True).start()


if __name__ == "__main__":
    main()
