"""``python -m psimil`` is the command ``psimil``."""

from psimil.cli.main import main

if __name__ == "__main__":
    main()
