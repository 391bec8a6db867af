"""Run titjudge from a checkout: `python cli.py judge --help`."""

from titjudge.cli import main

if __name__ == "__main__":
    main()
