"""Recordings made by hand, and streams as servers send them."""

from __future__ import annotations

import json
import re

import numpy as np

from assay.run.load.http.recording import CODE, MEASURE, LoadRecording
from assay.spec.benchmark import Definition
from assay.spec.target import EndpointTarget

BEGIN_MS = 1_000  # a clock that never shows 0, which means never


def target(**given) -> EndpointTarget:
    return EndpointTarget(**{"endpoint": "http://h:1", "api": "openai-chat", "model": "m", **given})


def definition(objective=None, load=None, **given) -> Definition:
    return Definition(target=target(**given), objective=objective or {}, load=load or {})


def chunk(delta=None, *, finish=None, usage=None, **more) -> dict:
    """One event of a chat stream."""
    choices = [] if delta is None else [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]
    event = {"id": "chatcmpl-7", "object": "chat.completion.chunk", "created": 17, "model": "m", "choices": choices}
    return {**event, **({"usage": usage} if usage else {}), **more}


def usage(output, *, into=10, **more) -> dict:
    return {"prompt_tokens": into, "completion_tokens": output, "total_tokens": into + output, **more}


def sse(event, end="\n\n") -> bytes:
    data = event if isinstance(event, str) else json.dumps(event, separators=(",", ":"), ensure_ascii=False)
    return f"data: {data}{end}".encode()


def chat(texts, *, output=None, finish="length", done=True, role=True, key="content", **more) -> list[bytes]:
    """The events of a whole chat answer: role, one for each text, finish, usage and [DONE]."""
    events = [sse(chunk({"role": "assistant", "content": ""}))] if role else []
    events += [sse(chunk({key: text})) for text in texts]
    events.append(sse(chunk({}, finish=finish)))
    if output is not None:
        events.append(sse(chunk(usage=usage(output, **more))))
    return [*events, b"data: [DONE]\n\n"] if done else events


class Book:
    """Takes requests down one by one; times in ms."""

    def __init__(self) -> None:
        self.requests: list[dict] = []

    def add(
        self, pieces=(), *, due=0.0, sent=None, end=None, outcome="ok", status=200, head=b"", phase=MEASURE, **more
    ):
        """A request; `pieces` are (ms after due, bytes), its end is its last piece unless it is given."""
        at = [due + after for after, _ in pieces]
        sent = due if sent is None and outcome != "skipped" else sent
        end = (at[-1] if at else None) if end is None else end
        self.requests.append(
            {
                "pieces": list(zip(at, [data for _, data in pieces], strict=True)),
                "due": due,
                "sent": sent,
                "end": end,
                "outcome": outcome,
                "status": status,
                "head": head,
                "phase": phase,
                **more,
            }
        )
        return self

    def stream(self, events, *, ttft=50.0, gap=10.0, due=0.0, **more):
        """A request whose events come one by one, the first after `ttft` and the others every `gap`."""
        return self.add([(ttft + number * gap, event) for number, event in enumerate(events)], due=due, **more)

    def recording(self, window=(0.0, 10_000.0)) -> LoadRecording:
        rows = self.requests
        bodies = [row["head"] + b"".join(data for _, data in row["pieces"]) for row in rows]
        ends = [np.cumsum([len(data) for _, data in row["pieces"]], dtype=np.int64) for row in rows]

        def column(name, dtype, default=0):
            return np.array([row.get(name, default) for row in rows], dtype=dtype)

        def times(name):
            return np.array([0 if row[name] is None else ns(row[name]) for row in rows], dtype=np.int64)

        return LoadRecording(
            session=np.array([row.get("session", at) for at, row in enumerate(rows)], dtype=np.int64),
            turn=column("turn", np.int32),
            client=column("client", np.int16),
            phase=column("phase", np.int8),
            stage=column("stage", np.int16),
            due_ns=times("due"),
            sent_ns=times("sent"),
            first_ns=np.array([ns(row["pieces"][0][0]) if row["pieces"] else 0 for row in rows], dtype=np.int64),
            end_ns=times("end"),
            status=column("status", np.int16),
            outcome=np.array([CODE[row["outcome"]] for row in rows], dtype=np.int8),
            fresh=column("fresh", np.bool_),
            sent_bytes=column("sent_bytes", np.int64),
            pieces=bounds([len(row["pieces"]) for row in rows]),
            body=bounds([len(body) for body in bodies]),
            head=np.array([len(row["head"]) for row in rows], dtype=np.int32),
            piece_ns=np.array([ns(at) for row in rows for at, _ in row["pieces"]], dtype=np.int64),
            piece_end=np.concatenate([np.zeros(0, np.int64), *ends]),
            content=memoryview(b"".join(bodies)),
            window=(ns(window[0]), ns(window[1])),
        )


def ns(ms: float) -> int:
    return round((BEGIN_MS + ms) * 1e6)


def bounds(lengths) -> np.ndarray:
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])


class Letters:
    """A tokenizer whose tokens are pieces of words of at most so many letters, with the space before them."""

    def __init__(self, most: int = 99) -> None:
        self.name = f"words in pieces of {most}"
        self.asked: list[str] = []
        self._cut = re.compile(rf"\s?\S{{1,{most}}}|\s")

    def count(self, texts):
        self.asked += texts
        return [len(self._cut.findall(text)) for text in texts]

    def encode(self, text):
        return list(range(self.count([text])[0]))

    def decode(self, ids):
        raise NotImplementedError
