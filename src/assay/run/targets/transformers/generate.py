"""Generation as a target: calls with several prompts, whose answers are kept and judged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np
from pydantic import JsonValue

from assay.errors import MeasureError, UsageError
from assay.run.contract import Measured, Order, Stage
from assay.run.records import DeviceProof, Phase, SampleSet
from assay.run.scoring import OUTPUTS, Output, as_asked, scored, write_outputs
from assay.run.targets.transformers.decoding import (
    Generated,
    OwnTokenizer,
    Prompt,
    Prompter,
    Sessions,
    Stepper,
    answer_lengths,
    counted,
    numbers,
    sample_sets,
)
from assay.run.targets.transformers.model import LanguageModel, stop_tokens
from assay.run.workloads import make_workset
from assay.spec.benchmark import Definition
from assay.spec.target import ModelTarget

# Answers without a set length end at a stop token, or here.
MOST_TOKENS = 128
# Prompts that are tokenised before the load, to find those that do not fit.
_SAMPLE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class Answers:
    """The first answer to each question, when it was begun, and how often it was answered otherwise."""

    outputs: tuple[Output, ...]
    at_ns: tuple[int, ...]
    asked: int
    differing: int


def first_answers(calls: Iterable[Generated], text: Callable[[Generated, int], str]) -> Answers:
    """The first answer to each turn of each item in the measured phase.

    Decoding is greedy, so that a further answer to the same question says nothing new; where it differs (other
    prompts in its batch can change the last digits), it is counted.
    """
    own = [call for call in calls if call.phase == "measure"]
    answers: dict[tuple[str, int], tuple[Output, int, tuple[int, ...]]] = {}
    asked = differing = 0
    for call in own:
        for row, prompt in enumerate(call.prompts):
            asked += 1
            key = (prompt.item.id, prompt.turn)
            tokens = tuple(step[row] for step in call.steps.tokens[: call.output_tokens[row]])
            if key in answers:
                differing += answers[key][2] != tokens
                continue
            last = prompt.turn + 1 == len(prompt.item.turns)
            output = Output(
                prompt.item.id,
                prompt.session,
                prompt.turn,
                text(call, row),
                prompt.item.reference if last else None,
                prompt.item.data,
                more={
                    "input_tokens": call.input_tokens[row],
                    "output_tokens": call.output_tokens[row],
                    **as_asked(prompt.item.turns[prompt.turn]),
                },
            )
            answers[key] = (output, call.begun_ns - own[0].begun_ns, tokens)
    first_answers = list(answers.values())
    return Answers(
        tuple(answer[0] for answer in first_answers), tuple(answer[1] for answer in first_answers), asked, differing
    )


def judged(measured: Measured, answers: Answers, scorers: Sequence[str], order: Order) -> Measured:
    """The same with scores of the answers, which are kept where the file asks for it or where something scores them."""
    said = scored(answers.outputs, scorers)
    at = np.array(answers.at_ns, dtype=np.int64)
    samples = [SampleSet(metric, "measure", at, values) for metric, values in said.values.items()]
    keep = order.job.definition.workload.keep_outputs
    files = {}
    if answers.outputs and (keep or (keep is None and scorers)):
        files[OUTPUTS] = Path(order.scratch) / OUTPUTS
        write_outputs(files[OUTPUTS], answers.outputs)
    facts: JsonValue = {
        "asked": answers.asked,
        "different_questions": len(answers.outputs),
        "repeats_answered_otherwise": answers.differing,
        "scorers": dict(said.facts),
        "kept": bool(files),
    }
    return replace(
        measured,
        absent={**measured.absent, **said.absent},
        samples=(*measured.samples, *samples),
        facts={**measured.facts, "answers": facts},
        files={**measured.files, **files},
    )


class Generator(LanguageModel):
    """A causal language model that answers prompts greedily, a batch at a time.

    Making one makes the prompts too; `call` gives the unit of work, which keeps the times of its steps.
    """

    architecture = "AutoModelForCausalLM"

    def __init__(self, order: Order, target: ModelTarget, folder: Path) -> None:
        super().__init__(order, target, folder)
        definition = order.job.definition
        self.items_per_call = definition.workload.batch or 1
        self._workset = make_workset(
            _unbatched(definition), Path(order.job.base), OwnTokenizer(self._tokenizer, folder)
        )
        self._prompter = Prompter(self._tokenizer, self._workset)
        self._sessions = Sessions(self._workset.items, self.items_per_call)
        # A length that was asked for is delivered exactly: other machines must do the same work.
        self._exact = definition.workload.output_tokens is not None
        self._room = _room(self._source.config)
        self._check_room()
        self._stepper: Stepper | None = None
        self._stops: frozenset[int] = frozenset()
        self._calls: list[Generated] = []

    def check(self, config: Any) -> None:  # noqa: ANN401  (a configuration of Transformers)
        if getattr(config, "is_encoder_decoder", False):
            message = f"{config.model_type} has an encoder and a decoder; prefill and decode mean something else there"
            try_ = "measure a decoder-only model, or serve this one and measure the service"
            raise MeasureError(message, code="model", at="target.model", try_=try_)

    def begin(self, phase: Phase) -> None:
        """Hear which phase begins; each starts from the first item."""
        if phase == "warmup":  # it continues: what was measured so far belonged to it
            self._calls = [replace(call, phase=phase) if call.phase == "measure" else call for call in self._calls]
        self._phase = phase
        self._sessions.begin()

    def call(self) -> Callable[[], object]:
        """Answer the next prompts, from text to the last token."""
        self.start()
        self._stops = stop_tokens(self._model, self._tokenizer)
        stepper = Stepper(self._model, self._placement.name, frozenset() if self._exact else self._stops)
        self._stepper = stepper
        return lambda: self._generate(stepper)

    def _generate(self, stepper: Stepper) -> None:
        begun = perf_counter_ns()
        prompts = tuple(self._sessions.prompts)
        batch = self._prompter.batch([self._prompter.text(prompt) for prompt in prompts])
        limits = [_limit(prompt) for prompt in prompts]
        self._refuse_overflow(max(batch.lengths), max(limits))
        steps = stepper.run(batch, max(limits))
        lengths = answer_lengths(steps.tokens, limits, frozenset() if self._exact else self._stops)
        call = Generated(self._phase, begun, prompts, batch.lengths, lengths, steps)
        self._calls.append(call)
        self._sessions.advance(lambda row: self._text(call, row))

    def proof(self) -> DeviceProof:
        """Where the weights lie and the last logits were computed."""
        return self.proved(self._stepper.last if self._stepper else None)

    def facts(self) -> Mapping[str, JsonValue]:
        first = next(call for call in self._calls if call.phase == "first")
        return {
            **self.model_facts(),
            "use": "generate",
            "kv_cache": self._stepper.memory if self._stepper else None,
            "tokenizer": self.tokenizer_facts(),
            "prompts": self._prompter.facts(),
            "workset": {**self._workset.facts},
            "generation": {
                "how": "greedy: the most likely token of each step; the model's own sampling settings are not used",
                "stop_tokens": [*sorted(self._stops)],
                "stops": "no: every answer has the length asked for"
                if self._exact
                else f"at a stop token, or after {MOST_TOKENS} tokens where the task gives no length",
            },
            "first": {
                "ttft_ms": (int(first.steps.ends_ns[0]) - first.begun_ns) / 1e6,
                "e2e_ms": (first.ended_ns - first.begun_ns) / 1e6,
            },
        }

    def close(self) -> None:
        self._model = self._stepper = None

    def complete(self, measured: Measured, stage: Stage) -> Measured:
        """Add what only the steps tell: prefill and decode, tokens, answers and their quality."""
        metrics, absent = numbers(self._calls)
        samples = [*sample_sets(self._calls, "warmup"), *sample_sets(self._calls, "measure")]
        on_device, not_on_device = self._device_memory
        measured = replace(
            measured,
            metrics={**measured.metrics, **metrics, **on_device},
            absent={**measured.absent, **absent, **not_on_device},
            samples=(*measured.samples, *samples),
        )
        with stage.phase("score"):
            answers = first_answers(self._calls, self._text)
            measured = judged(measured, answers, self._workset.scorers, self._order)
        return replace(measured, facts={**measured.facts, "counted": counted(self._calls, measured.facts)})

    def _text(self, call: Generated, row: int) -> str:
        """The answer of one row as text, up to its first stop token."""
        ids = [step[row] for step in call.steps.tokens[: call.output_tokens[row]]]
        stop = next((index for index, token in enumerate(ids) if token in self._stops), len(ids))
        text: str = self._tokenizer.decode(ids[:stop], skip_special_tokens=True)
        return text

    def _check_room(self) -> None:
        """Refuse prompts that cannot fit before gigabytes are loaded for them."""
        for start in range(0, min(len(self._workset.items), _SAMPLE_SIZE), 256):
            prompts = [Prompt(item, 0) for item in self._workset.items[start : start + 256]]
            rows = self._prompter.tokens([self._prompter.text(prompt) for prompt in prompts])
            for prompt, row in zip(prompts, rows, strict=True):
                if not row:
                    message = f"item {prompt.item.id} has no tokens"
                    raise UsageError(message, code="usage", at="workload", try_="give a text that is not empty")
                self._refuse_overflow(len(row), _limit(prompt), prompt.item.id)

    def _refuse_overflow(self, prompt: int, answer: int, item: str = "") -> None:
        if self._room is not None and prompt + answer > self._room:
            named = f"item {item}: " if item else ""
            message = (
                f"{named}{prompt} tokens of prompt and {answer} of answer are more than the {self._room} that the "
                "model can hold"
            )
            try_ = "lower workload.input_tokens or workload.output_tokens"
            raise UsageError(message, code="usage", at="workload", try_=try_)


class PhaseStage:
    def __init__(self, stage: Stage, begin: Callable[[Phase], None]) -> None:
        self._stage, self._begin = stage, begin

    def phase(self, name: Phase) -> AbstractContextManager[None]:
        self._begin(name)
        return self._stage.phase(name)

    def progress(self, share: float, note: str = "") -> None:
        self._stage.progress(share, note)


def _limit(prompt: Prompt) -> int:
    return prompt.item.output_tokens or MOST_TOKENS


def _unbatched(definition: Definition) -> Definition:
    """The definition without its batch, which is ours to make: tasks give one prompt per item."""
    return definition.model_copy(update={"workload": definition.workload.model_copy(update={"batch": None})})


def _room(config: Any) -> int | None:  # noqa: ANN401  (a configuration of Transformers)
    text = config.get_text_config() if hasattr(config, "get_text_config") else config
    room = getattr(text, "max_position_embeddings", None)
    return room if isinstance(room, int) and room > 0 else None
