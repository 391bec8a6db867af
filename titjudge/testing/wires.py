"""In a checkout: `tests.kit.wires`. It is not part of the installed package."""

from tests.kit.wires import *  # noqa: F403
