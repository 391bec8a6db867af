"""Reports about servers: what they answer, what is paid, what is asked again."""

from kinds import Served

from titjudge.testing import Scripted

REPORTS = [
    Served(
        "ggml-org/llama.cpp#19051", "the schema is ignored: free text with HTTP 200",
        lambda seen: Scripted("The picture is rather good."), paid=8, statuses=["unparsed"], code=1,
    ),
]
