"""Bad benchmark files, made on the spot: every one must end in a plain error.

Each case writes one file (or a thing that is no file) into a folder and returns its path. As a script,
`python tests/unit/spec/bad_files.py` runs `assay validate` and `assay run` on all of them and prints what came of each.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

Make = Callable[[Path], Path]
HEAD = "benchmark: b\n"
COMMAND = HEAD + "target: {command: 'true'}\nmeasure: {runs: 1}\n"
MODEL = HEAD + "target: {model: mlp-tiny}\n"


@dataclass(frozen=True, slots=True)
class BadFile:
    """One bad file."""

    name: str
    make: Make
    heavy: bool = False
    """Whether it once took much time or memory, or ended the process."""

    @property
    def is_text(self) -> bool:
        """Whether a server could be sent its content."""
        return self.name.partition(" ")[0] in ("yaml", "toml", "json", "spec")


def _text(name: str, content: str | bytes | Callable[[], str | bytes], *, heavy: bool = False) -> BadFile:
    suffix = name.partition(" ")[0]

    def make(folder: Path) -> Path:
        path = folder / f"bad.{suffix if suffix == 'toml' else 'yaml' if suffix == 'yaml' else 'json'}"
        made = content() if callable(content) else content
        path.write_bytes(made if isinstance(made, bytes) else made.encode("utf-8", "surrogatepass"))
        return path

    return BadFile(name, make, heavy)


def _spec(name: str, tree: dict[str, object], *, heavy: bool = False) -> BadFile:
    """A file whose text is right and whose values are not."""
    whole = {"benchmark": "b", "target": {"command": "true"}, "measure": {"runs": 1}} | tree
    return _text(f"spec {name}", lambda: json.dumps(whole), heavy=heavy)


def _link(name: str, target: str, *, heavy: bool = False) -> BadFile:
    def make(folder: Path) -> Path:
        path = folder / "bad.yaml"
        path.symlink_to(target)
        return path

    return BadFile(f"path {name}", make, heavy)


def _path(name: str, make: Make) -> BadFile:
    return BadFile(f"path {name}", make)


def _folder(folder: Path) -> Path:
    path = folder / "bad.yaml"
    path.mkdir()
    return path


def _fifo(folder: Path) -> Path:
    path = folder / "bad.yaml"
    os.mkfifo(path)
    return path


def _sparse(folder: Path) -> Path:
    path = folder / "bad.yaml"
    with path.open("wb") as file:
        file.truncate(20 * 2**30)
    return path


def _pattern(name: str, pattern: str, *, heavy: bool = False) -> BadFile:
    metric = {"name": "x", "pattern": pattern}
    return _spec(f"pattern: {name}", {"target": {"command": "true", "metrics": [metric]}}, heavy=heavy)


def _command(name: str, command: object, *, heavy: bool = False) -> BadFile:
    return _spec(f"command: {name}", {"target": {"command": command}}, heavy=heavy)


def _laughs() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12)]
    return HEAD + "\n".join(lines)


def _merges() -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, 12)]
    return HEAD + "\n".join(lines)


def _long_aliases() -> str:
    return HEAD + f"a: &a {'x' * MANY}\nmatrix: {{target.command: [{'*a, ' * 20_000}]}}\n"


def _spaces() -> str:
    text = 'description = """\n[' + " " * 50_000 + 'x\n"""\n'
    return f'benchmark = "b"\n{text}[target]\ncommand = "true"\nwrong = 1\n'


DIGITS = "9" * 5000
NEAR = ".".join("a" * 60)
MANY = 100_000

BAD_FILES: tuple[BadFile, ...] = (
    # What is no file of text
    _path("missing", lambda folder: folder / "missing.yaml"),
    _path("folder", _folder),
    _path("fifo", _fifo),
    _path("sparse 20 GiB", _sparse),
    _path("name too long", lambda folder: folder / ("x" * 300 + ".yaml")),
    _link("/dev/zero", "/dev/zero", heavy=True),
    _link("/dev/urandom", "/dev/urandom", heavy=True),
    _link("loop", "bad.yaml"),
    _link("nowhere", "nowhere/at/all.yaml"),
    # Text that is none
    _text("yaml empty", ""),
    _text("yaml only a comment", "# nothing\n"),
    _text("yaml list", "- a\n- b\n"),
    _text("yaml scalar", "just words\n"),
    _text("yaml zero byte", b"benchmark: a\0b\ntarget: {command: 'true'}\n"),
    _text("yaml escaped zero byte", 'benchmark: "a\\0b"\ntarget: {command: "true"}\n'),
    _text("yaml escaped zero byte in a key", COMMAND + 'labels: {"k\\x00": v}\n'),
    _text("yaml latin-1", "benchmark: b\ndescription: caf\u00e9\n".encode("latin-1")),
    _text("yaml utf-16", COMMAND.encode("utf-16")),
    _text("yaml cut in a character", COMMAND.encode() + b"description: \xe2\x82"),
    _text("yaml half a pair", COMMAND.encode() + b"description: \xed\xa0\x80"),
    _text("yaml binary", lambda: random.Random(17).randbytes(50_000)),
    _text("yaml control characters", COMMAND + "description: \x07\x1b[2J\n"),
    _text("yaml 2 MB of words", COMMAND + "description: " + "word " * 400_000),
    # YAML
    _text("yaml alias of itself", HEAD + "a: &a {b: *a}\n", heavy=True),
    _text("yaml list alias of itself", HEAD + "target: &a [*a]\n", heavy=True),
    _text("yaml merge of itself", HEAD + "a: &a {<<: *a}\n", heavy=True),
    _text("yaml aliases by the billion", _laughs, heavy=True),
    _text("yaml merges by the billion", _merges, heavy=True),
    _text("yaml aliases of a long text", _long_aliases, heavy=True),
    _text("yaml unknown alias", HEAD + "target: *nowhere\n"),
    _text("yaml deep list", lambda: HEAD + "target: " + "[" * 5000 + "]" * 5000, heavy=True),
    _text("yaml deep open list", lambda: HEAD + "target: " + "[" * MANY, heavy=True),
    _text("yaml deep map", lambda: HEAD + "target: " + "{a: " * 5000 + "}" * 5000, heavy=True),
    _text("yaml deep dashes", lambda: HEAD + "target:\n  " + "- " * 5000 + "x", heavy=True),
    _text("yaml deep questions", lambda: "? " * 5000 + "x", heavy=True),
    _text("yaml deep indent", lambda: "".join(" " * depth + "a:\n" for depth in range(900)), heavy=True),
    _text("yaml many values", lambda: MODEL + "labels:\n" + "".join(f" {i}: v\n" for i in range(40_000)), heavy=True),
    _text("yaml many items", lambda: MODEL + "labels: [" + "a," * 200_000 + "]", heavy=True),
    _text("yaml long integer", COMMAND.replace("runs: 1", f"runs: {DIGITS}"), heavy=True),
    _text("yaml long hexadecimal", lambda: COMMAND.replace("runs: 1", "runs: 0x" + "f" * MANY), heavy=True),
    _text("yaml octal with a nine", COMMAND.replace("runs: 1", "runs: 0o9")),
    _text("yaml tag of a number on words", COMMAND.replace("runs: 1", "runs: !!int words")),
    _text("yaml tag of a float on words", COMMAND.replace("runs: 1", "runs: !!float words")),
    _text("yaml python tag", HEAD + "target: !!python/object/apply:os.system ['true']\n"),
    _text("yaml bad tag", HEAD + "target: !<tag:%ff> x\n"),
    _text("yaml version of many digits", f"%YAML 1.{DIGITS}\n---\n{COMMAND}", heavy=True),
    _text("yaml escape beyond all characters", 'benchmark: "\\UFFFFFFFF"\n', heavy=True),
    _text("yaml two documents", f"{COMMAND}---\n{COMMAND}"),
    _text("yaml key given twice", COMMAND + "benchmark: c\n"),
    _text("yaml map as a key", COMMAND + "? {a: b}\n: c\n"),
    _text("yaml tab", "benchmark: b\ntarget:\n\tcommand: 'true'\n"),
    _text("yaml open quote", 'benchmark: "b\ntarget: {command: x}\n'),
    _text("yaml open brace", "benchmark: b\ntarget: {command: x\n"),
    _text("yaml not a number", COMMAND + "needs: {memory: .nan}\n"),
    _text("yaml infinite", COMMAND.replace("runs: 1", "runs: 1, timeout: .inf")),
    # TOML
    _text("toml many dots", lambda: 'benchmark = "b"\n' + ".".join("a" * 20_000) + " = 1\n", heavy=True),
    _text("toml very many dots", lambda: 'benchmark = "b"\n' + ".".join("a" * 200_000) + " = 1\n", heavy=True),
    _text("toml table of many dots", lambda: "[" + ".".join("a" * 20_000) + "]\nx = 1\n", heavy=True),
    _text("toml quoted dots", lambda: ".".join(['"a"'] * 20_000) + " = 1\n", heavy=True),
    _text("toml dots in an inline table", lambda: "t = {" + " . ".join("a" * 20_000) + " = 1}\n", heavy=True),
    _text("toml many tables of dots", lambda: "".join(f"[{NEAR}.k{i}]\n" for i in range(3000)), heavy=True),
    _text("toml deep array", lambda: "a = " + "[" * 5000 + "]" * 5000, heavy=True),
    _text("toml deep inline table", lambda: "a = " + "{a = " * 5000 + "1" + "}" * 5000, heavy=True),
    _text("toml long integer", f'benchmark = "b"\na = {DIGITS}\n', heavy=True),
    _text("toml long hexadecimal", lambda: f'benchmark = "b"\na = 0x{"f" * MANY}\n', heavy=True),
    _text("toml escaped zero byte", 'benchmark = "a\\u0000b"\ntarget = {command = "true"}\n'),
    _text("toml a line of spaces", _spaces, heavy=True),
    _text("toml key given twice", 'benchmark = "b"\nbenchmark = "c"\n'),
    _text("toml open text", 'benchmark = "b\n'),
    _text("toml not a number", 'benchmark = "b"\n[target]\ncommand = "true"\n[measure]\ntimeout = nan\n'),
    _text("toml no such day", 'benchmark = "b"\nwhen = 2026-02-31\n'),
    # JSON
    _text("json deep list", lambda: '{"benchmark": ' + "[" * MANY + "]" * MANY + "}", heavy=True),
    _text("json deep map", lambda: '{"benchmark": ' + '{"a": ' * 50_000 + "1" + "}" * 50_000 + "}", heavy=True),
    _text("json deep open list", lambda: "[" * MANY, heavy=True),
    _text("json 500 deep", lambda: '{"benchmark": "b", "matrix": ' + '{"a": ' * 500 + "1" + "}" * 501, heavy=True),
    _text("json long integer", f'{{"benchmark": "b", "measure": {{"runs": {DIGITS}}}}}', heavy=True),
    _text("json not a number", '{"benchmark": "b", "target": {"command": "true"}, "measure": {"timeout": NaN}}'),
    _text("json number too large", '{"benchmark": "b", "target": {"command": "true"}, "measure": {"timeout": 1e999}}'),
    _text("json escaped zero byte", '{"benchmark": "b", "labels": {"k\\u0000": "v"}, "target": {"command": "true"}}'),
    _text("json zero byte in a command", '{"benchmark": "b", "target": {"command": "true \\u0000"}}'),
    _text("json half a pair", '{"benchmark": "b\\ud800", "target": {"command": "true"}}'),
    _text("json cut", '{"benchmark": "b", "target": {"command": '),
    _text("json comma too many", '{"benchmark": "b",}'),
    _text("json a list", "[1, 2, 3]"),
    _text("json many values", lambda: json.dumps({"benchmark": "b", "labels": [1] * 80_000}), heavy=True),
    # Commands, patterns and numbers
    _command("open quote", "echo 'hello"),
    _spec("command: open quote in a service", {"services": {"s": {"command": 'serve "x'}}}),
    _spec(
        "command: open quote in a test of readiness",
        {"services": {"s": {"command": "serve", "ready": {"command": "test 'x"}}}},
    ),
    _command("ends in a backslash", "echo \\"),
    _command("too long", "x " * 100_000, heavy=True),
    _command("one long word", "'" + "x" * 400_000 + "'", heavy=True),
    _command("a word too long for a program", ["echo", "x" * 200_000], heavy=True),
    _command("empty", ""),
    _pattern("repeats without end", "(a{1,99999999999})", heavy=True),
    _pattern("5000 parentheses", "(" * 5000 + "a" + ")" * 5000, heavy=True),
    _pattern("long", "(a)" + "|b" * 150_000, heavy=True),
    _pattern("many sets", "(?i)(x)" + "[\\0-\\uffff]" * 900, heavy=True),
    _pattern("look-behind of no fixed width", "(?<=a*)(b)"),
    _pattern("open", "(a"),
    _pattern("no group", "abc"),
    _spec("memory beyond all", {"needs": {"memory": "1e300GiB"}}, heavy=True),
    _spec("memory infinite", {"needs": {"memory": "1e999GiB"}}, heavy=True),
    _spec("memory of 10^400", {"needs": {"memory": 10**400}}, heavy=True),
    _spec("timeout infinite", {"measure": {"timeout": "1e308h"}}, heavy=True),
    _spec("timeout of 10^400", {"measure": {"timeout": 10**400}}, heavy=True),
    _spec("timeout of many digits", {"measure": {"timeout": "9" * 5000 + "s"}}, heavy=True),
    _spec("runs of 10^30", {"measure": {"runs": 10**30}}),
    _spec("seed of 10^4000", {"workload": {"seed": 10**4000}}, heavy=True),
    _spec("long name", {"benchmark": "b" * 201}),
    _spec("many unknown keys", {f"key{i}": 1 for i in range(20_000)}, heavy=True),
    _spec("one very long unknown key", {"k" * 300_000: 1}, heavy=True),
    # Matrices
    _spec("matrix: key of many dots", {"matrix": {".".join("a" * 5000): [1]}}, heavy=True),
    _spec("matrix: ten million points", {"matrix": {f"labels.k{i}": list("0123456789") for i in range(7)}}, heavy=True),
    _spec(
        "matrix: many bytes",
        {
            "description": "x" * 100_000,
            "matrix": {
                "target.command": [f"{'x' * 100_000} {i}" for i in range(3)],
                "workload.seed": list(range(5000)),
            },
        },
        heavy=True,
    ),
    _spec("matrix: every point wrong", {"matrix": {"measure.runs": [-i for i in range(1, 20_001)]}}, heavy=True),
    _spec(
        "matrix: many exclusions",
        {
            "matrix": {
                "measure.runs": list(range(1, 101)),
                "workload.seed": list(range(900)),
                "exclude": [{"measure.runs": i + 1000} for i in range(5000)],
            }
        },
        heavy=True,
    ),
    _spec(
        "matrix: exclusions of no axis",
        {"matrix": {**{f"labels.k{i}": [1] for i in range(5000)}, "exclude": [{f"x{i}": 1} for i in range(5000)]}},
        heavy=True,
    ),
    _spec("matrix: no list", {"matrix": {"measure.runs": 3}}),
    _spec("matrix: no map", {"matrix": "x" * 1000}),
    _spec("matrix: excludes all", {"matrix": {"measure.runs": [1], "exclude": [{"measure.runs": 1}]}}),
    _spec("many services", {"services": {f"s {i}": {"command": "true"} for i in range(8000)}}, heavy=True),
    _spec("no such recipe", {"services": {"s": {"recipe": "r" * 300_000}}}, heavy=True),
    _spec("schedule of a far zone", {"schedule": {"cron": "@daily", "timezone": "x" * 300_000}}, heavy=True),
    _spec("name of a model too long", {"target": {"model": "m" * 5000, "runtime": "transformers"}}, heavy=True),
    _spec("name of the code too long", {"target": {"command": "true", "code": "c" * 300}}, heavy=True),
    _spec("unknown device", {"target": {"model": "mlp-tiny", "device": "d" * 300_000}}, heavy=True),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one command."""

    code: int
    cpu_s: float
    peak_mb: float
    stderr: str


# A small process between: a child's largest memory is at least that of the process that it was started from.
_MEASURING = """
import json, os, resource, subprocess, sys, threading
report, wall_s, cpu_s, *words = sys.argv[1:]
resource.setrlimit(resource.RLIMIT_CPU, (int(cpu_s), int(cpu_s)))
resource.setrlimit(resource.RLIMIT_AS, (8 * 2**30, 8 * 2**30))
child = subprocess.Popen(words)
late = threading.Timer(int(wall_s), child.kill)
late.start()
_, status, used = os.wait4(child.pid, 0)
late.cancel()
with open(report, "w") as file:
    json.dump([os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss / 1024], file)
"""


def outcome(words: list[str], folder: Path, *, wall_s: int = 100, cpu_s: int = 30) -> Outcome:
    """Run a command to its end, or to the end of its time; its own processor time and memory are measured."""
    report = folder / "outcome.json"
    measuring = [sys.executable, "-S", "-c", _MEASURING, str(report), str(wall_s), str(cpu_s)]
    done = subprocess.run([*measuring, *words], stdin=subprocess.DEVNULL, capture_output=True, cwd=folder, check=True)
    code, cpu, peak_mb = json.loads(report.read_text())
    return Outcome(code, cpu, peak_mb, done.stderr.decode("utf-8", "replace"))


def main() -> None:
    """Run both commands on every file and print a table."""
    wanted = sys.argv[1:]
    print("| file | command | exit | CPU s | MB | first lines |\n|---|---|---|---|---|---|")
    for bad in BAD_FILES:
        if wanted and not any(word in bad.name for word in wanted):
            continue
        for verb in ("validate", "run"):
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                words = [sys.executable, "-m", "assay", verb, str(bad.make(folder))]
                words += ["--store", str(folder / "store")] if verb == "run" else []
                found = outcome(words, folder)
            good = found.code == 2 and "error[" in found.stderr and "Traceback" not in found.stderr
            good = good and found.cpu_s < 5 and found.peak_mb < 300
            lines = found.stderr.replace(name, "").splitlines()
            lines = lines[:2] if "Traceback" not in found.stderr else ["Traceback", *lines[-1:]]
            shown = " ".join(line.strip()[:100] for line in lines).replace("|", "/")
            mark = "" if good else " **bad**"
            print(
                f"| {bad.name} | {verb} | {found.code}{mark} | {found.cpu_s:.1f} | {found.peak_mb:.0f} | {shown} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
