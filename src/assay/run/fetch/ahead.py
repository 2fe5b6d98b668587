"""What a benchmark needs from elsewhere, fetched ahead with checksums: for nodes that have no network."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from assay.errors import AssayError
from assay.files import file_digest
from assay.folders import cache_folder, images_folder
from assay.plan.plan import make_plan
from assay.run.fetch.source import fetch, is_here
from assay.run.inputs import files_of, fingerprint_of
from assay.run.job_files import local_paths
from assay.run.models.sources import BUILTIN_NAMES, is_folder, resolve, whole_digest
from assay.run.services.containers import find_runtime, image_cache, runtime_for
from assay.spec.benchmark import Definition, Service
from assay.spec.load import Loaded
from assay.spec.paths import fetched_files, fetches
from assay.spec.target import CommandTarget, Fetch, ModelTarget

# Fetching a large image takes its time; a network that says nothing for hours will not say more.
_FETCH_S = 4 * 3600.0
State = Literal["fetched", "there", "missing", "failed"]
Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class PreparedItem:
    """One thing that a benchmark needs."""

    kind: Literal["image", "model", "file", "folder"]
    name: str
    """As the file says it."""
    state: State
    path: str = ""
    sha256: str = ""
    size_bytes: int | None = None
    note: str = ""


def prepare(
    loaded: Loaded, *, check: bool = False, runtime: str = "auto", notify: Notify | None = None
) -> tuple[PreparedItem, ...]:
    """Fetch everything that the jobs of a benchmark need, or only tell what is missing; one failure stops no other."""
    slurm = loaded.benchmark.place.slurm
    chosen = slurm.runtime if runtime == "auto" and slurm is not None else runtime
    items: dict[tuple[str, ...], PreparedItem] = {}
    work = _Work(loaded.base, check, chosen, notify or (lambda _: None))
    for job in make_plan(loaded, lambda _: {}).jobs:
        for key, make in work.wanted(job.definition):
            if key not in items:
                items[key] = make()
    order = ("image", "model", "file", "folder")
    return tuple(sorted(items.values(), key=lambda item: order.index(item.kind)))


@dataclass(frozen=True, slots=True)
class _Work:
    """What is done for one benchmark."""

    base: Path
    check: bool
    runtime: str
    notify: Notify

    def wanted(self, definition: Definition) -> Iterator[tuple[tuple[str, ...], Callable[[], PreparedItem]]]:
        """What a definition needs: a key that equal things share, and how to have it."""
        for service in definition.services.values():
            if service.image is not None and service.container != "none":
                yield ("image", service.container, service.image), partial(self._image, service)
            for here in service.mounts:
                yield ("folder", here), partial(self._mount, here)
        target = definition.target
        if isinstance(target, CommandTarget) and target.is_boxed:
            yield ("image", target.container, target.image or ""), partial(self._image, target)
            for here in target.mounts:
                yield ("folder", here), partial(self._mount, here)
        for owner, every in fetches(definition).items():
            for index, source in enumerate(every):
                yield ("file", source.src, source.path), partial(self._fetch, source, f"{owner}.fetch[{index}]")
        if isinstance(target, ModelTarget):
            yield ("model", target.model, target.runtime), partial(self._model, target)
        files = {name: fingerprint_of(parts) for name, parts in files_of(definition, self.base).items()}
        fetched = set(fetched_files(definition).values())
        for name in local_paths(definition):
            if name not in fetched and (not isinstance(target, ModelTarget) or name != target.model):
                yield ("file", name), partial(self._file, name, files)

    def _image(self, service: Service | CommandTarget) -> PreparedItem:
        name = service.image or ""
        item = PreparedItem("image", name, "missing")
        try:
            runtime = find_runtime(service.container if service.container != "auto" else self.runtime, "services")
            way, item = runtime_for(runtime), replace(item, note=runtime.kind)
            image = way.image(name, self.base, "services")
            if Path(image).is_dir():
                return replace(item, state="there", path=image, note=f"{runtime.kind}; a folder has no checksum")
            cached = image_cache.find(images_folder(), runtime.kind, way.reference(image))
            if cached is not None and not image_cache.is_whole(cached):
                if self.check:
                    return replace(item, path=str(cached.path), note=f"{runtime.kind}; the kept file is damaged")
                image_cache.forget(images_folder(), cached)
            elif cached is not None:
                return _kept_image(item, cached)
            if image_cache.is_file(image):
                digest = image_cache.file_digest(Path(image)).removeprefix("sha256:")
                return replace(item, state="there", path=image, sha256=digest, size_bytes=Path(image).stat().st_size)
            if self.check:
                return item
            self.notify(f"fetching the image {image} with {runtime.program}")
            return _kept_image(item, way.keep(runtime.program, image, images_folder(), _FETCH_S))
        except AssayError as problem:
            return self._failed(item, problem)

    def _failed(self, item: PreparedItem, problem: AssayError) -> PreparedItem:
        return replace(item, state="missing" if self.check else "failed", note=problem.problem.message)

    def _fetch(self, wanted: Fetch, at: str) -> PreparedItem:
        from assay.run.models.download import shown

        item = PreparedItem("file", wanted.src if wanted.is_local else shown(wanted.src), "missing")
        here = is_here(wanted, self.base, cache_folder())
        if self.check and not here:
            return item
        try:
            if not here:
                self.notify(f"fetching {item.name}")
            fetched = fetch(wanted, at, self.base, cache_folder())
        except AssayError as problem:
            return self._failed(item, problem)
        size = sum(file.size_bytes or 0 for file in fetched)
        note = fetched[0].note if len(fetched) == 1 else f"{len(fetched)} files"
        return replace(
            item,
            state="there" if here else "fetched",
            path=str(fetched[0].here),
            size_bytes=size,
            sha256=fetched[0].sha256 if len(fetched) == 1 else "",
            note=note,
        )

    def _model(self, target: ModelTarget) -> PreparedItem:
        item = PreparedItem("model", target.model, "missing")
        here = self._has_model(target)
        if self.check and not here:
            return item
        try:
            if not here:
                self.notify(f"fetching the model {target.model}")
            model = resolve(target, self.base, cache=cache_folder())
        except AssayError as problem:
            return self._failed(item, problem)
        return replace(
            item,
            state="there" if here else "fetched",
            path=str(model.path),
            sha256=model.sha256,
            size_bytes=model.size_bytes,
            note=model.note,
        )

    def _has_model(self, target: ModelTarget) -> bool:
        """Whether a model is available without a network."""
        if is_folder(target, self.base):
            from assay.run.models.folder import find_folder, is_in_hub_cache

            return find_folder(target.model, self.base) is not None or is_in_hub_cache(target, self.base)
        if "://" in target.model:
            from assay.run.models.download import Fetcher

            fetcher = Fetcher(cache_folder() / "models" / "urls", target.headers, target.max_size)
            return fetcher.known(target.model, target.sha256) is not None
        return target.model in BUILTIN_NAMES or (self.base / Path(target.model).expanduser()).exists()

    def _file(self, name: str, digests: Mapping[str, str]) -> PreparedItem:
        path = (self.base / Path(name).expanduser()).absolute()
        item = PreparedItem("file", name, "missing", path=str(path))
        if not path.exists():
            return item
        return replace(item, state="there", sha256=digests.get(name, ""), size_bytes=_files_in(path)[1])

    def _mount(self, name: str) -> PreparedItem:
        path = (self.base / Path(name).expanduser()).absolute()
        item = PreparedItem("folder", name, "missing", path=str(path))
        if not path.exists():
            return item
        files, size = _files_in(path)
        note = f"{len(files)} files" if path.is_dir() else ""
        # A look tells that it is there; its checksum is worth reading all of it only when it is prepared.
        parts = [] if self.check else [(file_digest(file), str(file.relative_to(path.parent))) for file in files]
        return replace(item, state="there", sha256=whole_digest(parts) if parts else "", size_bytes=size, note=note)


def _files_in(path: Path) -> tuple[list[Path], int]:
    files = [path] if path.is_file() else sorted(entry for entry in path.rglob("*") if entry.is_file())
    return files, sum(file.stat().st_size for file in files)


def _kept_image(item: PreparedItem, image: image_cache.Image) -> PreparedItem:
    digest = image.facts.get("image_digest", "")
    note = f"{image.runtime}; {digest} in its registry" if digest else image.runtime
    return replace(
        item,
        state="fetched" if image.fresh else "there",
        path=str(image.path),
        sha256=image.sha256,
        size_bytes=image.size_bytes,
        note=note,
    )
