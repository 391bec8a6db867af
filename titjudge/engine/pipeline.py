"""ask(): the only pipeline between a metric and a model.

    render -> image -> key -> same question in flight? -> cache -> reserve money -> wait for a slot -> send (retry)
    -> settle -> parse (one repair turn) -> on disk -> reply

Nothing else in titjudge has concurrency, cache, budget, rate limit, retry or parsing. A metric that gets a Reply has a
usable answer; everything else arrives as `Unanswered` and becomes a score without a value.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from titjudge.core import structured_output
from titjudge.core.errors import BudgetExhausted, CacheWriteError, TitjudgeError, Unanswered
from titjudge.core.prompts import PromptLibrary
from titjudge.core.refusals import refusal
from titjudge.core.serialization import (
    content_key,
    embedding_from,
    embedding_record,
    reply_from,
    reply_record,
    request_key,
    request_record,
)
from titjudge.core.structured_output import after_thinking, ends_in_thinking, schema_of
from titjudge.core.types import EMPTY, NO_ANSWER, Embedding, Json, Message, Reply, Request, Status, Usage, Values
from titjudge.data.images import ImageFiles
from titjudge.engine import retry
from titjudge.engine.budget import Budget, Reservation
from titjudge.engine.cache import AnswerCache
from titjudge.engine.roles import ProviderRole, Roles
from titjudge.engine.sender import Interrupted, Journal, Sender, classified
from titjudge.providers.base import UNFINISHED, Ending, ending
from titjudge.providers.retirements import OTHER_MODEL

logger = logging.getLogger(__name__)

__all__ = ["BudgetExhausted", "Engine", "Interrupted"]

Failed = Literal["keep", "again", "drop"]


@dataclass(frozen=True, slots=True)
class ReplyRules:
    """Rules that decide whether a reply is an answer to a question.

    Attributes:
        schema: The pydantic model that the text must fit.
        truncated: Whether a text that was cut off counts.
        empty: Whether an answer without a text counts: as one that failed, with an empty text.
        describes: Whether the answer describes an image, so that a text that declines to is a refusal.
    """

    schema: type[Any] | None = None
    truncated: bool = False
    empty: bool = False
    describes: bool = False

    def takes(self, reply: Reply, request: Request) -> bool:
        """Return True if a reply is an answer."""
        if self.empty and EMPTY in reply.flags:
            return True
        taken = [Status.OK] if request.choices else [Status.OK, Status.UNPARSED, *([Status.TRUNCATED] * self.truncated)]
        finished = reply.status is Status.OK or UNFINISHED not in reply.flags
        return reply.status in taken and finished and NO_ANSWER not in reply.flags

    def of_empty(self, reply: Reply) -> Reply:
        """Give an answer without a text its status under these rules, whatever its status for the first caller."""
        if EMPTY not in reply.flags or reply.status not in (Status.FAILED, Status.UNPARSED):
            return reply
        if not self.empty:
            return replace(reply, status=Status.UNPARSED, flags=tuple(dict.fromkeys((*reply.flags, NO_ANSWER))))
        return replace(reply, text="", status=Status.FAILED)

    def declined(self, reply: Reply, request: Request) -> Reply:
        """Make a refusal of a text that declines to describe the image."""
        if not self.describes or reply.status not in (Status.OK, Status.TRUNCATED):
            return reply
        reason = refusal(after_thinking(reply.text), "\n".join(message.text for message in request.messages))
        return replace(reply, status=Status.REFUSED, reason=reason) if reason else reply


@dataclass(frozen=True, slots=True)
class PendingQuestion:
    """A request on its way.

    Attributes:
        key: Its key in cache and journal.
        role: The role that answers.
        request: The request to send.
        reading: The rules for its answer.
        reservation: The amount that the caller has reserved for its questions.
    """

    key: str
    role: ProviderRole
    request: Request
    reading: ReplyRules
    reservation: Reservation | None

    @property
    def names(self) -> dict[str, str]:
        """Return the fields that a log line has about it."""
        return {"role": self.request.role, "template": self.request.template, "item": self.request.item_id}


class Engine:
    """Asks models. One engine serves one run; use it inside one event loop.

    Args:
        roles: Which model plays captioner, judge, embedder; their configuration has the protocol they follow (official
            or strict), and whether malformed JSON answers are repaired, and flagged (lenient).
        library: The prompt templates.
        cache: Keeps the answers; None keeps none.
        budget: The caps; without one there are none.
        journal: Called with a kind and a JSON record: `reply` or `vector` for every answer used, once for each key, and
            `bill` for every request that was or may have been billed.
        dry_run: Write nothing to the cache and read only the headers of images.
        known: Keys the journal has already, and whether there is a good answer under them.
        failed: The treatment of answers that cannot be used (refused, cut off, unreadable). `keep`: they are kept and not
            paid again; `again`: those kept are asked for once more, and the new ones are kept; `drop`: neither.
        embeds: Texts will be embedded: an embedder in this process is loaded from the first answer on, while others are on their way.

    Attributes:
        on_answer: Called with the id of an item and the key of a question about it, when that is answered or will not be.
    """

    def __init__(
        self,
        roles: Roles,
        library: PromptLibrary,
        cache: AnswerCache | None = None,
        budget: Budget | None = None,
        *,
        journal: Journal | None = None,
        dry_run: bool = False,
        known: Mapping[str, bool] | None = None,
        failed: Failed = "keep",
        embeds: bool = False,
    ) -> None:
        self.on_answer: Callable[[str, str], None] = lambda item, key: None
        self._embeds = embeds
        self._loading: asyncio.Task[None] | None = None
        self._embedding = 0  # texts that wait for their vector
        self.roles, self.library, self.cache = roles, library, cache
        limits = roles.config.limits
        policy = retry.Policy(limits.attempts, limits.patience)
        self.sender = Sender(budget or Budget(), journal, self.stop, policy)
        self.sender.well_known = any((known or {}).values())
        self.protocol: str = roles.config.protocol
        self.lenient = roles.config.lenient
        self.images = ImageFiles(None if dry_run else cache, decode=not dry_run)
        self.killed = False
        self.dry_run = dry_run
        self._used = {_short(key) for key, good in (known or {}).items() if good}
        self._unusable = {_short(key) for key, good in (known or {}).items() if not good}
        self.failed, self._asked_again = failed, set[bytes]()
        self._flights: dict[str, asyncio.Task[Any]] = {}  # by key: the questions in progress
        self._readings: dict[str, ReplyRules] = {}  # by key: how it is read
        self._waiters: Counter[str] = Counter()

    @property
    def budget(self) -> Budget:
        return self.sender.budget

    def stop(self) -> None:
        """Send nothing more. Answers already asked for are awaited and kept; everything else ends as `Interrupted`."""
        self.sender.stop(self._flights.values())
        for role in self.roles.open():
            role.provider.leave()  # batch jobs go on without us

    def finish(self) -> str:
        """Begin no further prompt (`Sender.finish`), and leave batch jobs to their provider; returns a line for the user."""
        if any(role.provider.is_batch for role in self.roles.open()):
            self.stop()
            return "stopping: the batch jobs go on (run the command again to collect their answers)"
        return self.sender.finish(role.limiter for role in self.roles.open())

    async def land(self) -> None:
        """Wait for the answers that are on their way (unless `killed`), until they are kept."""
        while waiting := [task for task in self._flights.values() if self.sender.is_sending(task) and not self.killed]:
            await asyncio.wait(waiting)

    def flush(self) -> CacheWriteError | None:
        """Write what the cache still gathers; returns why it cannot be written."""
        try:
            if self.cache is not None and not self.dry_run:
                self.cache.flush()
        except CacheWriteError as error:
            return error
        return None

    async def aclose(self) -> None:
        """Wait for the answers that are on their way (unless `killed`), then let go of everything."""
        await self.land()
        for task in list(self._flights.values()):
            task.cancel()
        await asyncio.gather(*self._flights.values(), return_exceptions=True)
        self.sender.disk = self.sender.disk or self.flush()
        await self.roles.aclose()

    def waits(self) -> list[str]:
        """Write which requests wait, for which reason and until when; empty if none waits."""
        limiters = {id(role.limiter): (role.label, role.limiter) for role in self.roles.open()}
        lines = [
            f"rate limit of {label}: {limiter.waiting} waiting, the next in {delay:.0f} s"
            for label, limiter in limiters.values()
            if limiter.waiting and (delay := limiter.delay) >= 1
        ]
        lines += self.sender.waits()
        if self._embedding:
            loading = self._loading is not None and not self._loading.done()
            lines.append(f"{self._embedding} to be embedded{' (the embedder is loading)' if loading else ''}")
        return lines

    # -- questions -------------------------------------------------------------------------------------------------

    def request(
        self,
        role: ProviderRole,
        messages: tuple[Message, ...],
        *,
        params: Values,
        schema: type[Any] | None = None,
        **named: Any,
    ) -> Request:
        """Make a request as it will be sent: without unsupported parameters, and with tokens for thinking.

        `named` are further fields of the request.
        """
        shape = schema_of(schema) if schema else None
        return Request(
            provider=role.provider.name,
            model=role.model,
            messages=messages,
            params=role.sampling(params, self.protocol),
            schema=shape,
            schema_name=shape["title"] if shape else "",
            base_url=role.provider.base_url,
            adapter_version=role.provider.version,
            role=role.name,
            **named,
        )

    async def answer(
        self,
        role: ProviderRole,
        request: Request,
        reading: ReplyRules | None = None,
        reservation: Reservation | None = None,
    ) -> Reply:
        """Answer a question: from the cache, otherwise by the model; identical questions at one time share one request.

        If another caller with different rules is waiting for the same question, this one is answered after it, from the
        same reply.

        Args:
            role: The role that answers.
            request: The question.
            reading: The rules for its answer.
            reservation: The amount that the caller has reserved for its questions.

        Raises:
            Unanswered: Refused, truncated, failed, or unreadable after a repair turn.
            FatalProviderError, BudgetExhausted, BudgetHeld, CacheWriteError, Interrupted: Nothing more will be answered.
        """
        key, reading = request_key(request), reading or ReplyRules()
        try:
            while (flight := self._flights.get(key)) is not None and self._readings[key] != reading:
                await asyncio.wait([flight])
            self._readings[key] = reading
            question = PendingQuestion(key, role, request, reading, reservation)
            reply: Reply = await self._once(key, lambda: self._answer(question))
        finally:
            self.on_answer(request.item_id, key)
        return reply

    async def _once(self, key: str, start: Callable[[], Any], *, local: bool = False) -> Any:
        """Run `start` unless the same key is in flight already; share the result. `local` work goes on when the run ends.

        If all callers are cancelled before the request is sent, it is not sent; once it is sent, it is awaited and kept.
        """
        task = self._flights.get(key)
        if task is None:
            task = asyncio.create_task(start())
            self._flights[key] = task
            task.add_done_callback(partial(self._landed, key))
            if local:
                self.sender.protect(task)
        self._waiters[key] += 1
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            waiter = asyncio.current_task()
            if task.cancelled() and not (waiter and waiter.cancelling()):  # the task was cancelled, not this caller
                self.sender.check()
            elif self._waiters[key] == 1 and not self.sender.is_sending(task):
                task.cancel()
            raise
        finally:
            self._waiters[key] -= 1
            if not self._waiters[key]:
                del self._waiters[key]

    def _landed(self, key: str, task: asyncio.Task[Any]) -> None:
        self._flights.pop(key, None)
        self._readings.pop(key, None)
        if not task.cancelled():
            task.exception()  # retrieved: a waiter may have gone away

    async def _answer(self, question: PendingQuestion) -> Reply:
        request, reading = question.request, question.reading
        kept = self._recall(question)
        if kept is not None:
            kept = reading.declined(reading.of_empty(kept), request)
        read = None if kept is None else self._read(question, kept)
        if kept is not None and (read is not None or self._stands(question.key)):
            reply, new = kept, False
            self._count_kept(question, kept)
        else:
            reply, new = replace(await self._send(question), key=question.key), True
            self.on_answer(request.item_id, question.key)  # now, as a repair turn would be a separate question
            reply = _thought_out(reading.of_empty(reply))
            reply = reading.declined(_weighed(reply) if request.choices else reply, request)
            read = self._read(question, reply)
        if read is None:
            await self._keep_failure(question, reply, new=new)
            read, new = await self._repair(question, reply), True
        self._note(request, read)
        if new:
            await self._keep(question, read)
        return read

    def _count_kept(self, question: PendingQuestion, kept: Reply) -> None:
        """Count an answer that was kept, if the run has not used it before."""
        role = question.role
        self.sender.note_kept(role, question.request.item_id, kept)
        if logger.isEnabledFor(logging.DEBUG):
            logger.debug("%(role)s %(template)s of %(item)s: in the cache", question.names)
        if _short(question.key) not in self._used:
            role.tally.cached += 1
            self.budget.note_cached(kept.list_cost or 0.0)

    def _stands(self, key: str) -> bool:
        """Whether a kept answer that cannot be used is final; otherwise the question is asked again, once."""
        if self.failed == "keep" or _short(key) in self._asked_again:
            return True
        self._asked_again.add(_short(key))
        return False

    async def _keep_failure(self, question: PendingQuestion, reply: Reply, *, new: bool) -> None:
        """Keep a reply without a usable answer, so that it is not paid again.

        Raises:
            Unanswered: A repair turn cannot make an answer of it.
        """
        taken = question.reading.takes(reply, question.request)
        if not taken:
            logger.info(
                "%(role)s %(template)s of %(item)s: %(status)s (%(reason)s)",
                {**question.names, "status": str(reply.status), "reason": reply.reason},
            )
            question.role.tally.unusable += 1
        failed = replace(reply, status=Status.UNPARSED) if taken else reply
        self._note(question.request, failed)
        if new and self.failed != "drop":
            await self._keep(question, failed)
        if not taken:
            raise Unanswered(reply.status, reply.reason or _REASONS[reply.status], reply)

    def _read(self, question: PendingQuestion, reply: Reply) -> Reply | None:
        """Read a reply; None if it is not an answer, or does not fit the schema."""
        schema, request = question.reading.schema, question.request
        if not question.reading.takes(reply, request):
            return None
        if reply.status is Status.UNPARSED:  # it could not be read when it was kept; today's schema may read it
            reply = replace(reply, status=Status.OK)
        if schema is None:
            return reply
        sent_text = ""
        if not getattr(schema, "repeats_question", False):
            sent_text = "\n".join(message.text for message in request.messages if message.role != "assistant")
        data, flags = structured_output.validated(reply.text, schema, lenient=self.lenient, question=sent_text)
        return None if data is None else replace(reply, data=data, flags=(*reply.flags, *flags))

    async def _repair(self, question: PendingQuestion, reply: Reply) -> Reply:
        """Ask once more, with a turn that shows the model its previous answer; the request carries an attempt number.

        Raises:
            Unanswered: The second answer cannot be read either.
        """
        role, request, schema = question.role, question.request, question.reading.schema
        assert schema is not None  # without one every answer is read
        problem = structured_output.problem(reply.text, schema)
        if request.attempt > 0:
            role.tally.unusable += 1
            raise Unanswered(Status.UNPARSED, f"the answer could not be read after a repair turn: {problem}", reply)
        logger.info(
            "%(role)s %(template)s of %(item)s: the answer cannot be read (%(problem)s), asked for a repair",
            {**question.names, "problem": problem},
        )
        turn = self.library.get("repair/json").messages({"problem": problem, "schema": _json(schema_of(schema))})
        messages = (*request.messages, Message("assistant", (reply.text,)), *turn)
        repair_request = replace(request, messages=messages, attempt=request.attempt + 1)
        with self.sender.not_dropped:
            fixed = await self.answer(role, repair_request, ReplyRules(schema), question.reservation)
        both_kept = fixed.cached and reply.cached
        list_cost = None if fixed.list_cost is None or reply.list_cost is None else fixed.list_cost + reply.list_cost
        return replace(fixed, key=reply.key, flags=(*fixed.flags, "repaired"), list_cost=list_cost, cached=both_kept)

    # -- sending ---------------------------------------------------------------------------------------------------

    async def _send(self, question: PendingQuestion) -> Reply:
        """Send a question to the model; an empty or refused answer that arrives as an error becomes a reply."""
        role = question.role
        self.sender.check()
        if role.provider.direct:
            return await self._ask_directly(role, question.request)
        try:
            reply = await self.sender.send(role, question.request, question.reservation)
        except Unanswered as error:
            if error.reply is not None:  # paid, and not to be used
                reply = replace(error.reply, list_cost=role.price_of(error.reply.usage))
                role.tally.add(reply)
                return reply
            if error.status is Status.REFUSED:  # by a content filter, with an error instead of an answer
                return Reply("", Status.REFUSED, error.reason, finish_reason="content_filter", list_cost=0.0)
            raise
        self._load_embedder()  # not before an answer: without a key, or at a wrong address, there is nothing to embed
        role.tally.add(reply)
        return reply

    def _load_embedder(self) -> None:
        """Start loading the embedder in a thread, once. If that fails, embedding the first text raises the error."""
        if self._embeds:
            self._embeds = False
            self._loading = asyncio.create_task(asyncio.to_thread(self.roles.embedder().load))
            self._loading.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _ask_directly(self, role: ProviderRole, request: Request) -> Reply:
        """Ask a `direct` provider: no price, no slot, no retry. Models in this process form batches by themselves."""
        started = time.monotonic()
        try:
            reply = await role.provider.complete(request)
        except TitjudgeError:
            raise
        except Exception as error:
            raise retry.terminal_error(classified(role, error)) from error
        planned = role.worst(reply.usage) if self.dry_run else None  # a dry run makes up the answer, and prices it
        # A recorded answer comes with a list price.
        reply = replace(reply, list_cost=planned or reply.list_cost or 0.0, seconds=time.monotonic() - started)
        role.tally.add(reply)
        return reply

    # -- disk ------------------------------------------------------------------------------------------------------

    def _recall(self, question: PendingQuestion) -> Reply | None:
        if self.cache is None or not question.role.provider.capabilities.cache:
            return None
        record = self.cache.get(question.key)
        if record is None:
            return None
        kept = replace(reply_from(record), key=question.key, cached=True)
        if kept.status is Status.OK and ending(kept.finish_reason) is Ending.BROKEN and not kept.first_token:
            return None  # kept as a whole answer before finish reasons were distinguished
        return _thought_out(kept)

    async def _keep(self, question: PendingQuestion, reply: Reply) -> None:
        """Put a reply into the cache, unless the answer came from a model that is not the one in its key."""
        if OTHER_MODEL in reply.flags:
            return
        if self.cache is not None and question.role.provider.capabilities.cache and not self.dry_run:
            await self._store(self.cache, question.key, reply_record(reply))

    async def _store(self, cache: AnswerCache, key: str, record: Json) -> None:
        """Put an answer into the cache: later if the journal has it, so that a kill loses nothing, otherwise at once."""
        if self.sender.journals:
            cache.later(key, record)
            return
        with self.sender.not_dropped:
            await cache.put(key, record)

    def _note(self, request: Request, reply: Reply) -> None:
        key = _short(reply.key)
        if key in self._used or (reply.cached and key in self._unusable):
            return
        (self._used if reply.status is Status.OK else self._unusable).add(key)
        record = {**request_record(request), **reply_record(reply), "key": reply.key, "cached": reply.cached}
        self.sender.write("reply", record)

    # -- vectors ---------------------------------------------------------------------------------------------------

    async def embed(self, texts: Sequence[str], reservation: Reservation | None = None) -> list[tuple[str, Embedding]]:
        """Return the key and the unit vector of each text; each distinct text is embedded once and then kept."""
        embedder = self.roles.embedder()
        keys = {text: content_key("embed", {"identity": dict(embedder.identity), "text": text}) for text in texts}
        embeddings: dict[str, Embedding] = {}
        for text, key in keys.items():
            kept = self.cache.get(key) if self.cache is not None else None
            if kept is not None:
                embeddings[text] = embedding_from(kept)
                self.roles.embedded.cached += 1
        absent = [text for text in keys if text not in embeddings]
        self._embedding += len(absent)
        try:
            vectors = await asyncio.gather(
                *(
                    self._once(keys[text], partial(self._embed, keys[text], text, reservation), local=embedder.direct)
                    for text in absent
                )
            )
        finally:
            self._embedding -= len(absent)
        embeddings.update(zip(absent, vectors, strict=True))
        for text, key in keys.items():
            self._note_vector(key, text, embeddings[text])
        return [(keys[text], embeddings[text]) for text in texts]

    async def _embed(self, key: str, text: str, reservation: Reservation | None) -> Embedding:
        """Embed a text that is not in the cache, and keep its vector."""
        embedder = self.roles.embedder()
        tally = self.roles.embedded
        if embedder.direct:
            (vector,) = await embedder.embed([text])
        else:
            vector = await self.sender.send(self.roles.embedder_role(), text, reservation)
            # It is paid, so it goes into the journal first; the cache may write later.
            self._note_vector(key, text, vector)
        tally.asked += 1
        tally.usage += Usage(input=vector.tokens_used)
        if self.cache is not None and not self.dry_run:
            await self._store(self.cache, key, embedding_record(vector))
        return vector

    def _note_vector(self, key: str, text: str, vector: Embedding) -> None:
        if self.sender.journals and (short := _short(key)) not in self._used:
            self._used.add(short)
            self.sender.write("vector", {"key": key, "text": text, **embedding_record(vector)})


def _thought_out(reply: Reply) -> Reply:
    """Mark an answer that ends inside its thinking as truncated, and one without a known end as unparsed: neither is an answer."""
    if reply.status is Status.TRUNCATED and UNFINISHED in reply.flags:
        reply = replace(reply, status=Status.UNPARSED)
    if reply.status not in (Status.OK, Status.UNPARSED) or reply.tool_calls or not ends_in_thinking(reply.text):
        return reply
    return replace(
        reply,
        status=Status.TRUNCATED,
        reason="the answer ends inside its thinking (<think> without </think>)",
        flags=tuple(dict.fromkeys((*reply.flags, UNFINISHED))),
    )


def _weighed(reply: Reply) -> Reply:
    """Judge a reply by the probabilities of its first token: OK with them, whatever its text, otherwise UNPARSED."""
    if reply.first_token is not None:
        return replace(reply, status=Status.OK, reason="")
    if reply.status not in (Status.OK, Status.TRUNCATED):
        return reply
    why = "the answer came without the probabilities of its first token (a model that thinks first gives none)"
    return replace(reply, status=Status.UNPARSED, reason=why)


def _short(key: str) -> bytes:
    """Shorten a key to 16 bytes, for sets of very many."""
    return bytes.fromhex(key.rpartition(":")[2][:32])


_REASONS = {
    Status.REFUSED: "the model declined to answer",
    Status.TRUNCATED: "the answer hit its token limit",
}


def _json(value: Any) -> str:
    import orjson

    return orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
