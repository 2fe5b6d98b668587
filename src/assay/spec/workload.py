"""What a target is fed: tensors for a model file, prompts for a language model, vectors for a database."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, GetJsonSchemaHandler, JsonValue, model_validator
from pydantic_core import CoreSchema

from assay.spec.section import Section, Share


class InputSpec(Section):
    """How one model input is filled, when the default does not fit.

    Short forms: the name of a `.npy`, `.npz` or `.pb` file stands for `{file: …}`, any other plain value for
    `{value: …}`.
    """

    file: str | None = None
    """A `.npy`, `.npz` (entry of the input's name) or `.pb` (ONNX TensorProto) file."""
    value: JsonValue = None
    """One value for every element, or a nested list of the input's own shape."""
    range: tuple[float, float] | None = None
    """Random values from low (included) to high (excluded)."""
    shape: tuple[int, ...] | None = None
    """Shape to use in place of the model's."""

    @classmethod
    def __get_pydantic_json_schema__(cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """The schema of both forms."""
        return {"anyOf": [handler(core_schema), {"type": ["string", "number", "boolean", "array"]}]}

    @model_validator(mode="after")
    def _one_source(self) -> InputSpec:
        given = [name for name in ("file", "value", "range") if getattr(self, name) is not None]
        if len(given) > 1:
            raise ValueError(f"give one of file, value, range; got {' and '.join(given)}")
        return self


def whole_input(given: JsonValue) -> JsonValue:
    """The whole form of an input that may be written short."""
    if isinstance(given, dict) or given is None:
        return given
    is_file = isinstance(given, str) and given.lower().endswith((".npy", ".npz", ".pb"))
    return {"file" if is_file else "value": given}


class Tokens(Section):
    """Lengths in tokens, drawn for each request."""

    mean: float = Field(ge=1)
    """Mean length."""
    std: float = Field(default=0.0, ge=0)
    """Standard deviation."""
    min: int = Field(default=1, ge=1)
    """Shortest length."""
    max: int | None = Field(default=None, ge=1)
    """Longest length."""
    shape: Literal["normal", "lognormal", "uniform"] = "normal"
    """How lengths spread; `uniform` needs `min` and `max` alone to matter."""

    @model_validator(mode="after")
    def _ordered(self) -> Tokens:
        if self.max is not None and self.max < self.min:
            raise ValueError(f"max ({self.max}) is below min ({self.min})")
        if self.shape == "uniform" and self.max is None:
            raise ValueError("a uniform length needs max")
        return self


class Corpus(Section):
    """Vectors made from a seed, the same on every machine."""

    vectors: int = Field(default=10_000, ge=1, le=100_000_000)
    """How many."""
    dims: int = Field(default=128, ge=1, le=65_536)
    """Dimensions of each."""
    metric: Literal["cosine", "euclid", "dot"] = "cosine"
    """How near two vectors are."""
    clusters: int = Field(default=100, ge=1)
    """Groups that they fall into."""
    spread: float = Field(default=0.35, gt=0)
    """Width of a group beside the distance between groups."""


class Workload(Section):
    """What the target is fed."""

    batch: int | None = Field(default=None, ge=1, le=1_000_000)
    """Items in one call; fills the model's batch dimension, which gets 1 when this is left out."""
    dims: dict[str, Annotated[int, Field(ge=1)]] = {}
    """Sizes of the model's other dynamic dimensions, by name: `{sequence: 128}`."""
    inputs: dict[str, InputSpec] = {}
    """Own values for named model inputs."""
    seed: int = 0
    """Seed of every random value."""
    prompt_seed: int | None = Field(default=None, ge=0)
    """Seed of the words of made prompts. An endpoint or service gets one for each run, from `seed`, campaign, job and
    run, when this is left out; the result records it, and giving it here asks the same prompts again."""
    task: str | None = None
    """Named task: `synthetic`, `prompts`, `conversation`, `wikipedia-summary`, `embedding` or `knn`."""
    file: str | None = None
    """JSONL file of `prompts`, `conversation` or `embedding`."""
    prompt: str | None = None
    """Text around each item; `{text}` stands for the item's own."""
    input_tokens: Annotated[int, Field(ge=1)] | Tokens | None = None
    """Prompt length in tokens."""
    output_tokens: Annotated[int, Field(ge=1)] | Tokens | None = None
    """Answer length in tokens."""
    items: int | None = Field(default=None, ge=1, le=1_000_000)
    """Different prompts; they are repeated when more requests are sent."""
    turns: int | None = Field(default=None, ge=1, le=1000)
    """Turns of a synthetic `conversation`."""
    shared_prefix: int | None = Field(default=None, ge=1)
    """Tokens at the start of every prompt that all prompts share."""
    scorers: tuple[str, ...] | None = None
    """What judges the answers; the task's own (`rouge`) when left out."""
    keep_outputs: bool | None = None
    """Whether answers are kept with the result; kept where something scores them when left out."""
    corpus: Corpus = Corpus()
    """The vectors that `knn` searches."""
    queries: int = Field(default=1000, ge=1)
    """Different queries of `knn`."""
    k: int = Field(default=10, ge=1, le=10_000)
    """Neighbours that `knn` asks for."""
    filter: Share | None = None
    """Share of the vectors that a filter of `knn` leaves, such as 10%."""
