"""Images as a model is sent them: scaled down, or squashed, to the side that a role allows (`max_side`, `squash`)."""

from __future__ import annotations

from dataclasses import replace

from titjudge.core.images import scaled
from titjudge.core.types import ImageFile, Request


def fitted(request: Request) -> Request:
    """Fit the images of a request into its `squash` and `max_side`, which are then gone from the parameters; the key keeps them."""
    squash, side = (int(request.params.get(name) or 0) for name in ("squash", "max_side"))
    if not (squash or side):
        return request
    params = {name: value for name, value in request.params.items() if name not in ("squash", "max_side")}
    messages = tuple(
        replace(
            message,
            parts=tuple(part if isinstance(part, str) else _fitted(part, squash, side) for part in message.parts),
        )
        for message in request.messages
    )
    return replace(request, params=params, messages=messages)


def _fitted(image: ImageFile, squash: int, side: int) -> ImageFile:
    width, height = image.width, image.height
    squashed = bool(squash) and max(width, height) > squash
    if squashed:
        width = height = squash
    if side and (longest := max(width, height)) > side:
        width, height = (max(1, round(each * side / longest)) for each in (width, height))
    if (width, height) == (image.width, image.height):
        return image
    jpeg = (
        image.media_type == "image/jpeg" and not squashed
    )  # judge.py, which squashes, hands the pixels on as they are
    way = "squashed" if squashed else "fitted"
    name = f"{image.sha256} {way} {width} {height}"  # known by it where encoded images are kept
    return ImageFile(
        name,
        "image/jpeg" if jpeg else "image/png",
        width,
        height,
        image.path,
        lambda: scaled(image.load(), image.path, (width, height), jpeg=not squashed),
    )
