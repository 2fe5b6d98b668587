"""Paths and what they lead to: those of every simulated server, and the plain server that answers any path alike."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import parse_qs

from assay.sim.apis.schedule import JSON, LINES, IntactReply, broken_reply, fitted, packed, parse_request, reply
from assay.sim.records import OUTCOMES
from assay.sim.wire.connection import Head, HttpError, Serve, ServerConnection
from assay.sim.world import NUMBER_MARK, REFUSED, ReplySchedule, SimulatedReply, World
from assay.units import seconds

# Gives the bytes of a whole answer.
Handler = Callable[[Head, bytes], bytes]
METRICS = b"text/plain; version=0.0.4; charset=utf-8"
_BINARY = b"application/octet-stream"


class Site:
    """Routes a request. What is answered immediately has neither number nor record."""

    def __init__(self, world: World, fallback: Serve | None = None) -> None:
        self._world, self._fallback = world, fallback
        self._serving: dict[tuple[str, str], Serve] = {}
        self._handlers: dict[tuple[str, str], Handler] = {}
        self._requests = 0
        self.route("GET", "/health", self._health)
        self.route("GET", "/sim/records", self._records)
        self.route("DELETE", "/sim/records", self._restart)
        self.route("GET", "/sim/state", self._state)
        self.route("POST", "/sim/stall", self._stall)

    def serve(self, method: str, path: str, serving: Serve) -> None:
        self._serving[method, path] = serving

    def route(self, method: str, path: str, handler: Handler) -> None:
        self._handlers[method, path] = handler

    def __call__(self, connection: ServerConnection, head: Head, body: bytes, arrival_ns: int) -> None:
        serving = self._serving.get((head.method, head.path))
        if serving is not None:
            serving(connection, head, body, arrival_ns)
            return
        handler = self._handlers.get(("GET" if head.method == "HEAD" else head.method, head.path))
        if handler is None and self._fallback is not None:
            self._fallback(connection, head, body, arrival_ns)
            return
        try:
            data = handler(head, body) if handler is not None else self._unknown(head)
        except HttpError as problem:
            data = reply(packed({"error": {"message": problem.message, "code": problem.code}}), problem.status)
        self._requests += 1
        # An own row of numbers, so that an id is never that of a recorded answer.
        own = b"%012d" % (10**12 - self._requests)
        connection.send(fitted(data, head).replace(NUMBER_MARK, own))
        connection.finished()

    def _unknown(self, head: Head) -> bytes:
        methods = {method for method, path in (*self._serving, *self._handlers) if path == head.path}
        if methods:
            allowed = ", ".join(sorted(methods))
            body = packed({"error": {"message": f"{head.path} takes {allowed}", "code": None}})
            return reply(body, 405, JSON, f"allow: {allowed}\r\n".encode())
        return reply(packed({"error": {"message": f"there is no {head.path} here", "code": "not_found"}}), 404)

    def _health(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002  (Handler's signature)
        ready = self._world.is_ready
        return reply(packed({"status": "ok" if ready else "starting"}), 200 if ready else 503)

    def _records(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        form = parse_qs(head.query).get("format", ["ndjson"])[0]
        records = self._world.records
        if form == "binary":
            return reply(records.binary(), kind=_BINARY)
        if form != "ndjson":
            raise HttpError(400, f"format is {form!r}; use ndjson or binary")
        return reply("".join(f"{line}\n" for line in records.lines()).encode(), kind=LINES)

    def _restart(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        dropped = len(self._world.records)
        self._world.restart()
        return reply(packed({"dropped": dropped}))

    def _state(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        world, counters = self._world, self._world.counters
        state = {
            "records": len(world.records),
            "running": len(world.running),
            "waiting": len(world.waiting),
            "stops_ns": world.stops,
            "backed_up": counters.backed_up,
            "outcomes": dict(zip(OUTCOMES, counters.outcomes(), strict=True)),
        }
        return reply(packed(state))

    def _stall(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002
        request = parse_request(body)
        try:
            for_s, after_s = seconds(request["for"]), seconds(request.get("after", 0))
        except (KeyError, ValueError) as problem:
            raise HttpError(400, f'write {{"for": "2s"}}, and "after" where it shall not be now: {problem}') from None
        self._world.loop.at(self._world.loop.now() + round(after_s * 1e9), lambda: self._world.stop(for_s))
        return reply(packed({"for_s": for_s, "after_s": after_s}), 202)


class PlainServer:
    """A JSON API of one answer."""

    def __init__(self, world: World) -> None:
        script = world.script
        self._world, self._script = world, script
        body = script.body.encode()
        # JSON may end in spaces, so any length is possible.
        self._body = body.ljust(script.size) if script.size else body
        self._reply = reply(self._body)
        self._at_once = (
            script.latency.is_constant
            and script.latency.first == 0
            and not script.capacity
            and not script.rate_limit
            and not script.ready_after
        )
        self.site = Site(world, fallback=self._serve)
        self.site.route("GET", "/metrics", self._metrics)

    def _serve(self, connection: ServerConnection, head: Head, body: bytes, arrival_ns: int) -> None:  # noqa: ARG002
        world, script = self._world, self._script
        number = world.take_number()
        refusal = self._refusal(head)
        fault = world.fault(number)
        if refusal is not None:
            status, message = refusal
            data = fitted(reply(packed({"error": message}), status), head)
            course = ReplySchedule((data,), (0,), (0,), status=status, outcome=REFUSED)
        elif self._at_once and fault is None:
            data = fitted(self._reply, head)
            world.answer_now(connection, number, arrival_ns, data, (1,), 0, "stop")
            return
        else:
            due_ns = round(script.latency.value(world.chance(number)) * world.factor(number) * 1e9)
            if fault is None:
                course = ReplySchedule((fitted(self._reply, head),), (1,), (due_ns,))
            else:
                error = packed({"error": "the simulated server fails on purpose"})
                course = broken_reply(
                    fault, IntactReply(head, JSON, (self._body,), (1,), (due_ns,), False, error, error, b"{")
                )
        answer = SimulatedReply(world, connection, number, arrival_ns, course)
        if refusal is None:
            world.admit(answer)
        else:
            world.refuse(answer)

    def _refusal(self, head: Head) -> tuple[int, str] | None:
        if not self._world.is_ready:
            return 503, "the server is starting"
        key = self._script.api_key
        if key is not None and head.headers.get("authorization") != f"Bearer {key}":
            return 401, "wrong API key"
        return None

    def _metrics(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002  (Handler's signature)
        world = self._world
        return reply(world.counters.text("http", len(world.running), len(world.waiting)).encode(), kind=METRICS)
