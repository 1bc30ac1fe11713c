"""The command ``psimil``, also as ``python -m psimil``: an interrupt is quiet even while its parts are loaded."""

import os
import signal
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line of this process; always ends in SystemExit."""
    asked = signal.getsignal(signal.SIGINT)
    if asked is signal.default_int_handler:  # a background job ignores it, and goes on doing so
        signal.signal(signal.SIGINT, lambda *_: os._exit(INTERRUPTED))  # nothing is open yet that had to be closed
    from psimil.cli.main import main as run

    try:
        signal.signal(signal.SIGINT, asked)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
