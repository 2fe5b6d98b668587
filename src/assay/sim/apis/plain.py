"""The simulated plain server: any path and any method get the same JSON, after a while."""

from __future__ import annotations

from assay.sim.answer import REFUSED, Answer, Course
from assay.sim.apis.replies import JSON, fitted, packed, reply
from assay.sim.apis.site import METRICS, Site
from assay.sim.apis.spoil import Sound, spoiled
from assay.sim.wire.connection import Connection
from assay.sim.wire.heads import Head
from assay.sim.world import World


class Plain:
    """A JSON API of one answer."""

    def __init__(self, world: World) -> None:
        script = world.script
        self._world, self._script = world, script
        body = script.body.encode()
        # JSON may end in spaces, so that any length can be had.
        self._body = body.ljust(script.size) if script.size else body
        self._reply = reply(self._body)
        self._at_once = (
            script.latency.is_constant
            and script.latency.first == 0
            and not script.capacity
            and not script.rate_limit
            and not script.ready_after
        )
        self.site = Site(world, other=self._serve)
        self.site.tell("GET", "/metrics", self._metrics)

    def _serve(self, connection: Connection, head: Head, body: bytes, arrival_ns: int) -> None:  # noqa: ARG002
        world, script = self._world, self._script
        number = world.take_number()
        refusal = self._refusal(head)
        fault = world.fault(number)
        if refusal is not None:
            status, message = refusal
            data = fitted(reply(packed({"error": message}), status), head)
            course = Course((data,), (0,), (0,), status=status, outcome=REFUSED)
        elif self._at_once and fault is None:
            data = fitted(self._reply, head)
            world.answer_now(connection, number, arrival_ns, data, (1,), 0, "stop")
            return
        else:
            due_ns = round(script.latency.value(world.chance(number)) * world.factor(number) * 1e9)
            if fault is None:
                course = Course((fitted(self._reply, head),), (1,), (due_ns,))
            else:
                error = packed({"error": "the simulated server fails on purpose"})
                course = spoiled(fault, Sound(head, JSON, (self._body,), (1,), (due_ns,), False, error, error, b"{"))
        answer = Answer(world, connection, number, arrival_ns, course)
        if refusal is None:
            world.admit(answer)
        else:
            connection.answering = answer
            answer.start(arrival_ns)

    def _refusal(self, head: Head) -> tuple[int, str] | None:
        if not self._world.is_ready:
            return 503, "the server is starting"
        key = self._script.api_key
        if key is not None and head.headers.get("authorization") != f"Bearer {key}":
            return 401, "wrong API key"
        return None

    def _metrics(self, head: Head, body: bytes) -> bytes:  # noqa: ARG002  (Telling's signature)
        world = self._world
        return reply(world.counters.text("http", len(world.running), len(world.waiting)).encode(), kind=METRICS)
