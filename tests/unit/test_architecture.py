"""The tree is the data flow: imports point one way, and what must stay light stays light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import assay

SRC = Path(assay.__file__).parent
ROOT = Path(__file__).parents[2]
MODULES = sorted(path for path in SRC.rglob("*.py") if "migrations" not in path.parts)


def stage(path: Path) -> str:
    return path.relative_to(SRC).parts[0].removesuffix(".py")


def test_imports_follow_the_order_of_the_rooms():
    """The contracts of import-linter: one exhaustive order, independent engines, targets and notifiers."""
    command = [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()", "--no-cache"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
    assert "4 kept, 0 broken" in done.stdout


def test_no_import_is_excused_by_name():
    assert "ignore_imports" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", [p for p in MODULES if stage(p) in ("plan", "analyse")], ids=lambda p: p.name)
def test_plan_and_analyse_do_no_input_or_output(path):
    names = {node.id for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Name)}
    modules = {
        alias.name
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    assert not names & {"open", "print", "input"}
    assert not modules & {"os", "subprocess", "socket", "httpx", "psutil", "sqlite3", "time", "random"}


def loaded_by(code: str) -> set[str]:
    script = f"{code}\nimport sys\nprint(' '.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_importing_assay_or_emit_loads_no_dependency():
    assert not loaded_by("import assay; assay.emit") & {
        "pydantic",
        "numpy",
        "typer",
        "rich",
        "sqlalchemy",
        "httpx",
        "psutil",
    }


def test_the_command_line_loads_nothing_heavy_before_it_needs_it():
    heavy = {"pydantic", "numpy", "sqlalchemy", "alembic", "pyarrow", "httpx", "psutil", "onnxruntime", "rich"}
    assert not loaded_by("import assay.cli.main") & heavy


def test_a_measuring_process_loads_neither_the_store_nor_the_reports():
    loaded = loaded_by("import assay.exec.child, assay.run.targets.program")
    assert not loaded & {"sqlalchemy", "pyarrow", "rich", "typer", "httpx", "onnxruntime"}


def modules_by(code: str, *arguments: str) -> set[str]:
    """Every module that is loaded when a script ends."""
    script = f"{code}\nimport sys\nprint('MODULES', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.rpartition("MODULES ")[2].split())


UP_TO_THE_FIRST_RUN = """
import sys
from importlib import import_module
from assay.cli.main import main

class Begun(BaseException):
    pass

def launch(*_, **__):
    raise Begun

import_module("assay.run.execute").launch = launch
sys.argv = ["assay", "run", sys.argv[1], "--store", sys.argv[2], "--local", *sys.argv[3:]]
try:
    main()
except Begun:
    print("begun")
"""


@pytest.mark.parametrize("words", [("--quiet",), ()], ids=["silent", "plain lines"])
def test_the_process_that_starts_a_run_is_still_small_then(tmp_path, words):
    """With a new store, up to the moment at which the process of the first run begins."""
    file = tmp_path / "one.yaml"
    file.write_text(
        "benchmark: one\ntarget: {endpoint: 'http://127.0.0.1:9', api: openai-chat, model: m}\nmeasure: {runs: 1}\n"
    )
    loaded = modules_by(UP_TO_THE_FIRST_RUN, str(file), str(tmp_path / "store"), *words)
    assert {"assay.store.store", "assay.api.run"} <= loaded
    assert (tmp_path / "store" / "assay.db").exists()
    heavy = {"numpy", "onnxruntime", "alembic", "pyarrow", "rich", "httpx", "torch", "sqlalchemy.dialects.postgresql"}
    assert not loaded & heavy


def test_the_process_of_a_served_run_loads_what_it_needs_alone():
    loaded = modules_by(
        "import assay.exec.child\nfrom importlib import import_module\n"
        "import_module('assay.run.targets.served.measure')"
    )
    assert "assay.run.targets.served.measure" in loaded
    unused = {
        "assay.analyse.capacity",
        "assay.analyse.judge",
        "sqlalchemy",
        "pyarrow",
        "rich",
        "httpx",
        "tokenizers",
        "onnxruntime",
        "ruamel.yaml",
    }
    assert not loaded & unused


def test_nobody_reads_source_files_to_describe_keys_that_no_one_asks_about():
    assert "assay.spec.schema" not in modules_by("import assay.exec.child, assay.api.run")
    reading = "import linecache, assay.spec.benchmark\nprint(len(linecache.cache))\n"
    done = subprocess.run([sys.executable, "-c", reading], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"


def test_functions_stay_small():
    long = [
        f"{path.relative_to(SRC)}:{node.lineno} {node.name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and (node.end_lineno or 0) - node.lineno + 1 > 60
    ]
    assert not long


def test_files_stay_small():
    assert not [str(path) for path in MODULES if len(path.read_text().splitlines()) > 500]
