"""Reports about image files of which a server sees something else than a person."""

import io
from collections.abc import Callable
from typing import Any

import numpy as np
from kinds import Given, Sent
from PIL import Image

RED, GREEN, BLUE, WHITE = (255, 0, 0), (0, 128, 0), (0, 0, 255), (255, 255, 255)


def saved(kind: str, image: Image.Image, **options: Any) -> Callable[[], bytes]:
    """Return what makes a file of an image."""

    def content() -> bytes:
        out = io.BytesIO()
        image.save(out, kind, **options)
        return out.getvalue()

    return content


def halves(left: tuple[int, ...] | int, right: tuple[int, ...] | int, mode: str = "RGB") -> Image.Image:
    """Draw an image of two colours."""
    image = Image.new(mode, (40, 20), left)
    image.paste(right, (20, 0, 40, 20))
    return image


TURNED = Image.Exif()
TURNED[0x0112] = 3  # upside down
DEEP = Image.fromarray(np.repeat(np.array([[10_000] * 20 + [50_000] * 20], dtype="uint16"), 20, axis=0))
PALETTE = halves(RED, BLUE).quantize(2)

REPORTS = [
    Sent(
        "ollama/ollama#18418", "the server ignores the tag that says how a photo is turned",
        "a.jpg", saved("JPEG", halves(RED, BLUE), exif=TURNED, quality=95, subsampling=0), (BLUE, RED),
    ),
    Sent(
        "NousResearch/hermes-agent#64548", "a local server drops transparency and shows the hidden colours",
        "a.png", saved("PNG", halves((255, 0, 0, 0), (0, 0, 255, 255), "RGBA")), (WHITE, BLUE),
    ),
    Sent(
        "NousResearch/hermes-agent#64548", "the same in a WebP file",
        "a.webp", saved("WEBP", halves((255, 0, 0, 0), (0, 0, 255, 255), "RGBA"), lossless=True, exact=True), (WHITE, BLUE),
    ),
    Sent(
        "openai/CLIP#422", "one colour of a palette is transparent",
        "a.png", saved("PNG", PALETTE, transparency=PALETTE.getpixel((1, 1))), (WHITE, BLUE),
    ),
    Sent(
        "python-pillow/Pillow#2574", "a grey image of 16 bits a pixel becomes white",
        "a.png", saved("PNG", DEEP), ((39, 39, 39), (195, 195, 195)),
    ),
    Sent(
        "NousResearch/hermes-agent#25433", "models refuse or drop animations",
        "a.gif", saved("GIF", halves(RED, RED), save_all=True, append_images=[halves(GREEN, BLUE)]), (RED, RED),
    ),
    *(
        Given("linzhiqiu/t2v_metrics#17", f"an array in memory: {kind}", image, refused)
        for kind, image, refused in (
            ("floats from 0 to 1", lambda: np.full((8, 8, 3), 0.5), ()),
            ("bytes, channels first", lambda: np.zeros((3, 8, 8), dtype="uint8"), ()),
            ("half precision", lambda: np.full((8, 8, 3), 0.5, dtype="float16"), ()),
            ("64-bit integers", lambda: np.full((8, 8, 3), 200, dtype="int64"), ()),
            ("floats from -1 to 1", lambda: np.linspace(-1, 1, 192).reshape(8, 8, 3), ("-1",)),
            ("floats from 0 to 255", lambda: np.linspace(0, 255, 192).reshape(8, 8, 3), ("255",)),
            ("NaN", lambda: np.full((8, 8, 3), np.nan), ("finite",)),
        )
    ),
]
