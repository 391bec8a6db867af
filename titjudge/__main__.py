"""`python -m titjudge`."""

from __future__ import annotations

from titjudge.cli import main

if __name__ == "__main__":
    main()
