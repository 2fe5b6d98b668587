"""Simulated servers whose truth is known: what was sent is what is read, for every protocol."""

from __future__ import annotations

import numpy as np
import pytest
from tests.support.simulated import llm_server
from tests.unit.run.load.loads import drive, users
from tests.unit.run.targets.served.building import definition, target

from assay.run.apis import find_api
from assay.run.load.http.origin import origin_of
from assay.run.targets.served.counting import Counter
from assay.run.targets.served.figures import figures
from assay.run.targets.served.rows import read_rows
from assay.run.targets.served.supply import ApiSupply
from assay.run.tokens.sources import server_tokenizer
from assay.run.workloads import Item

pytestmark = [pytest.mark.live, pytest.mark.simulated]
ITEMS = tuple(Item(f"i{n}", (f"say {n}",), output_tokens=12) for n in range(3))


@pytest.fixture
def ask(tmp_path):
    """Send some requests to a simulated server and give what comes of them."""

    def run(*, api="openai-chat", items=ITEMS, requests=8, counted=False, options=None, stream=True, **settings):
        with llm_server(**{"ttft_ms": 20, "itl_ms": 5, "tokens": 12, "model": "m", **settings}) as sim:
            asked = target(api=api, endpoint=sim.url, options=options or {}, stream=stream)
            spoken, origin = find_api(asked, 0), origin_of(sim.url)
            supply = ApiSupply(items, spoken, origin, {})
            recording = drive(sim.url, tmp_path, users(2), supply=supply, origin=origin, requests=requests)
            counter = Counter(server_tokenizer(sim.url, {}, "m") if counted else None)
            rows = read_rows(recording, spoken, items, counter)
            return rows, figures(recording, rows, spoken, definition(api=api))

    return run


def values(found, name):
    return next((one.value for one in found.samples if one.metric == name and one.phase == "measure"), np.zeros(0))


@pytest.mark.parametrize("api", ["openai-chat", "openai-completions", "ollama"])
def test_tokens_and_times_are_the_servers_own(ask, api):
    rows, found = ask(api=api, itl_ms=25)
    assert found.facts["requests"]["ok"] == found.facts["requests"]["due"] >= 8
    assert found.facts["errors"] == {}
    assert set(rows.output_tokens.tolist()) == {12}
    assert found.facts["tokens"]["output"] == {"source": "server usage"}
    assert found.facts["tokens"]["bundled"] is False
    assert rows.piece_tokens.sum() == rows.output_tokens.sum()
    # Tokens that a busy machine let arrive together with the first end no gap.
    assert len(values(found, "itl_ms")) == (rows.output_tokens - rows.first_tokens).sum()
    assert values(found, "ttft_ms").min() > 19.9
    assert np.median(values(found, "tpot_ms")) == pytest.approx(25.0, abs=8.0)


def test_a_server_that_bundles(ask):
    rows, found = ask(tokens_per_chunk="4", first_chunk_tokens=2)
    assert set(rows.output_tokens.tolist()) == {12}
    assert set(rows.chunks.tolist()) == {4}  # 2, 4, 4 and the last 2
    assert found.facts["tokens"]["bundled"] is True
    assert found.facts["tokens"]["tokens_per_chunk"]["mean"] == 3.0
    rows, found = ask(tokens_per_chunk="4", first_chunk_tokens=2, counted=True)
    assert found.facts["tokens"]["first_chunk_tokens"] == 2
    assert found.facts["tokens"]["tokens_per_chunk"]["max"] == 4


def test_a_reasoning_stream(ask):
    for field in ("reasoning_content", "reasoning"):
        _, found = ask(reasoning_tokens=4, reasoning_field=field, itl_ms=25)
        assert found.facts["reasoning"]["answers_with_reasoning"] == found.facts["requests"]["ok"]
        later = values(found, "first_answer_ms") - values(found, "ttft_ms")
        assert np.median(later) == pytest.approx(100.0, abs=40.0)


def test_a_stream_without_done_and_without_usage_is_counted_by_the_servers_tokenizer(ask):
    rows, found = ask(no_done=True, usage="never", counted=True)
    assert found.facts["errors"] == {}
    assert found.facts["tokens"]["output"] == {"source": "server tokenizer"}
    assert set(rows.output_tokens.tolist()) == {12}


@pytest.mark.parametrize("kind", ["error-event", "malformed-event"])
def test_what_is_wrong_inside_a_stream_is_reported(ask, kind):
    _, found = ask(error=[f"{kind}:every=2"], requests=10)
    ((name, told),) = found.facts["errors"].items()
    assert name == f"content: {'malformed' if kind == 'malformed-event' else kind}"
    assert told["count"] >= 4
    assert told["first"]
    assert found.metrics["error_rate"] > 0.3


def test_errors_are_reported_in_the_servers_words(ask):
    _, found = ask(options={"model": "other"}, requests=4)
    ((name, told),) = found.facts["errors"].items()
    assert name == "status 404"
    assert "other" in told["first"]


def test_answers_that_are_not_streamed(ask):
    rows, found = ask(stream=False)
    assert not rows.streamed.any()
    assert set(rows.output_tokens.tolist()) == {12}
    assert found.absent["ttft_ms"] == "answers were not streamed"


def test_embeddings(ask):
    _, found = ask(api="openai-embeddings", items=(Item("e", ("one two", "three")),), dimensions=16)
    assert found.facts["vector_dims"] == [16]
    assert found.facts["errors"] == {}
    assert len(values(found, "latency_ms"))
