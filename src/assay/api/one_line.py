"""The one way from what a person typed to a benchmark: a file, or a target with options, on every command line.

load_request(RunRequest(("http://127.0.0.1:8000/v1",), flags={"rate": "5"}))
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from assay.errors import MeasureError, UsageError
from assay.run.inputs import plan_of
from assay.run.models.sources import BUILTIN_NAMES
from assay.run.tokens.hub import hub_tokenizer
from assay.spec.file_text import SUFFIXES, file_text
from assay.spec.importers import own_source
from assay.spec.limits import MAX_CHARACTERS, cut
from assay.spec.load import Loaded, check, settings_of, with_settings
from assay.spec.one_line import QUICK_NOTE, kind_of_document, with_flags
from assay.spec.section import did_you_mean, section_of
from assay.spec.source import SourceDocument, parse, read
from assay.spec.starter import RUNTIMES, STDIN, Endpoint, Kind, kind_of, needs_model_of, starter

_FORMS = (
    "name a benchmark file, a model (a path, a URL or a name from `assay models`), the URL of an endpoint, "
    "-- and a command, or - for a file on stdin"
)
# Files that people name and that are no benchmark, and what measures them.
_INSTEAD = {
    ".py": "run the program: -- python {word}",
    ".sh": "run the program: -- sh {word}",
    ".gguf": "start llama.cpp's server with it and name its URL, or write services with `assay recipes show llama-cpp`",
    ".safetensors": "name the folder that holds it and its config.json",
}
_ADDRESS = re.compile(r"^(localhost|[\w.-]+\.[\w.-]+|[\w.-]+(?=:\d))(:\d{1,5})?(/|$)")
_KEY = "--set 'target.headers.Authorization=Bearer ${env:API_KEY}'"


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a person typed to say what to measure."""

    words: tuple[str, ...]
    is_command: bool = False
    """Whether the words came after `--`."""
    flags: Mapping[str, str] = field(default_factory=dict)
    """Key of an `assay.spec.one_line.Flag` → what was typed."""
    settings: tuple[str, ...] = ()
    """Those of `--set`."""
    quick: bool = False
    save: Path | None = None
    """Where the file is to be written that is run."""


@dataclass(frozen=True, slots=True)
class TargetDraft:
    """A target before options: its starter file, and what an endpoint said of itself."""

    target: str
    kind: Kind
    text: str | None = None
    """None for a benchmark file."""
    endpoint: Endpoint | None = None


def begin(request: RunRequest) -> TargetDraft:
    """Find out what the words name, and ask an endpoint what it is.

    Raises:
        UsageError: if they name nothing that can be measured, with what may have been meant.
    """
    kind = _kind(request)
    target = request.words[0] if len(request.words) == 1 else shlex.join(request.words)
    if kind == "file":
        return TargetDraft(target, kind)
    endpoint = _described(target, request) if kind == "endpoint" else None
    return TargetDraft(target, kind, starter(request.words, kind, endpoint), endpoint)


def load_request(request: RunRequest) -> Loaded:
    """Load what was typed as a benchmark.

    Raises:
        AssayError: with every problem, at the option or the line that is to blame.
    """
    draft = begin(request)
    source, base = _source(draft, request)
    flags = dict(request.flags)
    if "tokenizer" in flags:
        flags["tokenizer"] = ",".join(_tokenizer(name.strip()) for name in flags["tokenizer"].split(","))
    source = with_flags(source, kind_of_document(source.document), flags, quick=request.quick)
    notes = (QUICK_NOTE,) if request.quick else ()
    return with_settings(replace(source, notes=(*source.notes, *notes)), request.settings, base)


def save(loaded: Loaded, path: Path) -> None:
    """Write a benchmark as a file that measures the same.

    Raises:
        UsageError: if there is another file already, or its relative paths would name other files from there.
    """
    if path.suffix.lower() not in SUFFIXES:
        raise UsageError(f"{path} has no ending that is known", code="suffix", at="--save", try_="write bench.yaml")
    text = file_text(loaded.source, path.suffix.lower())
    if path.exists() and path.read_text(encoding="utf-8", errors="replace") != text:
        raise UsageError(f"{path} exists already", code="exists", at="--save", try_="choose another name, or remove it")
    folder = path.absolute().parent
    written = check(parse(text, path.suffix.lower(), str(path)), folder)
    if plan_of(written).digest != plan_of(loaded).digest:
        message = f"{path} would measure something else: its relative paths start from {folder}"
        raise UsageError(message, code="save", at="--save", try_=f"save it in {loaded.base}")
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as problem:
        raise UsageError(f"{path} cannot be written: {problem.strerror or problem}", code="save", at="--save") from None


def _kind(request: RunRequest) -> Kind:
    words = request.words
    if not words or not words[0].strip():
        raise UsageError("nothing is named to measure", code="target", try_=_FORMS)
    if request.is_command:
        return "command"
    first = kind_of(words[:1])
    known = first != "model" or _is_model(words[0], request)
    if len(words) > 1 and known:
        message = f"{len(words)} targets are named: {cut(' '.join(words), 200)}"
        raise UsageError(message, code="target", try_="measure one at a time; a command comes after --")
    if len(words) > 1:
        return "command"
    word, suffix = words[0], Path(words[0]).suffix.lower()
    if suffix in _INSTEAD and "://" not in word:
        raise UsageError(f"{word} is no benchmark file", code="target", try_=_INSTEAD[suffix].format(word=word))
    if first == "file" and not suffix and _is_binary(Path(word)):
        message = f"{word} is no benchmark file: it is not text"
        try_ = f"a model file is recognised by its ending ({', '.join(RUNTIMES)}); or name it as target.model in a file"
        raise UsageError(message, code="target", try_=try_)
    if not known:
        raise UsageError(f"{cut(repr(word), 200)} is nothing to measure", code="target", try_=_meant(word))
    return "language model" if first == "model" and request.flags.get("runtime") == "transformers" else first


def _is_binary(path: Path) -> bool:
    """Whether a file begins with bytes that no text has."""
    try:
        with path.open("rb") as file:
            return any(byte < 9 for byte in file.read(4096))
    except OSError:  # reading it as a benchmark file says why
        return False


def _is_model(word: str, request: RunRequest) -> bool:
    """Whether a word that looks like no other thing names a model."""
    is_named = "://" in word or word in BUILTIN_NAMES or Path(word).suffix.lower() in RUNTIMES
    return is_named or Path(word).expanduser().exists() or request.flags.get("runtime") == "transformers"


def _meant(word: str) -> str:
    if _ADDRESS.match(word) and Path(word).suffix.lower() not in SUFFIXES:
        return f"did you mean http://{word}?"
    here = [path.name for path in Path.cwd().iterdir() if path.suffix.lower() in (*SUFFIXES, ".toml", ".onnx", ".ort")]
    if tip := did_you_mean(word, [*BUILTIN_NAMES, *here]):
        return tip
    if shutil.which(word):
        return f"it is a program: write -- {word}"
    hub = " (a model of the Hugging Face hub needs --runtime transformers)" if word.count("/") == 1 else ""
    return f"{_FORMS}{hub}"


def _source(draft: TargetDraft, request: RunRequest) -> tuple[SourceDocument, Path]:
    """The document that options then change, and the folder that its relative paths start from."""
    here = Path.cwd()
    if draft.text is None:
        if draft.target == STDIN:
            return own_source(_from_stdin()), here
        path = Path(draft.target)
        return own_source(read(path)), path.resolve().parent
    source = parse(draft.text, ".yaml", draft.target)
    document = dict(source.document)
    if request.save is not None and request.save.absolute().parent != here:
        document["target"] = {**section_of(document, "target"), **_from_anywhere(draft)}
    notes = _notes(draft, request)
    # Without lines: the text was never shown, so errors name the target or the option.
    return SourceDocument(draft.target, document, {}, notes), here


def _from_anywhere(draft: TargetDraft) -> dict[str, str]:
    """The keys of a target whose relative paths would mean something else in another folder."""
    if draft.kind == "command":
        return {"cwd": str(Path.cwd())}
    path = Path(draft.target).expanduser()
    is_path = draft.kind in ("model", "language model") and draft.target not in BUILTIN_NAMES and path.exists()
    return {"model": str(path.absolute())} if is_path else {}


def _from_stdin() -> SourceDocument:
    text = sys.stdin.buffer.read(4 * MAX_CHARACTERS + 1).decode("utf-8-sig", errors="replace")
    first = next((line for line in text.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    is_toml = re.match(r'^\s*(\[|["\w.-]+\s*=)', first)
    return parse(text, ".json" if first.lstrip().startswith("{") else ".toml" if is_toml else ".yaml", "stdin")


def _described(url: str, request: RunRequest) -> Endpoint:
    """What an endpoint says of itself, as far as the options leave it open."""
    from assay.run.apis.ask import query_endpoint  # an HTTP client, which a file needs only once it is measured

    target = section_of(settings_of(request.settings), "target")
    headers = {name: str(value) for name, value in section_of(target, "headers").items()}
    api = request.flags.get("api", "").partition(",")[0].strip()
    if api and not needs_model_of(api):
        return Endpoint(url, api)
    model = request.flags.get("model", "").partition(",")[0].strip()
    verify = section_of(target, "tls").get("verify") is not False
    return query_endpoint(url, api=api, model=model, headers=headers, verify=verify)


def _notes(draft: TargetDraft, request: RunRequest) -> tuple[str, ...]:
    """What an endpoint answered, and what was chosen of it.

    Raises:
        UsageError: if no model is known, or prompts need a length that nothing here can count.
    """
    endpoint, flags = draft.endpoint, request.flags
    if endpoint is None or not needs_model_of(endpoint.api):
        return ()
    target = section_of(settings_of(request.settings), "target")
    model = flags.get("model") or target.get("model")
    if not endpoint.models and not model:
        raise _no_model(draft.target, endpoint)
    has_tokenizer = endpoint.counts_tokens or endpoint.is_down or "tokenizer" in flags or "tokenizer" in target
    if "input_tokens" in flags and not has_tokenizer:
        name = str(model or endpoint.models[0])
        hub = f", or its name on the hub such as {name}" if name.count("/") == 1 else ", or its name on the hub"
        message = "prompts of a length in tokens need the model's tokenizer, and this server has no /tokenize"
        tip = f"give --tokenizer with a folder, a tokenizer.json, a GGUF file{hub}; or leave --input-tokens out"
        raise UsageError(message, code="no-tokenizer", at="--input-tokens", try_=tip)
    counting = " and counts tokens" if endpoint.counts_tokens else ""
    notes = [f"{draft.target} speaks {endpoint.api}{counting}; model {model or endpoint.models[0]}"]
    if not model and len(endpoint.models) > 1:
        notes[0] += f", the first of {len(endpoint.models)} that it lists; choose another with --model"
    if isinstance(model, str) and endpoint.models and (strange := _not_listed(model, endpoint)):
        notes.append(strange)
    return () if endpoint.is_down else tuple(notes)


def _not_listed(model: str, endpoint: Endpoint) -> str:
    strange = next((name for name in model.split(",") if name.strip() not in endpoint.models), "")
    tip = did_you_mean(strange, endpoint.models, f"it lists {', '.join(endpoint.models[:6])}")
    return f"the endpoint does not list the model {strange}; {tip}" if strange else ""


def _no_model(url: str, endpoint: Endpoint) -> MeasureError:
    if endpoint.is_down:
        message = f"{url} did not answer: {endpoint.why}"
        tip = "is the server running, and are host and port right? Give --api and --model to name what it has"
    else:
        message = f"{url} lists no model that could be measured: {endpoint.why}"
        tip = f"name it with --model NAME; a key goes into {_KEY}"
    return MeasureError(message, code="endpoint", at=url, try_=tip)


def _tokenizer(name: str) -> str:
    """What was typed after --tokenizer, as a path; a name on the hub is fetched."""
    path = Path(name).expanduser()
    if path.exists():
        return str(path.absolute())
    fetched = hub_tokenizer(name)
    return name if fetched is None else str(fetched)
