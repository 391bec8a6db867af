"""Run titjudge from a checkout: `python cli.py judge --help`."""

from titjudge.cli import process

if __name__ == "__main__":
    process()
