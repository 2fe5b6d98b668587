"""`assay device`: measure the hardware itself, see what can be measured, and who holds it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from assay.cli.options import FailOn, Format, JsonOption, StoreOption, Verbs
from assay.cli.output import say, say_json, say_table
from assay.cli.run import end

app = Verbs(help="Measure the hardware itself: memory bandwidth, arithmetic by precision, storage.")


@app.command("bench")
def bench(
    device: Annotated[str, typer.Option("--device", help="cpu, cuda, cuda:1, mps.")] = "cpu",
    tests: Annotated[
        list[str] | None, typer.Option("--tests", metavar="TEST,TEST…", help="Which tests; all by default.")
    ] = None,
    each: Annotated[str, typer.Option("--each", help="Time for each size of each test.")] = "0.5s",
    runs: Annotated[int, typer.Option("--runs", min=1, max=100, help="Fresh processes.")] = 3,
    sizes: Annotated[
        list[str] | None, typer.Option("--sizes", metavar="SIZE,SIZE…", help="Of memory tests, such as 256MiB.")
    ] = None,
    shapes: Annotated[
        list[str] | None, typer.Option("--shapes", metavar="N,N…", help="Sides of the matrices, such as 4096.")
    ] = None,
    threads: Annotated[int | None, typer.Option("--threads", min=1, help="Most cores, for cpu.")] = None,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where the storage test makes its file, for cpu.")
    ] = None,
    bare: Annotated[bool, typer.Option("--bare", help="Also time a bare loop of the library, in turn.")] = False,
    json_: JsonOption = False,
    fail_on: Annotated[FailOn, typer.Option("--fail-on", help="Which verdict gives exit code 1.")] = FailOn.invalid,
    store: StoreOption = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress.")] = False,
) -> None:
    """Measure a device and print one line per test; the result is kept like that of any benchmark."""
    from assay.api.run import run as run_benchmark
    from assay.report.live import view_for
    from assay.spec.load import load

    target: dict[str, Any] = {"device": device, "tests": _words(tests), "each": each, "compare": bare}
    target |= {"sizes": _words(sizes), "shapes": _numbers(shapes)}
    target |= {"threads": threads} if threads is not None else {}
    target |= {"folder": str(folder.absolute())} if folder is not None else {}
    document = {"benchmark": f"device {device}", "target": target, "measure": {"runs": runs}}
    form = Format.json if json_ else Format.text
    view = view_for(text=not json_, quiet=quiet)
    # Somebody who asks for a measurement wants one, not the rest of one that was interrupted.
    end(run_benchmark(load(document), store=store, fresh=True, view=view), form, fail_on)


@app.command("list")
def list_(json_: JsonOption = False) -> None:
    """List the devices of this machine, and what they can be measured with."""
    rows = [{"device": name, "name": what, "by": by} for name, what, by in _devices()]
    if json_:
        say_json(rows)
        return
    table = [(row["device"], row["name"], row["by"]) for row in rows]
    say_table(("device", "name", "measured by"), table, "", flexible="measured by")


@app.command("locks")
def locks(json_: JsonOption = False) -> None:
    """Show who measures on which device now."""
    from assay.hardware.fitness.lock import holders

    found = holders()
    if json_:
        say_json([holder.record() for holder in found])
        return
    say("\n".join(f"{holder.device}: {holder.sentence()}" for holder in found) or "nobody holds a device")


def _devices() -> list[tuple[str, str, str]]:
    """Device, what it is, and what measures it, or why nothing does."""
    import numpy as np

    from assay.hardware.bench.sizes import usable_cpus
    from assay.hardware.gpu.detect import local_gpus
    from assay.hardware.machine import cpu_model
    from assay.run.torch_devices import available_devices

    cores = len(usable_cpus())
    found = [("cpu", f"{cpu_model()}, {cores} core{'' if cores == 1 else 's'}", f"numpy {np.__version__}")]
    by_torch = available_devices()
    number = 0
    for gpu in local_gpus().gpus:
        kind = {"nvidia": "cuda", "amd": "cuda", "apple": "mps"}.get(gpu.vendor)
        name = "-" if kind is None else kind if kind == "mps" else f"{kind}:{number}"
        number += kind == "cuda"
        by = by_torch.get(kind or "")
        why = "nothing: PyTorch is not installed" if not by_torch else "nothing: PyTorch does not reach it"
        found.append((name, gpu.name, by or why))
    return found


def _words(given: list[str] | None) -> list[str]:
    return [word.strip() for text in given or () for word in text.split(",") if word.strip()]


def _numbers(given: list[str] | None) -> list[int]:
    from assay.errors import UsageError

    try:
        return [int(word) for word in _words(given)]
    except ValueError as problem:
        raise UsageError(f"--shapes: {problem}", code="shapes", try_="write --shapes 1024,4096") from None
