"""Models behind an HTTP API: the class that a provider of one subclasses, and what helps it to write requests and read answers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from titjudge.core.lazy import lazy_exports

if TYPE_CHECKING:
    from titjudge.providers.hosted.base import Hosted as Hosted
    from titjudge.providers.hosted.base import image_base64 as image_base64
    from titjudge.providers.hosted.base import parsed as parsed
    from titjudge.providers.hosted.base import unreadable as unreadable
    from titjudge.providers.hosted.failures import ProviderFailure as ProviderFailure
    from titjudge.providers.hosted.failures import gave_up as gave_up
    from titjudge.providers.hosted.failures import kind_of_status as kind_of_status
    from titjudge.providers.hosted.failures import retry_after as retry_after
    from titjudge.providers.hosted.http import Answer as Answer
    from titjudge.providers.hosted.http import Endpoint as Endpoint
    from titjudge.providers.hosted.request_options import merged as merged
    from titjudge.providers.hosted.usage import NO_USAGE as NO_USAGE
    from titjudge.providers.hosted.usage import token_count as token_count
    from titjudge.providers.image_size import fitted as fitted
    from titjudge.providers.json_schema import add_instruction as add_instruction
else:
    __all__, __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "titjudge.providers.hosted.base": "Hosted image_base64 parsed unreadable",
            "titjudge.providers.hosted.failures": "ProviderFailure gave_up kind_of_status retry_after",
            "titjudge.providers.hosted.http": "Answer Endpoint",
            "titjudge.providers.hosted.request_options": "merged",
            "titjudge.providers.hosted.usage": "NO_USAGE token_count",
            "titjudge.providers.image_size": "fitted",
            "titjudge.providers.json_schema": "add_instruction",
        },
    )
