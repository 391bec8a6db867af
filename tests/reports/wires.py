"""Reports about servers: what they answer, what is paid, what is asked again."""

import io
import json
import time
from collections.abc import Callable, Collection, Mapping
from email.utils import formatdate
from typing import Any

from batch_server import BatchServer, Plan
from kinds import Answer, Command, Served
from PIL import Image
from tls import Untrusted

from tests.kit import Scripted, Seen, Server

RATING = '{"score": 70, "reason": "ok"}'
USAGE = {"prompt_tokens": 900, "completion_tokens": 40, "total_tokens": 940}


def message(finish: str = "stop", **parts: Any) -> Scripted:
    """An OpenAI answer with a message of these parts."""
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **parts}, "finish_reason": finish}
    return Scripted(body={"id": "x", "object": "chat.completion", "model": "m", "choices": [choice], "usage": USAGE})


def refusing(name: str, status: int, error: dict[str, Any]) -> Any:
    """A server that refuses requests with a key, and answers others."""
    return lambda seen: Scripted(status=status, body=error) if name in seen.body else message(content=RATING)


def first(number: int, answer: Scripted) -> Any:
    """A server that gives this answer so many times, and then good ones."""
    left = [answer] * number
    return lambda seen: left.pop() if left else message(content=RATING)


def wrapped(**error: Any) -> dict[str, Any]:
    """An error in OpenRouter's wrapper."""
    raw = json.dumps({"error": error})
    return {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": raw, "provider_name": "P"}}}


def text_only(seen: Seen) -> Scripted:
    """llama.cpp without a projector."""
    return Scripted(status=500, body={"error": {"code": 500, "message": "image input is not supported"}})


def rejected(message: str, http: int = 400, **more: Any) -> Any:
    """A server that refuses every request in these words."""
    return lambda seen: Scripted(status=http, body={"error": {"message": message, **more}})


def gemini(finish: str = "STOP", parts: Any = (), **more: Any) -> Any:
    """A Gemini answer whose only candidate has these parts; `more` replaces entries of the body."""
    candidate = {"content": {"role": "model", "parts": list(parts)}, "finishReason": finish}
    usage = {"promptTokenCount": 900, "thoughtsTokenCount": 40, "totalTokenCount": 940}
    return lambda seen: Scripted(body={"candidates": [candidate], "modelVersion": "m", "usageMetadata": usage, **more})


def batches(*plans: Plan, downloads: Collection[bytes] = ()) -> Any:
    """A batch service whose next jobs go so, and whose first downloads of answers give these bytes."""

    def make(answer: Answer) -> BatchServer:
        server = BatchServer(answer)
        server.plans.extend(plans)
        server.faults.extend(("/content", Scripted(body=body)) for body in downloads)
        return server

    return make


def picture(kind: str, size: int = 8) -> bytes:
    """An image file of a kind and a size."""
    out = io.BytesIO()
    Image.new("RGB", (size, size)).save(out, kind)
    return out.getvalue()


class SelfSigned(Server):
    """A server whose certificate nobody signed but itself."""

    def __enter__(self) -> "SelfSigned":
        self.closed = Untrusted().__enter__()
        super().__enter__()
        return self

    @property
    def openai(self) -> str:
        return self.closed.url


BATCH = {"limits": {"batch_poll": 0.02, "batch_idle": 0.1}}
SCORE = '{"score": 70, "reason": "ok"}'

def later(headers: Callable[[], Mapping[str, str]]) -> Any:
    """A server that puts the first request off, and refuses the second if it comes in less than a second."""
    came: list[float] = []

    def answer(seen: Seen) -> Scripted:
        came.append(time.monotonic())
        if len(came) == 1:
            return Scripted("later", status=429, headers=headers())
        return Scripted(status=400) if came[-1] - came[0] < 0.9 else message(content=RATING)

    return answer


REPORTS = [
    Served(
        "interviewstreet/hiring-agent#386", "Retry-After is a date, and ends the run",
        later(lambda: {"retry-after": formatdate(time.time() + 2, usegmt=True), "date": formatdate(usegmt=True)}),
        images=1, paid=2,
    ),
    Served(
        "openclaw/openclaw#111353", "retry-after-ms cannot be read, and Retry-After beside it is ignored",
        later(lambda: {"retry-after-ms": "soon", "retry-after": "1"}), images=1, paid=2,
    ),
    Served(
        "Aider-AI/aider#5516", "tokens from the cache are paid twice: once as such, once as ordinary ones",
        lambda seen: Scripted(RATING, usage={
            "prompt_tokens": 10_000, "completion_tokens": 100, "prompt_tokens_details": {"cached_tokens": 8_000},
        }),
        arguments=["--captioner", "openai/gpt-4o"], prints=["spent $0.0640"],
    ),
    Served(
        "cvs-health/uqlm#468", "the judge answers from 0 to 1 where 0 to 100 is asked for",
        lambda seen: Scripted(f'{{"reason": "r", "score": 0.{int(seen.images[0][:3], 16)}}}'),
        images=6, paid=6, prints=["no score of 6 is above", "scale to 100"],
    ),
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
    Served(
        "lmstudio-ai/lmstudio-bug-tracker#1602", "content is null, the answer is in reasoning_content",
        lambda seen: message(reasoning_content=RATING), statuses=["unparsed"], code=1, prints=["reasoning_content"],
    ),
    Served(
        "AtomicBot-ai/atomic-agent#51", "the answer holds tool calls only",
        lambda seen: message("tool_calls", tool_calls=[{"id": "1", "function": {"name": "Rating", "arguments": RATING}}]),
        statuses=["unparsed"], code=1, prints=["tool_calls"],
    ),
    Served(
        "EQ-bench/eqbench3#6", "every answer is in another field, for hundreds of images",
        lambda seen: message(reasoning=RATING), images=60, paid=40, statuses=["unparsed"], code=2, prints=["--retry-failed"],
    ),
    Served(
        "open-webui/computer#293", "the cause is inside the wrapper of a gateway",
        refusing("temperature", 400, wrapped(message="temperature is not supported with this model", code="unsupported_value", param="temperature")),
        paid=8,
    ),
    Served(
        "juspay/neurolink#1691", "a keyword of the schema is refused",
        refusing("response_format", 400, {"error": {"message": "Invalid schema for response_format 'Rating': 'maximum' is not permitted."}}),
        paid=8,
    ),
    Served(
        "thepersonalaicompany/amurex-backend#38", "Groq: the model's JSON did not match the schema, this time",
        first(3, Scripted(status=400, body={"error": {"message": "Failed to validate JSON", "code": "json_validate_failed"}})),
        paid=8,
    ),
    Served(
        "ggml-org/llama.cpp#13566", "each image is refused, each eight times",
        text_only, images=40, paid=40, again=40, statuses=["failed"], code=2, prints=["--mmproj"],
    ),
    Served(
        "docker/docker-agent#2051", "thinking cannot be turned off, and each image is refused",
        lambda seen: Scripted(status=400, body={"error": {"message": "Budget 0 is invalid. This model only works in thinking mode."}}),
        images=60, paid=40, again=40, statuses=["failed"], code=2, prints=["thinking_budget"],
    ),
    Served(
        "earendil-works/pi#3429", "the server drops the image and answers from the text",
        lambda seen: Scripted(RATING, usage={"prompt_tokens": 60}), prints=["image", "tokens"],
    ),
    *(
        Served(
            source, f"the base address is written as {address}",
            lambda seen: Scripted(SCORE) if seen.path == "/v1/chat/completions" else Scripted(status=404),
            arguments=["--base-url", address],
        )
        for source, address in (
            ("BerriAI/litellm#8350", "{url}/"),
            ("openai/openai-python#780", "{url}//"),
            ("encode/httpx#3760", " {url}\n"),
        )
    ),
    Served(
        "modelscope/evalscope#1040", "the whole endpoint is given as the base address",
        lambda seen: Scripted(SCORE) if seen.path == "/v1/chat/completions" else Scripted(status=404, body={"detail": "Not Found"}),
        arguments=["--base-url", "{url}/chat/completions"], value=70,
    ),
    Served(
        "encode/httpx#3760", "the base address has no scheme",
        arguments=["--base-url", "{host}/v1"], paid=0, code=2, prints=["base_url", "http"],
    ),
    Command(
        "withceleste/celeste-python#116", "the key ends with a line break, and the header is refused",
        {"data/0.png": 1, "data/0.txt": "a cup"}, ["judge", "data", "--provider", "openai/gpt-4o", "--metric", "lmm-score", "--no-report"],
        env={"OPENAI_API_KEY": "sk-test-9876543210\n"}, asked=1, silent=["9876543210"],
    ),
    Command(
        "logicalclocks/feature-store-api#1145", "the key is printed when it is refused",
        {"data/0.png": 1, "data/0.txt": "a cup"}, ["judge", "data", "--provider", "openai/gpt-4o", "--metric", "lmm-score", "--no-report"],
        answer=rejected("Incorrect API key provided: sk-test-9876543210", 401), code=2,
        env={"OPENAI_API_KEY": "sk-test-9876543210"}, prints=["401"], silent=["9876543210"],
    ),
    Served(
        "vllm-project/vllm#29408", "content is empty, the answer is in reasoning_content",
        lambda seen: message(content="", reasoning_content=RATING), statuses=["unparsed"], code=1, prints=["reasoning_content"],
    ),
    Served(
        "QwenLM/Qwen3#1297", "content is missing, the thoughts were cut off",
        lambda seen: message("length", reasoning_content="Let me see: the cup"), statuses=["truncated"], code=1, prints=["max_tokens"],
    ),
    Served(
        "ai-twinkle/Eval#23", "the answer is in reasoning, and content is blank",
        lambda seen: message(content=" \n", reasoning=RATING), statuses=["unparsed"], code=1, prints=["reasoning"],
    ),
    Served(
        "AtomicBot-ai/atomic-agent#51", "content is a list of text parts",
        lambda seen: message(content=[{"type": "text", "text": RATING}]), value=70,
    ),
    Served(
        "AtomicBot-ai/atomic-agent#51", "the list of choices is empty",
        lambda seen: Scripted(body={"id": "x", "model": "m", "choices": [], "usage": USAGE}), statuses=["unparsed"], code=1,
    ),
    Served(
        "tdryer/hangups#464", "the answer has many long headers",
        lambda seen: Scripted(SCORE, headers={f"x-trace-{n}": "y" * 5000 for n in range(8)}),
    ),
    Served(
        "ggml-org/llama.cpp#24097", "the schema is ignored: the score is a fraction",
        lambda seen: Scripted("70/100"), paid=8, statuses=["unparsed"], code=1,
    ),
    Served(
        "mozilla-ai/any-llm#1143", "Anthropic's words for keywords of the schema",
        refusing("response_format", 400, {"error": {"message": "For 'integer' type, properties maximum, minimum are not supported"}}),
        paid=8,
    ),
    Served(
        "ag2ai/ag2#2348", "llama.cpp's words for keywords of the schema",
        refusing("response_format", 400, {"error": {"code": 400, "message": 'JSON schema conversion failed:\nUnrecognized schema: {"maximum":100}'}}),
        paid=8,
    ),
    Served(
        "prism-php/prism#813", "the gateway's wrapper holds a refused response_format",
        refusing("response_format", 400, wrapped(message="response_format json_schema is not supported")), paid=8,
    ),
    Served(
        "diegosouzapw/OmniRoute#3044", "the words of the vendor stay in the wrapper",
        lambda seen: Scripted(status=400, body=wrapped(message="This model supports at most 1 image", code=400)),
        statuses=["failed"], code=1, again=4, prints=["at most 1 image"],
    ),
    Served(
        "found beside diegosouzapw/OmniRoute#3044", "the gateway says HTTP 200, and its error is inside",
        lambda seen: Scripted(body=wrapped(message="This model does not take images", code=400)),
        statuses=["failed"], code=1, again=4, prints=["does not take images"],
    ),
    *(
        Served(
            source, "the server has a certificate of its own CA, and nothing says how to trust it", server=SelfSigned,
            arguments=["--base-url", "{url}"], paid=0, statuses=["failed"], code=2, prints=["SSL_CERT_FILE"],
        )
        for source in ("simonw/llm-anthropic#45", "aio-libs/aiohttp#3180")
    ),
    Served(
        "praveenjuge/teak#255", "Groq: the same text fails the check of JSON every time",
        rejected("Failed to validate JSON", code="json_validate_failed"), paid=16, again=16,
        statuses=["failed", "unparsed"], code=1, prints=["validate JSON"],
    ),
    Served(
        "cline/cline#8977", "llama.cpp cannot read WebP, and each image is refused",
        rejected("Failed to load image or audio file"), files={f"{n}.{kind}": made for n in range(3) for kind, made in (
            ("webp", picture("WEBP", 8 + n)), ("txt", f"a cup {n}"))},
        again=4, statuses=["failed"], code=1, prints=["PNG"],
    ),
    Served(
        "lmstudio-ai/lmstudio-bug-tracker#1150", "WebP files are judged by servers that can read them",
        lambda seen: RATING, files={"0.webp": picture("WEBP"), "0.txt": "a cup"}, value=70,
    ),
    *(
        Served(
            source, "the context is too small for the image, and nothing is retried", rejected(words), again=4,
            statuses=["failed"], code=1, prints=["context"],
        )
        for source, words in (
            ("vllm-project/vllm#6324", "This model's maximum context length is 2048 tokens. However, you requested 4068 tokens."),
            ("vllm-project/vllm#20409", "The decoder prompt (length 4068) is longer than the maximum model length of 2048."),
        )
    ),
    Served(
        "EvolvingLMMs-Lab/lmms-eval#598", "an image of one pixel ends the run",
        lambda seen: Scripted(status=400, body={"error": {"message": "height:1 must be larger than factor:28"}})
        if "thing" in seen.text else None,
        files={"0.png": picture("PNG", 1), "0.txt": "a thing", "1.png": 1, "1.txt": "a cup"}, again=1,
        statuses=["ok", "failed"], code=4, prints=["larger than factor"],
    ),
    Served(
        "googleapis/python-genai#811", "Gemini: all tokens went into thinking", gemini("MAX_TOKENS"),
        provider="gemini", statuses=["truncated"], code=1, prints=["max_tokens"],
    ),
    Served(
        "langchain-ai/langchain-google#1020", "Gemini: the thoughts left half an answer", gemini("MAX_TOKENS", [{"text": '{"score": 7'}]),
        provider="gemini", statuses=["truncated"], code=1, prints=["max_tokens"],
    ),
    Served(
        "UKGovernmentBEIS/inspect_ai#1672", "Gemini: no candidates and no feedback", gemini(candidates=[]),
        provider="gemini", statuses=["unparsed", "refused", "failed"], code=1,
    ),
    Served(
        "livekit/agents#2133", "Gemini: a content without parts", gemini(candidates=[{"content": {"role": "model"}, "finishReason": "STOP"}]),
        provider="gemini", statuses=["unparsed"], code=1,
    ),
    *(
        Served(
            "stanford-crfm/helm#3804", f"Gemini stops with {finish}, which the client does not know", gemini(finish, [{"text": RATING}]),
            provider="gemini", statuses=["refused", "failed", "unparsed"], code=1, paid=paid,
        )
        for finish, paid in (("PROHIBITED_CONTENT", 4), ("SAFETY", 4), ("MALFORMED_RESPONSE", 12))
    ),
    *(
        Served(
            source, "Gemini: a thinking budget that the model refuses", rejected(words, status="INVALID_ARGUMENT", code=400),
            provider="gemini", images=60, paid=40, again=40, statuses=["failed"], code=2, prints=["thinking_budget"],
        )
        for source, words in (
            ("vercel/ai#8027", "Budget 0 is invalid. This model only works in thinking mode."),
            ("googleapis/python-genai#2936", "The thinking budget 0 is invalid. Please choose a value between 128 and 32768."),
        )
    ),
    Served(
        "BerriAI/litellm#21553", "the header that says when to ask again has a prefix",
        first(2, Scripted(status=429, headers={"llm_provider-retry-after": "0.01"})), paid=6,
    ),
    Served(
        "NVIDIA-NeMo/Gym#1555", "the server closes idle connections, and the next request is lost",
        lambda seen: RATING, images=12, paid=12, value=70,
    ),
    Served(
        "llm-d/llm-d#1564", "a connection is reset before the answer, and the image is lost",
        first(1, Scripted(kind="drop_before")), images=3, paid=4, value=70,
    ),
    Served(
        "NousResearch/hermes-agent#97486", "the server drops the image, and says no usage at all",
        lambda seen: Scripted(RATING, usage={"prompt_tokens": 1}), prints=["image", "tokens"],
    ),
    Served(
        "ollama/ollama#18579", "the wanted answer is not among the likeliest first tokens",
        lambda seen: Scripted("**", tops=[("**", -0.01), ("Okay", -5.0), ("Yes", -6.0)]), metric="vqascore",
        statuses=["unparsed"], code=1,
    ),
    Served(
        "ollama/ollama#18579", "the answers are spelled otherwise",
        lambda seen: Scripted(" yes", tops=[(" yes", -0.22314355), ("no", -1.60943791)]), metric="vqascore", value=0.8,
    ),
    *(
        Served(
            source, f"a prompt holds {text!r}, which a template or a format reads", lambda seen: RATING,
            files={"0.png": 1, "metadata.jsonl": [{"file_name": "0.png", "text": text}]}, sent=[text], value=70,
        )
        for source, text in (
            ("UKGovernmentBEIS/inspect_ai#5276", 'a sign with {prompt} and {"a": [1]} on {{ it }} {% if x %}'),
            ("run-llama/llama_index#14310", "50%s of $x_1^{2}$ \\frac{a}{b}, {0}\tand\na second line"),
        )
    ),
    *(
        Served(
            source, "a proxy that titjudge cannot speak to gets the key", arguments=["--base-url", "http://api.example.com/v1"],
            env={variable: f"{scheme}://{{host}}"}, paid=0, code=2, prints=[variable, scheme], silent=["may have cost"],
        )
        for source, variable, scheme in (
            ("hiyouga/LlamaFactory#8928", "ALL_PROXY", "socks"),
            ("OpenHands/OpenHands#1048", "ALL_PROXY", "socks5"),
            ("HKUDS/nanobot#5425", "HTTP_PROXY", "socks5h"),
        )
    ),
    Served(
        "HKUDS/nanobot#5425", "a proxy is named without a scheme", lambda seen: RATING,
        arguments=["--base-url", "http://api.example.com/v1"], env={"HTTP_PROXY": "{host}"}, value=70,
    ),
    Served(
        "HKUDS/nanobot#5425", "the proxy refuses: nothing was sent to the vendor, nothing is billed",
        lambda seen: Scripted(status=407), arguments=["--base-url", "https://api.example.com/v1"], env={"HTTPS_PROXY": "{host}"},
        statuses=["failed"], code=2, again=4, prints=["HTTPS_PROXY", "407"], silent=["may have cost"],
    ),
    Served(
        "ProjectTech4DevAI/kaapi-backend#723", "a completed batch job has a file of errors only",
        rejected("The image is too small"), arguments=["--batch"], config=BATCH, server=batches(), paid=0,
        statuses=["failed"], code=1, prints=["too small"],
    ),
    Served(
        "openai/openai-cookbook#1564", "a part of a batch job's requests fails",
        lambda seen: RATING if "1" in seen.text.split()[-1] else Scripted(status=400, body={"error": {"message": "unreadable"}}),
        arguments=["--batch"], config=BATCH, server=batches(), statuses=["ok", "failed"], code=1, prints=["unreadable"],
    ),
    *(
        Served(
            source, f"the answers of a batch job come once as {body[:12]!r}", lambda seen: RATING,
            arguments=["--batch"], config=BATCH, server=batches(downloads=[body]), value=70,
        )
        for source, body in (
            ("mistralai/client-python#159", b" "),
            ("mistralai/client-python#159", b"<html>please log in</html>"),
            ("BerriAI/litellm#37457", b'{"error": {"message": "temporarily unavailable"}}'),
            ("BerriAI/litellm#37457", b'{"custom_id": "ask:1"'),
        )
    ),
    *(
        Served(
            source, f"a batch job is {end} with {answered} answers, which are thrown away", lambda seen: RATING,
            arguments=["--batch"], config=BATCH, server=batches(Plan(end=end, answered=answered)), value=70,
        )
        for source, end, answered in (("warmbly/warmbly#333", "expired", 3), ("bespokelabsai/curator#226", "cancelled", 1))
    ),
]  # fmt: skip
