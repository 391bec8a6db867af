"""Decode images for models of this machine. Imported in worker threads only."""

from __future__ import annotations

from typing import Any

from titjudge.core.errors import DataError, Unanswered
from titjudge.core.types import ImageFile, Status
from titjudge.data import image_decoding
from titjudge.data.image_decoding import eight_bits, open_image


def decoded(image: ImageFile, *, on_white: bool) -> Any:
    """Decode an image to a PIL image in RGB.

    Args:
        image: The image.
        on_white: Lay what is transparent on white, as `ImageFiles` does with files; otherwise transparency is dropped, as the
            published code of the learned metrics does.

    Raises:
        Unanswered: The file is gone, has changed, or cannot be decoded.
    """
    try:
        with open_image(image.load(), image.path) as opened:
            return rgb(opened, on_white=on_white)
    except (DataError, OSError, ValueError) as error:
        raise Unanswered(Status.BAD_INPUT, str(error)) from error


def rgb(image: Any, *, on_white: bool) -> Any:
    """Convert a PIL image of any mode to RGB. 16 bits a pixel become 8 (PIL's own conversion would turn them white)."""
    image = eight_bits(image)
    plain = (image_decoding.on_white(image) if on_white else image).convert("RGB")
    plain.info.pop("transparency", None)  # else some processors lay the picture on white after all
    return plain
