"""A program that keeps fitted aligners in memory, and answers requests in JSON over HTTP."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import numpy as np
from anyio import fail_after, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, ConfigDict, Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send

from alignkit.aligner import Aligner
from alignkit.errors import AlignkitError, counted
from alignkit.links.links import Links
from alignkit.pipeline.aligned_text import AlignedText
from alignkit.support.combining import MOST, PATIENCE, Combined, Sides, of_texts, outcomes
from alignkit.support.packages import __version__
from alignkit.text.pairs import read_text
from alignkit.uses.projection import DEFAULT_RULE, RULES
from alignkit.uses.projection_files import Words, project_lines

MOST_BYTES, MOST_SECONDS = 1 << 20, 30.0  # of a request
SHORT = 40_000  # characters of one side times those of the other, which take some milliseconds
LOCAL = ["127.0.0.1", "localhost", "[::1]", "::1"]


class Text(BaseModel):
    """A sentence pair, or several: words have spaces between them, unless the model was fitted on raw text."""

    model_config = ConfigDict(extra="forbid")
    source: str | list[str]
    target: str | list[str]
    model: str | None = Field(None, description="the name of a model; by default the first one")

    @property
    def sides(self) -> tuple[list[str], list[str]]:
        """The sentences of both sides."""
        source, target = ([side] if isinstance(side, str) else side for side in (self.source, self.target))
        if len(source) != len(target):
            raise AlignkitError(f"source has {counted(len(source), 'sentence')}, target has {len(target):,}")
        return source, target


class TaggedText(Text):
    """Sentences with tags, and their translations without them."""

    rule: str = Field(
        DEFAULT_RULE, description=f"where a span goes: {', '.join(RULES)}", pattern=f"^({'|'.join(RULES)})$"
    )
    least: float = Field(0, ge=0, le=1, description="the least mean probability of the links of a span")


class Gathered:
    """A function of texts that tasks of an event loop call: those that come while one is computed are one text.

    Short texts are computed in the loop: a change of threads takes longer than all else that waits for them. Texts
    of networks, whose aligners answer one at a time, are not short.

    Args:
        answer: gives the answers to texts, in order.
        most: the largest number of texts that are answered together.
    """

    def __init__(self, answer: Callable[[Sequence[Sides]], list[Any]], most: int) -> None:
        self.answer, self.most, self._last = answer, most, 1
        self._waiting: list[tuple[Sides, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def __call__(self, text: Sides) -> Any:
        """The answer to a text; raises what ``answer`` raises for this text alone."""
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        self._waiting.append((text, future))
        if self._task is None or self._task.get_loop() is not loop:
            self._task = loop.create_task(self._answer_waiting(loop))
        return await future

    async def _answer_waiting(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            while self._waiting:
                end = loop.time() + PATIENCE
                while len(self._waiting) < self._last and loop.time() < end:
                    await asyncio.sleep(0)
                # Nobody waits any more for what took too long.
                waiting = [each for each in self._waiting if not each[1].done()]
                taken, self._waiting = waiting[: self.most], waiting[self.most :]
                if not taken:
                    break
                self._last, texts = len(taken), [text for text, _ in taken]
                # Time grows with the elements (t, l), and a little with each pair.
                pairs = (pair for text in texts for pair in zip(*text, strict=False))
                work = sum((10 + len(x)) * (10 + len(y)) for x, y in pairs)
                if work <= SHORT and self.most > 1:
                    found = outcomes(self.answer, texts)
                else:
                    found = await to_thread.run_sync(outcomes, self.answer, texts)
                for (_, future), outcome in zip(taken, found, strict=True):
                    if future.done():  # its request took too long
                        continue
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
                await asyncio.sleep(0)
        finally:
            self._task = None


class Served:
    """An aligner that several requests use at once."""

    def __init__(self, aligner: Aligner) -> None:
        self.aligner = aligner.on_words()
        most = 1 if self.aligner.depends_on_batch else MOST
        self.linked = Combined(of_texts(self._linked), most)
        self.align = Gathered(of_texts(self._records), most)

    def _linked(self, source: list[Any], target: list[Any]) -> AlignedText:
        bitext = read_text(source, target, tokenize=self.aligner.raw_text)
        return AlignedText(bitext, self.aligner, self.aligner.links_and_probabilities(bitext))

    def _records(self, source: list[Any], target: list[Any]) -> list[dict[str, Any]]:
        """The words of each pair, and its links with their probabilities."""
        return [
            {
                "source": pair.source,
                "target": pair.target,
                "links": [[s, t, float(f"{p:.4g}")] for s, t, p in pair.links],
            }
            for pair in self._linked(source, target)
        ]

    def project(self, text: TaggedText) -> dict[str, Any]:
        """The translations with the tags, and the tags that have no place in the links."""

        def link(source: Words, target: Words) -> tuple[Links, np.ndarray]:
            aligned = self.linked((list(source), list(target)))
            return aligned.links, aligned.probabilities

        source, target = text.sides
        sides, raw = (("source", source), ("target", target)), self.aligner.raw_text
        lines, unplaced = project_lines(*sides, link, rule=text.rule, least=text.least, tokenize=raw)
        return {"target": [line.removesuffix("\n") for line in lines], "unplaced": unplaced}

    def omissions(self, text: Text) -> list[dict[str, Any]]:
        """The words of each pair, and which of them have no counterpart."""
        aligned = AlignedText(read_text(*text.sides, tokenize=self.aligner.raw_text), self.aligner)
        return [aligned.coverage(m).as_record() for m in range(len(aligned))]

    def score(self, text: Text) -> list[list[float | None]]:
        """See :meth:`alignkit.aligner.Aligner.sentence_scores`; None for a pair with a blank side."""
        scores = self.aligner.sentence_scores(read_text(*text.sides, tokenize=self.aligner.raw_text))
        return [[None if np.isnan(value) else value for value in row] for row in scores.tolist()]


def application(
    models: Mapping[str, Aligner],
    token: str | None = None,
    most_bytes: int = MOST_BYTES,
    most_seconds: float = MOST_SECONDS,
    hosts: list[str] | None = None,
) -> FastAPI:
    """The web application: ``POST /align``, ``/project``, ``/omissions`` and ``/score``, ``GET /models``, and
    ``/docs`` on them.

    Requests that wait are answered together. No request names a file. Errors are ``{"error": "..."}``.

    Args:
        models: name -> an aligner; the first one is the default.
        token: what requests must send as ``Authorization: Bearer TOKEN``; None: nothing.
        most_bytes: the largest body of a request.
        most_seconds: how long a request may take.
        hosts: names of the server that requests may ask for, so that no web page can reach it by a name of its
            own; None: any.
    """
    app = FastAPI(title="alignkit", version=__version__, description="Word alignment.")
    served = {name: Served(model) for name, model in models.items()}
    if hosts is not None:
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)

    app.add_middleware(Guard, token, most_bytes)

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        if first["type"] == "json_invalid":
            return failure(422, f"the request is not JSON: {first['ctx']['error']}")
        field = [str(part) for part in first["loc"][1:2]]
        return failure(422, ": ".join([*field, first["msg"]]))

    @app.exception_handler(HTTPException)
    async def not_served(_: Request, error: HTTPException) -> JSONResponse:
        return failure(error.status_code, f"{error.detail}; see /docs")

    @app.exception_handler(AlignkitError)
    async def refused(_: Request, error: AlignkitError) -> JSONResponse:
        return failure(400, str(error))

    async def answered(text: Text, answer: Callable[[Served], Awaitable[Any]]) -> Any:
        name = text.model or next(iter(served))
        if name not in served:
            return failure(404, f"there is no model {name!r}; choose from {', '.join(served)}")
        try:
            with fail_after(most_seconds):
                return await answer(served[name])
        except TimeoutError:
            return failure(503, f"took longer than {most_seconds:g} seconds; send fewer pairs")

    async def in_thread(text: Text, answer: Callable[[Served, Any], Any]) -> Any:
        return await answered(
            text, lambda served: to_thread.run_sync(answer, served, text, abandon_on_cancel=True)
        )

    @app.get("/models")
    async def names() -> dict[str, str]:
        """The names of the models, and what they are."""
        return {name: each.aligner.name for name, each in served.items()}

    @app.post("/align")
    async def align(text: Text) -> Any:
        """The words of each sentence pair, and its links (source word, target word, probability)."""
        return await answered(text, lambda served: served.align(text.sides))

    @app.post("/project")
    async def project(text: TaggedText) -> Any:
        """Put the inline tags of the source sentences into their translations."""
        return await in_thread(text, Served.project)

    @app.post("/omissions")
    async def omissions(text: Text) -> Any:
        """The probability of each word that it has no counterpart, omissions and additions."""
        return await in_thread(text, Served.omissions)

    @app.post("/score")
    async def score(text: Text) -> Any:
        """log p(target | source) per target word, of both directions where the model has both."""
        return await in_thread(text, Served.score)

    return app


class Guard:
    """An application that gets no request without the token, and none that is too large."""

    def __init__(self, app: ASGIApp, token: str | None, most_bytes: int) -> None:
        self.app, self.token, self.most_bytes = app, token, most_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, by the application if nothing is wrong."""
        problem = self.problem(Request(scope)) if scope["type"] == "http" else None
        await (problem or self.app)(scope, receive, send)

    def problem(self, request: Request) -> Response | None:
        """The answer to a request that may not be served."""
        given = request.headers.get("authorization", "")
        if self.token is not None and not hmac.compare_digest(given.encode(), f"Bearer {self.token}".encode()):
            return failure(401, "send the token as Authorization: Bearer TOKEN")
        size = request.headers.get("content-length", "0" if request.method == "GET" else "")
        if not size.isdecimal():
            return failure(411, "the length of the body is not known; send Content-Length")
        if int(size) > self.most_bytes:
            most = f"{self.most_bytes:,} bytes, not {int(size):,}"
            return failure(413, f"a request may have {most}; send fewer pairs")
        return None


def failure(status: int, message: str) -> JSONResponse:
    """The answer to a request that cannot be served."""
    return JSONResponse({"error": message}, status)
