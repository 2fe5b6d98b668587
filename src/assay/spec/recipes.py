"""Ready-made service recipes, which a benchmark file may name and change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from pydantic import JsonValue

from assay.errors import UsageError
from assay.spec.limits import cut
from assay.spec.section import did_you_mean
from assay.spec.source import parse

_SUFFIX = ".yaml"
KEY = "recipe"


@dataclass(frozen=True, slots=True)
class Recipe:
    """One recipe."""

    name: str
    about: str
    """Its first line, for a list."""
    text: str
    """The whole file, to be copied."""

    @property
    def services(self) -> dict[str, JsonValue]:
        services = parse(self.text, _SUFFIX, f"recipe {self.name}").document["services"]
        return services if isinstance(services, dict) else {}


def recipe_names() -> tuple[str, ...]:
    folder = files("assay.spec.ready_made")
    return tuple(sorted(path.name.removesuffix(_SUFFIX) for path in folder.iterdir() if path.name.endswith(_SUFFIX)))


def find_recipe(name: str, at: str = "") -> Recipe:
    """A recipe by its name; `at` is where it is asked for."""
    names = recipe_names()
    if name not in names:
        tip = did_you_mean(name, names, f"there are {', '.join(names)}")
        raise UsageError(f"there is no recipe {cut(repr(name), 80)}", code="no-recipe", at=at, try_=tip)
    text = (files("assay.spec.ready_made") / f"{name}{_SUFFIX}").read_text(encoding="utf-8")
    about = next((line.removeprefix("#").strip() for line in text.splitlines() if line.startswith("#")), "")
    return Recipe(name, about, text)


def with_recipes(document: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """A benchmark document whose services that name a recipe are written out: the recipe, their own keys over it."""
    services = document.get("services")
    if not isinstance(services, dict) or not any(
        isinstance(service, dict) and KEY in service for service in services.values()
    ):
        return document
    return {**document, "services": {name: _whole(name, service) for name, service in services.items()}}


def _whole(name: str, section: JsonValue) -> JsonValue:
    if not isinstance(section, dict) or not isinstance(section.get(KEY), str):
        return section
    recipe = find_recipe(str(section[KEY]), at=f"services.{name}.{KEY}")
    (base,) = recipe.services.values()
    own = {key: value for key, value in section.items() if key != KEY}
    return _over(base, own) if isinstance(base, dict) else own


def _over(base: Mapping[str, JsonValue], own: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """One mapping over another: sections are merged, null takes a key away."""
    whole = dict(base)
    for key, value in own.items():
        below = whole.get(key)
        if value is None:
            whole.pop(key, None)
        elif isinstance(value, dict) and isinstance(below, dict):
            whole[key] = _over(below, value)
        else:
            whole[key] = value
    return whole
