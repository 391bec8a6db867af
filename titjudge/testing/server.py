"""In a checkout: `tests.kit.server`. It is not part of the installed package."""

from tests.kit.server import *  # noqa: F403
