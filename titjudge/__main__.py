"""`python -m titjudge`."""

from __future__ import annotations

import os
import sys

if not __package__:  # run as `python titjudge`: Python looks in this folder first, where torch.py is not torch
    sys.path[0] = os.path.dirname(sys.path[0])

from titjudge.cli import process

if __name__ == "__main__":
    process()
