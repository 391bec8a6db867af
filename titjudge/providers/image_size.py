"""Images as a hosted model is sent them: scaled down to the longest side that a role allows (its `max_side`)."""

from __future__ import annotations

from dataclasses import replace

from titjudge.core.images import scaled
from titjudge.core.types import ImageFile, Request


def fitted(request: Request) -> Request:
    """Fit the images of a request into its `max_side`, which is then gone from the parameters; the key keeps it."""
    side = request.params.get("max_side")
    if not side:
        return request
    params = {name: value for name, value in request.params.items() if name != "max_side"}
    messages = tuple(
        replace(
            message, parts=tuple(part if isinstance(part, str) else _fitted(part, int(side)) for part in message.parts)
        )
        for message in request.messages
    )
    return replace(request, params=params, messages=messages)


def _fitted(image: ImageFile, side: int) -> ImageFile:
    longest = max(image.width, image.height)
    if longest <= side:
        return image
    width, height = (max(1, round(each * side / longest)) for each in (image.width, image.height))
    media_type = "image/jpeg" if image.media_type == "image/jpeg" else "image/png"
    name = f"{image.sha256} fitted {side}"  # known by it where encoded images are kept; what is sent has another hash
    return ImageFile(
        name, media_type, width, height, image.path, lambda: scaled(image.load(), image.path, (width, height))
    )
