"""List words that no engineer of this field would write: `python scripts/plain_english.py [PATH …]`.

Every text counts: code, comments, documentation, dashboard. The glossary (docs/reference/glossary.md) says what to
write in their place. Exit code 1 if one is found.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).absolute().parents[1]
PLACES = ("src/assay", "docs", "web/src", "examples", "deploy", "README.md", "CONTRIBUTING.md")
SUFFIXES = {".py", ".md", ".ts", ".tsx", ".yaml", ".toml", ".tf", ".txt", ".css"}
# The page that lists the banned words, data sets, and what is built or generated.
LEFT_OUT = re.compile(r"docs/reference/glossary\.md|run/workloads/data/|dashboard/built/|schema\.d\.ts")

# What is banned, and what to write.
BANNED = {
    r"(?:un)?told": "reported, notified, logged, printed, known, told apart: distinguished",
    r"whoever": "the user, the caller, any process that",
    r"anew": "again, from scratch, rebuilt",
    r"by lot": "in random order, randomly",
    r"mend(?:s|ed|ing)?": "fix, repair",
    r"from the side": "telemetry",
    r"any more": "no longer",
    r"at once": "immediately; concurrently, at the same time",
    r"(?:go|goes|going|gone|went) on": "continue",
    r"surely": "certainly, clearly, proven",
    r"of theirs|of ours": "their own, assay's own",
    r"heard (?:of|from)": "last heartbeat, last seen, silent",
    r"somebody|nobody": "someone, another process, no one, none",
    r"all the same": "anyway",
    r"is owed|are owed|owed": "pending",
    r"no name for|no name of": "not a valid, unknown",
    r"so many": "this many, that many, the number",
    r"beats": "heartbeats",
    r"(?:what )?(?:became|become|becomes) of": "result, outcome, state",
    r"at hand": "available, fetched",
    r"be had": "available, obtained",
    r"(?:is|are|was|were|be) said": "reported, stated",
    r"gives? way|gave way|give way": "preempted",
    r"the like": "similar",
    r"in vain": "without success",
    r"(?:does|do) not tell": "does not report, does not say",
    r"(?:at most|at least|within) \S+(?: \S+)? is fine": "(limit …)",
}
# Fields of the API and values of a benchmark file, which keep their names.
FIXED_NAMES = re.compile(
    r"\.surely\b|\bsurely(?=[:=])|'surely'|\bsurely: bool|\btold: \{\}|\bowed: (?:true|false)|saturation: go on"
    r'|"stop", "go on"|`stop`, `go on`|, "nobody"\)'
    # Stored with an alert, a campaign or an experiment.
    r"|(?:telling|notification)\.(?:told|owed)\b|\btold: (?:Mapping|int)|against\.told|\bowed: bool|told=turns"
    r"|owed=(?:pending|True)|\"owed\":true"
    r"|\"told\": \{\}|\"owed\": True|REPORTED = \"told\"|\"told\", \"pairs\"|return \"told\"|\"told\": \"ended"
    r"|\"told\": \{str|record\[\"told\"\]|\"state\": \"not told\"| or \"not told\""
)
PATTERN = re.compile("|".join(rf"(?P<w{n}>\b(?:{words})\b)" for n, words in enumerate(BANNED)), re.IGNORECASE)


def findings(paths: list[Path]) -> Iterator[tuple[Path, int, str, str]]:
    """File, line number, the word, what to write in its place."""
    advice = list(BANNED.values())
    for path in files(paths):
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
            for match in PATTERN.finditer(FIXED_NAMES.sub("", line)):
                yield path, number, match.group(), advice[int((match.lastgroup or "w0")[1:])]


def files(paths: list[Path]) -> Iterator[Path]:
    for path in paths:
        for file in sorted(path.rglob("*")) if path.is_dir() else [path]:
            if file.suffix in SUFFIXES and file.is_file() and not LEFT_OUT.search(file.as_posix()):
                yield file


def main(arguments: list[str]) -> int:
    """List what the named paths hold, all places without one."""
    matches = list(findings([Path(argument) for argument in arguments] or [ROOT / place for place in PLACES]))
    for path, number, word, advice in matches:
        sys.stdout.write(f"{path}:{number}: {word!r}: {advice}\n")
    sys.stdout.write(f"{len(matches)} found\n")
    return 1 if matches else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
