"""Run the command line as ``python -m hpccoll``."""

from hpccoll.cli import main

if __name__ == "__main__":
    main()
