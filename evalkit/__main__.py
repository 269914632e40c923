"""Run the command line with ``python -m evalkit``."""

from evalkit.cli import main

if __name__ == "__main__":
    main()
