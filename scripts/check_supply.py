"""What assay is built from, checked: hashes of every package, images by digest, known vulnerabilities.

Exit codes: 0 nothing is wrong, 1 something is, 4 nothing was found wrong but not every package could
be looked up, such as when no database of vulnerabilities answers.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOCK, CONSTRAINTS, WEB = "requirements.lock", "constraints.txt", "web/package-lock.json"
WRONG, NOT_AUDITED = 1, 4
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)(\[[^]]*\])?==(?P<version>[^\s;\\]+)(?P<marker>\s*;[^\\]*)?")
_URL = re.compile(r"https?://|file://|--(extra-)?index-url|--find-links")
_IMAGE_LINE = re.compile(r"^\s*(?:ARG \w+_IMAGE=|image:\s*)(?P<image>\S+)")
_DEFAULT = re.compile(r"^\$\{\w+:-(?P<image>[^}]+)\}$")
_OWN_IMAGE = "localhost/"
_SHOWN = 5


def main() -> int:
    """Check everything, and say what was found."""
    given = _arguments()
    root: Path = given.root
    wrong = [*check_lock(root), *check_web(root)]
    for line in wrong:
        _say(f"wrong    {line}")
    if not wrong:
        _say(f"hashes   every package of {LOCK} and {WEB} has one")
    _say("note     scripts/servers-constraints.txt and the images of deploy/docker pin versions without hashes")
    for image in sorted(set(images_by_tag(root))):
        _say(f"by tag   {image}")
        _say(f"         its digest: skopeo inspect --format '{{{{.Digest}}}}' docker://{image}")
    if given.no_audit:
        _say("note     vulnerabilities were not looked up: --no-audit")
        return WRONG if wrong else 0
    audited = audit(root, given.pip_audit)
    return WRONG if wrong else audited


def check_lock(root: Path) -> Iterator[str]:
    """What is wrong with the locked packages."""
    text = (root / LOCK).read_text(encoding="utf-8")
    if named := _URL.search(text):
        yield f"{LOCK} names where packages come from: {named[0]}"
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry.strip() and not entry.startswith("#")]
    locked = {}
    for entry in entries:
        pin = _PIN.match(entry)
        if pin is None:
            yield f"{LOCK}: {entry.splitlines()[0]!r} is not pinned to one version"
            continue
        locked[pin["name"].lower(), (pin["marker"] or "").strip()] = pin["version"]
        if "--hash=sha256:" not in entry:
            yield f"{LOCK}: {pin['name']} has no hash"
    for line in (root / CONSTRAINTS).read_text(encoding="utf-8").splitlines():
        if (pin := _PIN.match(line)) is None:
            continue
        there = locked.get((pin["name"].lower(), (pin["marker"] or "").strip()))
        if there != pin["version"]:
            yield f"{CONSTRAINTS} has {pin['name']} {pin['version']}, {LOCK} has {there or 'none'}; run `make lock`"


def check_web(root: Path) -> Iterator[str]:
    """What is wrong with the locked packages of the dashboard."""
    packages = json.loads((root / WEB).read_text(encoding="utf-8"))["packages"]
    for name, package in packages.items():
        if name and not package.get("link") and not package.get("integrity"):
            yield f"{WEB}: {name} has no hash"


def images_by_tag(root: Path) -> Iterator[str]:
    """Images of others in the deploy files that are named by a tag, which can come to mean another image."""
    for path in sorted((root / "deploy").rglob("*")):
        if path.suffix not in (".yml", ".yaml", ".Dockerfile") or "templates" in path.parts:
            continue
        for line in path.read_text(encoding="utf-8").splitlines():
            if (found := _IMAGE_LINE.match(line)) is None:
                continue
            default = _DEFAULT.match(found["image"])
            image = default["image"] if default else found["image"]
            if not image.startswith((_OWN_IMAGE, "{", "$")) and "@sha256:" not in image:
                yield image


def audit(root: Path, program: str) -> int:
    """Look every locked package up in the database of vulnerabilities; the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "audit.json"
        command = [
            program,
            "--requirement",
            str(root / LOCK),
            "--require-hashes",
            "--disable-pip",
            "--format",
            "json",
            "--output",
            str(out),
            "--progress-spinner",
            "off",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as problem:
            _say(f"audit    not done: {program} cannot be started: {problem.strerror}")
            return NOT_AUDITED
        try:
            packages = json.loads(out.read_text(encoding="utf-8"))["dependencies"]
        except (OSError, ValueError, KeyError, TypeError):
            said = [line for line in done.stderr.splitlines() if line.strip()]
            _say(f"audit    NOT DONE, so nothing is known of vulnerabilities: {said[-1] if said else 'no answer'}")
            return NOT_AUDITED
    return _told(packages)


def _told(packages: list[dict[str, object]]) -> int:
    found = 0
    for package in packages:
        for one in package.get("vulns") or []:  # type: ignore[attr-defined]
            found += 1
            fixed = ", ".join(one.get("fix_versions") or []) or "no version"
            _say(f"wrong    {package['name']} {package.get('version')}: {one['id']}, fixed in {fixed}")
    skipped = [package for package in packages if package.get("skip_reason")]
    _say(
        f"audit    {len(packages) - len(skipped)} of {len(packages)} packages looked up, {found} known vulnerabilities"
    )
    if skipped:
        names = ", ".join(str(package["name"]) for package in skipped[:_SHOWN])
        more = f" and {len(skipped) - _SHOWN} more" if len(skipped) > _SHOWN else ""
        _say(f"audit    NOT DONE for {names}{more}, so nothing is known of these: {skipped[0]['skip_reason']}")
    if found:
        return WRONG
    return NOT_AUDITED if skipped or not packages else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=Path, default=Path(__file__).parents[1], help="the tree to check")
    parser.add_argument("--pip-audit", default="pip-audit", help="the program pip-audit")
    parser.add_argument("--no-audit", action="store_true", help="look no vulnerability up")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
