"""The documentation is run: files are checked, commands and Python are executed, the reference is current.

Conventions, for every page of docs/ and for README.md; the blocks of a page are taken in order, in one folder:

- A block with title="NAME" is a file of that name. A pyproject.toml makes the folder an installed package: the entry
  points that it names are found by the commands after it.
- A yaml, toml or json block with a top-level key `benchmark` is a benchmark file and must be valid. One that shows
  a mistake begins with the comment `# not a valid benchmark`, and must not be.
- In a console block, lines that begin with `$ assay`, `$ python` or `$ curl` are run, each with exit code 0 unless the
  next command is `$ echo $?`, whose output is then the expected code. Other commands are not run. `assay run` is
  shortened.
- A command that ends in `&` continues in the background until the page ends. The ports 8080 (`assay serve`) and 8000 (a
  model server) of a page, in its commands and files, are free ones in the test; `$ export NAME=VALUE` counts for the
  commands after it.
- A command with `smollm2` in it finds the Python of `.venv-servers` first; without it the rest of the page is skipped.
- A python block without a title is executed; the blocks of a page share their names.
- text blocks are for show.

`make test` checks every file and the form of every command, and runs the pages of ON_A_PUSH; `make test-all` runs all.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import socketserver
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import lru_cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import typer
from _pytest.mark import ParameterSet
from tests.support.model_server import servers_python
from tests.support.ports import free_port
from tests.support.running_server import PATIENCE_S, wait_for

from assay.analyse.checks import CHECKS
from assay.cli.main import app, main
from assay.errors import SpecError
from assay.metrics import METRICS
from assay.plugins import plugin_names
from assay.spec.benchmark import Benchmark
from assay.spec.importers import own_source
from assay.spec.load import check
from assay.spec.source import parse
from assay.spec.target import APIS

ROOT = Path(__file__).resolve().parents[3]
DOCS = ROOT / "docs"
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md"]
FORMATS = ("yaml", "toml", "json")
NOT_VALID = "# not a valid benchmark"
# What these print does not depend on the machine, so that every line shown must be true.
EXACT = ("validate", "init", "models")
_FENCE = re.compile(r"^( *)```(\w+)([^\n]*)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r'title="([^"]+)"')
_PORT = re.compile(r"(?<=:)(?:8080|8000)\b|(?<=--port )(?:8080|8000)\b")


@dataclass(frozen=True)
class Block:
    """One fenced block of a page."""

    page: Path
    line: int
    language: str
    title: str | None
    text: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"


@dataclass
class Command:
    """One command of a console block, what is shown below it, and how it must end."""

    text: str
    shown: list[str]
    code: int = 0


def blocks_of(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [_block(page, text, match) for match in _FENCE.finditer(text)]


def _block(page: Path, text: str, match: re.Match[str]) -> Block:
    indent, language, rest, body = match.groups()
    title = _TITLE.search(rest)
    lines = [line.removeprefix(indent) for line in body.splitlines(keepends=True)]
    return Block(page, text.count("\n", 0, match.start()) + 1, language, title and title[1], "".join(lines))


def commands_of(text: str) -> list[Command]:
    found: list[Command] = []
    for line in text.replace("\\\n", " ").splitlines():
        if line.startswith("$ "):
            found.append(Command(line[2:].strip(), []))
        elif found:
            found[-1].shown.append(line)
    for command, following in itertools.pairwise(found):
        if following.text == "echo $?":
            command.code = int(following.shown[0])
    return [command for command in found if command.text.split()[0] in ("assay", "python", "curl", "export")]


def shortened(command: str, folder: Path) -> str:
    """`assay run` with one short run, put before the options that the page gives, which win."""
    match = re.match(r"^assay run (\S+)(.*)$", command)
    if match is None or not (folder / match[1]).is_file():
        return command
    path = folder / match[1]
    document: Any = own_source(parse(path.read_text(encoding="utf-8"), path.suffix, path.name)).document
    target = document.get("target", {})
    less = ["--set measure.runs=1"]
    if "command" not in target and "image" not in target:
        less += ["--set measure.warmup=none", "--set 'measure.until={at_least: 20ms, at_most: 100ms}'"]
    if target.get("api") in plugin_names(APIS):
        less += _less_load(document.get("load", {}))
    return f"assay run {match[1]} {' '.join(less)}{match[2]}"


def _less_load(load: Any) -> list[str]:
    """A load that still has the shape of the page's, and takes a second."""
    if load.get("rate") == "search":
        return ["--set load.search.probe=1s", "--set load.search.probes=2"]
    if "trace" in load or "stages" in load:
        return []
    return ["--set load.requests=3"] if "requests" in load else ["--set load.duration=300ms"]


def is_benchmark(block: Block) -> bool:
    if block.language not in FORMATS:
        return False
    try:
        return "benchmark" in parse(block.text, f".{block.language}", str(block)).document
    except SpecError:
        return False


def is_run(block: Block) -> bool:
    return block.language == "console" or (block.language == "python" and block.title is None)


ALL = [block for page in PAGES for block in blocks_of(page)]
BENCHMARKS = [block for block in ALL if is_benchmark(block)]
RUN = [page for page in PAGES if any(is_run(block) for block in blocks_of(page))]
# A first day, a server with its agents and its API, an importer, the gate, a bucket, Python, a simulated server.
ON_A_PUSH = {
    "README.md", "docs/tutorial.md", "docs/how-to/from-team9.md", "docs/how-to/gate-in-ci.md",
    "docs/how-to/keep-results-in-a-bucket.md", "docs/how-to/python-and-notebooks.md",
    "docs/how-to/run-a-fleet.md", "docs/how-to/simulate-a-server.md", "docs/how-to/use-the-http-api.md",
}  # fmt: skip


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def page_to_run(page: Path) -> ParameterSet:
    return pytest.param(page, id=name_of(page), marks=() if name_of(page) in ON_A_PUSH else pytest.mark.nightly)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def folder(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples in it, its own store, and our commands on the path."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASSAY_STORE", str(tmp_path / "store"))
    monkeypatch.setenv("ASSAY_INFRA", str(tmp_path / "infra"))  # a system on this machine does not matter
    monkeypatch.setenv("ASSAY_CACHE", str(cache))
    monkeypatch.setenv("PATH", os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    monkeypatch.delenv("MY_API_KEY", raising=False)
    return tmp_path


@pytest.mark.parametrize("block", BENCHMARKS, ids=str)
def test_benchmark_files_are_what_the_page_says(block: Block) -> None:
    source = parse(block.text, f".{block.language}", str(block))
    if block.text.startswith(NOT_VALID):
        with pytest.raises(SpecError):
            check(source, ROOT)
    else:
        assert check(source, ROOT).benchmark.benchmark


def test_every_page_that_is_run_on_a_push_is_there() -> None:
    assert {name_of(page) for page in RUN} >= ON_A_PUSH


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_commands_and_code_of_a_page_are_in_form(page: Path) -> None:
    """Verbs and options are those that there are, and Python can be read; whether it works is seen when it is run."""
    for block in blocks_of(page):
        if block.language == "python":
            compile(block.text, str(block), "exec")
        elif block.language == "console":
            for command in commands_of(block.text):
                words = shlex.shlex(command.text, posix=True, punctuation_chars=True)
                words.whitespace_split, words.commenters = True, ""
                own = list(itertools.takewhile(lambda word: word not in ("|", ">", "<", "&", "&&"), words))
                if own[0] == "assay" and command.code == 0 and "--help" not in own:
                    _parse(own, block)


@lru_cache
def _whole_command() -> Any:
    return typer.main.get_command(app)


def _parse(words: list[str], block: Block) -> None:
    """What typer itself does with the words of a command line before it calls anything."""
    command, context = _whole_command(), None
    while hasattr(command, "commands") and words[1:]:
        context = command.make_context(words[0], words[1:2], parent=context, resilient_parsing=True)
        assert words[1] in command.commands, f"{block}: {words}"
        command, words = command.commands[words[1]], words[1:]
    context = command.context_class(command, info_name=words[0], parent=context)
    command.parse_args(context, words[1:])


@pytest.mark.live
@pytest.mark.parametrize("page", [page_to_run(page) for page in RUN])
def test_commands_and_code_of_a_page_work(page: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, object] = {"__name__": "__main__"}
    ports = {"8080": str(free_port()), "8000": str(free_port())}
    with ExitStack() as background, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASSAY_SERVER_PORT", ports["8080"])
        patch.setenv("ASSAY_AGENT_STATE", str(folder / "agent"))
        for block in blocks_of(page):
            if block.title is not None:
                (folder / block.title).parent.mkdir(parents=True, exist_ok=True)
                (folder / block.title).write_text(with_ports(block.text, ports), encoding="utf-8")
                if block.title == "pyproject.toml":
                    _install(folder, tomllib.loads(block.text)["project"])
                    patch.setenv("PYTHONPATH", str(folder))
            elif block.language == "python":
                exec(compile(with_ports(block.text, ports), str(block), "exec"), names)
            elif block.language == "console":
                for command in commands_of(block.text):
                    command.text = with_ports(command.text, ports)
                    if command.text.startswith("export "):
                        name, _, value = command.text.removeprefix("export ").partition("=")
                        patch.setenv(name, by_process(f"printf %s {value}", folder)[1])
                    elif command.text.endswith("&"):
                        background.enter_context(going_on(command.text, folder))
                    else:
                        run_command(command, block, folder)


def with_ports(text: str, ports: dict[str, str]) -> str:
    return _PORT.sub(lambda match: ports[match[0]], text)


@contextmanager
def going_on(text: str, folder: Path) -> Iterator[None]:
    """A server or an agent that works while the commands after it run."""
    words = shlex.split(text.removesuffix("&"))
    log = folder / f"{words[1]}-{len(list(folder.glob('*.log')))}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(words, stdout=out, stderr=out, cwd=folder)
    try:
        wait_for(lambda: process.poll() is not None or re.search(r"listening on|enrolled", log.read_text()), what=text)
        assert process.poll() is None, f"{text}\n{log.read_text()}"
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE_S)


def is_quick(text: str) -> bool:
    """Whether a command measures nothing; then a call of `main` does, in a tenth of the time of a process."""
    words = text.split()
    return words[0] == "assay" and words[1] not in ("run", "exec", "score") and ">" not in words


def by_process(text: str, folder: Path) -> tuple[int, str]:
    env = dict(os.environ)
    if "smollm2" in text:
        programs = servers_python().parent
        env |= {"PATH": os.pathsep.join((str(programs), env["PATH"])), "VIRTUAL_ENV": str(programs.parent)}
    done = subprocess.run(text, shell=True, cwd=folder, env=env, capture_output=True, text=True, timeout=280)
    return done.returncode, done.stdout + done.stderr


def by_call(text: str) -> tuple[int, str]:
    said, before = io.StringIO(), signal.getsignal(signal.SIGTERM)
    arguments = ["assay", *shlex.split(text)[1:]]
    with redirect_stdout(said), redirect_stderr(said), pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as ended:
            main()
    signal.signal(signal.SIGTERM, before)
    return int(ended.value.code or 0), said.getvalue()


def run_command(command: Command, block: Block, folder: Path) -> None:
    text = shortened(command.text, folder)
    code, said = by_call(text) if is_quick(text) else by_process(text, folder)
    assert code == command.code, f"{block}: {text}\nexpected {command.code}, got {code}\n{said}"
    shown = [line.rstrip() for line in command.shown if line.strip() and line != "…"]
    if command.text.split()[1] in EXACT or command.code == 2:
        missing = [line for line in shown if line not in said]
        assert not missing, f"{block}: {text}\nshown, but not printed: {missing}\n{said}"
    codes = set(re.findall(r"error\[[\w-]+\]", "\n".join(shown)))
    assert codes <= set(re.findall(r"error\[[\w-]+\]", said)), f"{block}: {text}\n{said}"


@pytest.mark.live
def test_the_target_of_the_how_to_is_found_and_measures(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {block.title: block.text for block in blocks_of(DOCS / "how-to" / "add-a-target.md") if block.title}
    project = tomllib.loads(files["pyproject.toml"])["project"]
    (folder / "assay_echo").mkdir()
    (folder / "assay_echo" / "__init__.py").write_text(files["assay_echo/__init__.py"])
    _install(folder, project)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    names: dict[str, type[socketserver.BaseRequestHandler]] = {"__name__": "server"}  # type: ignore[dict-item]
    exec(compile(files["server.py"], "server.py", "exec"), names)
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), names["Handler"]) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "echo.yaml").write_text(files["echo.yaml"].replace("8707", str(server.server_address[1])))
        done = subprocess.run(
            shortened("assay run echo.yaml --quiet --format json", folder), shell=True, capture_output=True, text=True
        )
        server.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    assert job["metrics"]["latency_ms"]["median"] > 0
    assert job["runs"][0]["facts"]["bytes_per_call"] == 64


PROTOCOL_PAGE = DOCS / "how-to" / "add-a-protocol.md"


@pytest.mark.live
def test_the_protocol_of_the_how_to_measures_a_server_of_its_own_kind(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.title: block.text for block in blocks_of(PROTOCOL_PAGE) if block.title}
    (folder / "assay_tgi").mkdir()
    (folder / "assay_tgi" / "__init__.py").write_text(files["assay_tgi/__init__.py"])
    _install(folder, tomllib.loads(files["pyproject.toml"])["project"])
    monkeypatch.setenv("PYTHONPATH", str(folder))
    names: dict[str, type[BaseHTTPRequestHandler]] = {"__name__": "server"}  # type: ignore[dict-item]
    exec(compile(files["server.py"], "server.py", "exec"), names)
    with ThreadingHTTPServer(("127.0.0.1", 0), names["Handler"]) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        (folder / "tgi.yaml").write_text(files["tgi.yaml"].replace("8708", str(server.server_address[1])))
        less = "--set measure.runs=1 --set measure.warmup=none --set load.duration=1s"
        done = subprocess.run(
            f"assay run tgi.yaml --quiet --format json {less}", shell=True, capture_output=True, text=True
        )
        server.shutdown()
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    # A word takes 5 ms at least, so that 16 of them are a known answer.
    assert 5 <= job["metrics"]["tpot_ms"]["median"] < 20
    assert job["metrics"]["ttft_ms"]["median"] >= 5
    assert job["metrics"]["output_tokens"]["median"] == 16
    assert job["metrics"]["goodput_per_s"]["median"] > 0
    assert job["runs"][0]["facts"]["endpoint"]["api"] == "tgi"


@pytest.mark.live
def test_the_vector_database_of_the_how_to_is_measured_against_the_truth(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {block.title: block.text for block in blocks_of(PROTOCOL_PAGE) if block.title}
    (folder / "assay_exact").mkdir()
    (folder / "assay_exact" / "__init__.py").write_text(files["assay_exact/__init__.py"])
    _install(folder, tomllib.loads(files["assay_exact.toml"])["project"])
    monkeypatch.setenv("PYTHONPATH", str(folder))
    (folder / "exact.yaml").write_text(files["exact.yaml"])
    less = "--set measure.runs=1 --set measure.warmup=none --set load.duration=300ms"
    done = subprocess.run(
        f"assay run exact.yaml --quiet --format json {less}", shell=True, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    job = json.loads(done.stdout)["jobs"][0]
    assert job["metrics"]["recall"]["median"] == 1.0
    assert job["runs"][0]["facts"]["engine"]["name"] == "NumPy"


def _install(folder: Path, project: dict[str, object]) -> None:
    """What `pip install` would leave: the metadata by which entry points are found."""
    metadata = folder / f"{str(project['name']).replace('-', '_')}-{project['version']}.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n"
    )
    groups = project["entry-points"]
    assert isinstance(groups, dict)
    lines = [f"[{group}]\n" + "\n".join(f"{k} = {v}" for k, v in names.items()) for group, names in groups.items()]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n")


# The reference, which is written from the code


def reference(name: str) -> str:
    return (DOCS / "reference" / name).read_text(encoding="utf-8")


def test_the_reference_says_what_the_code_says() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "reference.py"), "--check"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, f"run `make reference`\n{done.stdout}{done.stderr}"


def _verbs(command: object, path: str = "assay") -> Iterator[tuple[str, object]]:
    for name, verb in command.commands.items():  # type: ignore[attr-defined]
        yield f"{path} {name}", verb
        if hasattr(verb, "commands"):
            yield from _verbs(verb, f"{path} {name}")


def test_every_verb_and_option_is_in_the_reference() -> None:
    page = reference("cli.md")
    sections = dict(re.findall(r"^##+ `([^`]+)`\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL))
    for name, verb in _verbs(typer.main.get_command(app)):
        assert name in sections
        for parameter in getattr(verb, "params", ()):
            for option in parameter.opts:
                assert not option.startswith("-") or option == "--help" or f"`{option}" in sections[name], option


def _keys(annotation: object) -> Iterator[tuple[str, str]]:
    """Model and key of every section below an annotation."""
    if isinstance(annotation, type) and hasattr(annotation, "model_fields"):
        for name, field in annotation.model_fields.items():
            yield annotation.__doc__ or "", name
            yield from _keys(field.annotation)
    else:
        for argument in getattr(annotation, "__args__", ()):
            yield from _keys(argument)


def test_every_key_of_the_file_is_in_the_reference() -> None:
    page = reference("benchmark-file.md")
    sections = re.split(r"^## ", page, flags=re.MULTILINE)
    for meaning, key in _keys(Benchmark):
        place = next((text for text in sections if f"\n\n{' '.join(meaning.split())}\n\n" in text), "")
        assert f"| `{key}` |" in place, f"{key} of {meaning!r}"


def test_every_metric_and_check_is_in_the_reference_and_in_the_method() -> None:
    method = (DOCS / "method.md").read_text(encoding="utf-8")
    for metric in METRICS:
        assert f"`{metric}`" in reference("metrics.md")
        assert f"`{metric}`" in method
    anchors = set(re.findall(r"\{ #([\w-]+) \}", method))
    for name in CHECKS:
        assert f"[{name}]" in reference("checks.md")
        assert re.sub(r"[^a-z0-9]", "-", name) in anchors, f"method.md does not explain the check {name!r}"


def test_every_error_that_a_page_shows_is_in_the_reference() -> None:
    listed = re.findall(r"^\| `([\w…-]+)` \|", reference("errors.md"), re.MULTILINE)
    pattern = re.compile("|".join(listed).replace("…", "[a-z0-9-]+"))
    shown = {code for page in PAGES for code in re.findall(r"error\[([\w-]+)\]", page.read_text(encoding="utf-8"))}
    assert [code for code in shown if not pattern.fullmatch(code)] == []


def test_every_dependency_has_its_sentence() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    page = (DOCS / "dependencies.md").read_text(encoding="utf-8")
    extras = [one for group in project["optional-dependencies"].values() for one in group]
    for requirement in [*project["dependencies"], *extras]:
        name = re.split(r"[<>=;]", requirement)[0]
        assert f"`{name}`" in page


# The pages themselves


def test_every_page_is_in_the_navigation() -> None:
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = set(re.findall(r": (\S+\.md)$", navigation, re.MULTILINE))
    there = {str(page.relative_to(DOCS)) for page in PAGES if page.is_relative_to(DOCS)}
    assert listed == there


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benches" / "README.md"], ids=name_of)
def test_links_between_pages_lead_somewhere_in_the_repository(page: Path) -> None:
    text = _FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" not in link and not link.startswith("#"):
            assert (page.parent / link.partition("#")[0]).exists(), f"{name_of(page)}: {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_hold_no_paths_of_a_machine(page: Path) -> None:
    found = re.findall(r"(?:/tmp|/home|/work|/root|/Users)/\S*", page.read_text(encoding="utf-8"))
    assert not found


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    """Strict: links, anchors and the names that the Python reference asks for all exist."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    for page in (tmp_path / "site").rglob("*.html"):
        loaded = re.findall(r'<(?:script|link|img)[^>]+(?:src|href)="(https?:[^"]+)"', page.read_text(encoding="utf-8"))
        assert not loaded, f"{page.name} loads from another host: {loaded}"
