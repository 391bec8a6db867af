"""Scale images down, or squash them, to the sides that a role allows (`max_side`, `squash`)."""

from __future__ import annotations

from dataclasses import replace

from titjudge.core.types import ImageFile, Request
from titjudge.data.images import scaled


def fitted(request: Request) -> Request:
    """Scale the images of a request by its `squash` and `max_side`, and take both out of its parameters."""
    squash, side = int(request.params.get("squash") or 0), int(request.params.get("max_side") or 0)
    if not (squash or side):
        return request
    params = {name: value for name, value in request.params.items() if name not in ("squash", "max_side")}
    messages = []
    for message in request.messages:
        parts = tuple(part if isinstance(part, str) else _fitted(part, squash, side) for part in message.parts)
        messages.append(replace(message, parts=parts))
    return replace(request, params=params, messages=tuple(messages))


def _fitted(image: ImageFile, squash: int, side: int) -> ImageFile:
    width, height = image.width, image.height
    squashed = bool(squash) and max(width, height) > squash
    if squashed:
        width = height = squash
    if side and (longest := max(width, height)) > side:
        width, height = (max(1, round(side_length * side / longest)) for side_length in (width, height))
    if (width, height) == (image.width, image.height):
        return image
    jpeg = image.media_type == "image/jpeg" and not squashed  # squashed pixels are sent as they are, without loss
    media_type = "image/jpeg" if jpeg else "image/png"
    key = f"{image.sha256} {'squashed' if squashed else 'fitted'} {width} {height}"  # of the cache of encoded images

    def load() -> bytes:
        return scaled(image.load(), image.path, (width, height), jpeg=not squashed)

    return ImageFile(key, media_type, width, height, image.path, load)
