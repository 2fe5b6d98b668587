"""Passes over arrays and matrix products with numpy, each with a check of what it left behind."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from assay.hardware.bench import accuracy
from assay.hardware.bench.records import Accuracy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# Arrays that one pass reads or writes, as STREAM counts them. The line that a write first fetches is not counted.
ARRAYS = {"copy": 2, "read": 1, "write": 1, "triad": 3}
# Which of the arrays a, b and c there are at all.
USED = {"copy": "ab", "read": "b", "write": "a", "triad": "abc"}
SCALAR = 0.41421356
_TILE = 2**17  # numbers: random ones are made once and laid out again and again, which memory cannot tell
_LOOKED_AT = 32  # pieces of so many numbers that are compared
_ROUNDING = 1e-9
_APART = 128  # numbers: arrays that begin at the same place of a page hinder each other
_TYPES = {"fp32": "float32", "fp64": "float64"}


class Work(Protocol):
    """Something that a worker does again and again."""

    def call(self) -> object: ...

    def bare(self) -> Callable[[], object]:
        """The same as one plain call of the library."""
        ...

    def check(self) -> Accuracy:
        """Compare what the last call left with what it must be."""
        ...


class MemoryWork:
    """Passes over arrays of doubles that this process alone uses and was the first to touch."""

    def __init__(self, kernel: str, size: int, block: int, seed: int) -> None:
        import numpy as np

        self._kernel = kernel
        count = max(size // 8, 1)
        self._tile: NDArray[np.float64] = np.random.default_rng(seed).uniform(0.5, 1.5, min(_TILE, count))
        made: dict[str, Any] = {name: self._laid_out(count, "abc".index(name)) for name in USED[kernel]}
        self._a: Any = made.get("a")
        self._b: Any = made.get("b")
        self._c: Any = made.get("c")
        self._blocks = self._triad_blocks(max(block // 8, 1)) if kernel == "triad" else []
        self._fill = 0.5
        self._total = 0.0
        passes: dict[str, Callable[[], object]] = {
            "copy": self._copy,
            "read": self._read,
            "write": self._write,
            "triad": self._triad,
        }
        self.call = passes[kernel]

    def bare(self) -> Callable[[], object]:
        """One plain call of numpy; the triad has none, as numpy cannot scale and add in one pass."""
        import numpy as np

        a, b = self._a, self._b
        if self._kernel != "copy":
            raise NotImplementedError(f"no bare loop is kept for {self._kernel}")
        return lambda: np.copyto(a, b)

    def check(self) -> Accuracy:
        """Compare the arrays after the last pass with what it must have left."""
        import numpy as np

        if self._kernel == "read":
            whole, rest = divmod(self._b.size, self._tile.size)
            expected = whole * math.fsum(self._tile) + math.fsum(self._tile[:rest])
            return Accuracy(abs(self._total / expected - 1), _ROUNDING)
        worst = 0.0
        # In pieces, since further whole arrays may not fit, and in some of them: the clock stands, but not the user's.
        for start in range(0, self._a.size, _TILE * max(1, self._a.size // _TILE // _LOOKED_AT)):
            cut = slice(start, start + _TILE)
            wanted = {"write": lambda _: self._fill, "copy": lambda cut: self._b[cut], "triad": self._summed}
            worst = max(worst, float(np.abs(self._a[cut] / wanted[self._kernel](cut) - 1).max()))
        return Accuracy(worst, _ROUNDING)

    def _summed(self, cut: slice) -> Any:  # noqa: ANN401  (an array)
        return self._b[cut] + SCALAR * self._c[cut]

    def _laid_out(self, count: int, place: int) -> NDArray[np.float64]:
        """An array that this process touches first, filled with random numbers that no other array has there."""
        import numpy as np

        array: NDArray[np.float64] = np.empty(count + place * _APART)[place * _APART :]
        tile = self._tile if place == 1 else np.roll(self._tile, place + 1)
        for start in range(0, count, tile.size):
            part = array[start : start + tile.size]
            part[:] = tile[: part.size]
        return array

    def _triad_blocks(self, block: int) -> list[tuple[Any, Any, Any]]:
        """Pieces small enough that the product of one is still in the cache when the sum comes.

        numpy needs two calls for a = b + s·c. Over whole arrays the second would fetch `a` from memory again, which
        is traffic that STREAM's triad does not have; over pieces in the cache it is not.
        """
        cuts = [slice(start, start + block) for start in range(0, self._a.size, block)]
        return [(self._a[cut], self._b[cut], self._c[cut]) for cut in cuts]

    def _copy(self) -> None:
        import numpy as np

        np.copyto(self._a, self._b)

    def _read(self) -> None:
        self._total = float(self._b.sum())

    def _write(self) -> None:
        self._fill = 1.5 - self._fill  # another number each time: nobody can skip the pass
        self._a.fill(self._fill)

    def _triad(self) -> None:
        import numpy as np

        for a, b, c in self._blocks:
            np.multiply(c, SCALAR, out=a)
            np.add(a, b, out=a)


class GemmWork:
    """Products of square matrices, of several sets in turn so that operands come from memory."""

    def __init__(self, precision: str, n: int, sets: int, seed: int) -> None:
        import numpy as np

        self._precision, self._n, self._seed = precision, n, seed
        draw = np.random.default_rng([seed, n])
        kind = np.dtype(_TYPES[precision])
        scale = n**-0.25  # the entries of the product are then about 1
        self._sets = [tuple(self._matrix(draw, n, kind, scale) for _ in range(3)) for _ in range(sets)]
        self._next = 0

    @staticmethod
    def _matrix(draw: np.random.Generator, n: int, kind: np.dtype[Any], scale: float) -> NDArray[Any]:
        made = draw.standard_normal((n, n), dtype=kind.type)
        made *= kind.type(scale)
        return made

    def call(self) -> None:
        """Multiply the next set."""
        import numpy as np

        a, b, c = self._sets[self._next]
        np.matmul(a, b, out=c)
        self._next = (self._next + 1) % len(self._sets)

    def bare(self) -> Callable[[], object]:
        """One plain call of numpy on one set."""
        import numpy as np

        a, b, c = self._sets[0]
        return lambda: np.matmul(a, b, out=c)

    def check(self) -> Accuracy:
        """Compare some rows and columns of the last product with a reference."""
        import numpy as np

        a, b, c = self._sets[self._next - 1]
        rows, columns = accuracy.lines(self._n, self._precision, self._seed)
        expected = accuracy.reference(a[rows], b[:, columns], self._precision)
        return accuracy.compare(c[np.ix_(rows, columns)], expected, self._precision)
