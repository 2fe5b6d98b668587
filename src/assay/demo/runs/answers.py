"""What a language model would have said: a few sentences, with a reference to score them by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from assay.demo.scene import Scene
from assay.run.scoring.outputs import OUTPUTS, Output, as_asked, write_outputs

if TYPE_CHECKING:
    from assay.demo.runs.llm import DrawnRequests

_MOST_TURNS = 60
_TOPICS = {
    "lighthouse": (
        "A lighthouse is a tower that sends out light, so that ships find their way along a coast.",
        "Its lamp stands behind a lens that gathers the light into a beam.",
        "Most of them work by themselves today, and keepers are no longer needed.",
    ),
    "bread": (
        "Bread is baked from flour, water and salt, and often raised by yeast.",
        "Flat breads are older than those that rise.",
        "In many places it is eaten with every meal.",
    ),
    "glacier": (
        "A glacier is a body of ice that moves under its own weight.",
        "It forms where more snow falls than melts, year after year.",
        "As it moves, it grinds the rock below and carries stones along.",
    ),
    "violin": (
        "The violin is a wooden instrument with four strings, played with a bow.",
        "Its top is of spruce, its back of maple.",
        "It leads the orchestra, and is at home in folk music all over the world.",
    ),
    "tides": (
        "Tides are the rise and fall of the sea, caused by the moon and the sun.",
        "They come twice a day on most coasts.",
        "In narrow bays the water may rise by more than ten metres.",
    ),
}
_TALK = (
    ("How do I boil an egg?", "Put it into boiling water for seven minutes, then into cold water."),
    ("And if I want it soft?", "Then five minutes are enough, and eat it at once."),
    ("Does its size matter?", "Yes: give a large one half a minute more."),
    ("Thank you!", "You are welcome. Enjoy your breakfast!"),
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One article that was summed up: the first sentences of what should have been said."""

    topic: str
    sentences: int

    @property
    def text(self) -> str:
        return " ".join(_TOPICS[self.topic][: self.sentences])

    @property
    def reference(self) -> str:
        """What should have been said."""
        return " ".join(_TOPICS[self.topic])

    def scores(self) -> dict[str, float]:
        """How far the answer overlaps with the reference: as it is the beginning of it, by their lengths alone."""
        own, whole = len(self.text.split()), len(self.reference.split())
        single, pairs = 2 * own / (own + whole), 2 * (own - 1) / (own + whole - 2)
        return {"rouge_1": single, "rouge_2": pairs, "rouge_l": single}


def summaries(scene: Scene, count: int) -> list[Summary]:
    """So many answers of a model that sums up articles: some short, most good."""
    names = tuple(_TOPICS)
    lengths = scene.draw.choice((1, 2, 3), size=count, p=(0.25, 0.55, 0.2)).tolist()
    return [Summary(names[place % len(names)], length) for place, length in enumerate(lengths)]


def write_answers(scene: Scene, run: int, sent: DrawnRequests, answers: Sequence[Summary]) -> Path:
    """The answers of a run that sums up articles, each with what it was asked."""
    found = []
    for place, one in enumerate(answers):
        prompt = f"Sum up in three sentences: {' '.join(reversed(_TOPICS[one.topic]))}"
        found.append(_output(one.topic, place, 0, one.text, one.reference, prompt, sent, place))
    return _write(scene, run, found)


def write_conversations(scene: Scene, run: int, sent: DrawnRequests, failed: int = 0) -> Path:
    """The answers of a run that talks: turn after turn, some of which failed."""
    found = []
    for place in range(min(_MOST_TURNS, len(sent))):
        session, turn = divmod(place, len(_TALK))
        said, answer = _TALK[turn]
        wrong = place < failed
        found.append(_output("kitchen", session, turn, "" if wrong else answer, None, said, sent, place, wrong=wrong))
    return _write(scene, run, found)


def _output(
    item: str,
    session: int,
    turn: int,
    text: str,
    reference: str | None,
    prompt: str,
    sent: DrawnRequests,
    place: int,
    *,
    wrong: bool = False,
) -> Output:
    more = {
        **as_asked(prompt),
        "finish_reason": None if wrong else "stop",
        "request_id": f"demo-{session:04x}-{turn}",
        "error": "the server was overloaded" if wrong else None,
        "input_tokens": int(sent.input[place]),
        "output_tokens": 0 if wrong else int(sent.output[place]),
        "ttft_ms": None if wrong else round(float(sent.ttft_ms[place]), 3),
        "e2e_ms": None if wrong else round(float(sent.e2e_ms[place]), 3),
    }
    return Output(item, session, turn, text, reference, {}, "status" if wrong else "ok", more)


def _write(scene: Scene, run: int, found: list[Output]) -> Path:
    path = scene.scratch / f"run-{run}-{OUTPUTS}"
    write_outputs(path, found)
    return path
