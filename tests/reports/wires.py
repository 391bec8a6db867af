"""Reports about servers: what they answer, what is paid, what is asked again."""

from kinds import Served

from titjudge.testing import Scripted

SCORE = '{"score": 70, "reason": "ok"}'

REPORTS = [
    Served(
        "aio-libs/aiohttp#2304", "an answer with a header above 8,190 bytes is lost",
        lambda seen: Scripted(SCORE, headers={"content-security-policy": "y" * 9000}),
    ),
    Served(
        "aio-libs/aiohttp#3862", "an answer with a header of 60 kB is lost",
        lambda seen: Scripted(SCORE, headers={"link": "y" * 60_000}),
    ),
    Served(
        "aio-libs/aiohttp#2304", "an answer whose text cannot be unpacked is requested 8 times",
        lambda seen: Scripted(SCORE, headers={"content-encoding": "br"}), images=1, paid=3, again=3, statuses=["failed"], code=1,
    ),
    Served(
        "ggml-org/llama.cpp#19051", "the schema is ignored: free text with HTTP 200",
        lambda seen: Scripted("The picture is rather good."), paid=8, statuses=["unparsed"], code=1,
    ),
]
