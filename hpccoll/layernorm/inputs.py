"""Partial rows of every rank that tell wrong orders of operations from right ones.

No single input tells them all, so there are several; each is drawn from one seed, and any rank can
make any other's part. Values are rounded to the storage type when they are made: errors are counted
from there on.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpccoll.datatypes import SIGNIFICAND, Array
from hpccoll.errors import UsageError, unknown

INPUTS = {
    "iid": "normal values, drawn for every rank by itself",
    "replicated": "the same normal values on every rank",
    "scaled": "normal values, scaled from 1 on rank 0 to 64 on the last in equal ratios",
    "cancelling": "rank 0 has the negative sum of the others, and a small rest",
    "outliers": "normal values with a few channels 300 times as large, the same on all ranks",
    "large-mean": "normal values around 100",
    "tiny-variance": "normal values of variance 1e-6",
    "constant": "rows of one value each, another on every rank",
    "integers": "integers so small that every sum of all ranks is exact in the storage type",
}
"""What the inputs are, by name."""

LARGEST_SCALE = 64.0
REST = 0.04
"""Standard deviation of what remains of the cancelling parts."""
OUTLIER = 300.0
OUTLIER_CHANNELS = 4
MEAN = 100.0
TINY = 1e-3
BIAS = 0.02
"""The bias, relative to the residual: to the rms of its deviations from its mean."""
LARGEST_INTEGER = 32

_PARTIAL, _RESIDUAL, _BIAS, _GAMMA, _BETA, _UPSTREAM, _REST, _CHANNELS = range(8)


@dataclass(frozen=True, slots=True)
class Inputs:
    """What all ranks hold before the sum, the parameters of the norm, and gradients.

    Attributes
    ----------
    tokens, hidden
        Rows T and their elements H.
    dtype
        The storage type, a float, of all arrays.
    size
        Number of ranks p.
    residual, bias
        Whether rows, or one value a channel, are added to the sum of the ranks' parts.

    Raises
    ------
    UsageError
        There is no input of that name, the shape is empty, or sums of so many integers aren't
        exact in the type.
    """

    name: str
    tokens: int
    hidden: int
    dtype: np.dtype[Any]
    size: int
    seed: int = 0
    residual: bool = False
    bias: bool = False

    def __post_init__(self) -> None:
        if self.name not in INPUTS:
            raise UsageError(unknown("input", self.name, INPUTS))
        if self.tokens < 0 or self.hidden < 1:
            raise UsageError(
                "rows need at least 0 tokens and a hidden dimension of at least 1, "
                f"got {self.tokens} and {self.hidden}"
            )
        if self.name == "integers" and self._largest_integer < 1:
            raise UsageError(
                f"sums of integers on {self.size} ranks aren't exact in {self.dtype.name}; "
                "choose another --input, or --dtype float32"
            )

    def partial(self, rank: int) -> Array:
        """Return the rank's part of the sum, shape (T, H)."""
        if self.name == "cancelling" and rank == 0:
            return self._negative_sum()
        scale = self.scales[rank]
        return self._rows(scale, _PARTIAL, 0 if self.name == "replicated" else rank)

    @property
    def additions(self) -> tuple[Array, ...]:
        """Return what is added once to the sum before the norm: the bias, then the residual."""
        return tuple(term for term in (self.bias_vector, self.residual_rows) if term is not None)

    @property
    def terms(self) -> Iterator[Array]:
        """Yield all that the norm is of: the ranks' parts in order, then the additions."""
        yield from map(self.partial, range(self.size))
        yield from self.additions

    @property
    def scales(self) -> tuple[float, ...]:
        """Return the standard deviations that the ranks' parts are drawn with."""
        if self.name != "scaled":
            return (TINY if self.name == "tiny-variance" else 1.0,) * self.size
        steps = max(1, self.size - 1)
        return tuple(LARGEST_SCALE ** (rank / steps) for rank in range(self.size))

    @property
    def residual_rows(self) -> Array | None:
        """Rows to add to the sum, as large as a rank's part, shape (T, H); None without."""
        return self._rows(self.scale, _RESIDUAL) if self.residual else None

    @property
    def bias_vector(self) -> Array | None:
        """Values to add to every row of the sum, shape (H,); None without."""
        if not self.bias:
            return None
        if self.name in ("integers", "constant"):
            row: Array = self._rows(1.0, _BIAS, tokens=1)[0]
            return row
        spread = 1.0
        if self.name == "outliers":
            spread += len(self._channels) / self.hidden * (OUTLIER**2 - 1)
        drawn = self._generator(_BIAS).standard_normal(self.hidden)
        return self._stored(BIAS * self.scale * spread**0.5 * drawn)

    @property
    def gamma(self) -> Array:
        """Factors of the norm, around 1, shape (H,)."""
        return self._stored(1 + 0.1 * self._generator(_GAMMA).standard_normal(self.hidden))

    @property
    def beta(self) -> Array:
        """Summands of the norm, around 0, shape (H,)."""
        return self._stored(0.1 * self._generator(_BETA).standard_normal(self.hidden))

    def upstream(self, rank: int) -> Array:
        """Return the rank's part of the gradient of the norm's output, shape (T, H)."""
        drawn = self._generator(_UPSTREAM, rank).standard_normal((self.tokens, self.hidden))
        return self._stored(drawn)

    @property
    def scale(self) -> float:
        """Return the root of the mean square of the scales, which the residual is drawn with."""
        return float(np.sqrt(np.mean(np.square(self.scales))))

    @property
    def _largest_integer(self) -> int:
        # The residual and the bias count as two more ranks.
        return min(LARGEST_INTEGER, (1 << SIGNIFICAND[self.dtype.name]) // (self.size + 2))

    def _generator(self, *stream: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *stream])

    def _stored(self, values: Array) -> Array:
        return values.astype(self.dtype)

    def _rows(self, scale: float, *stream: int, tokens: int | None = None) -> Array:
        """Return rows of the kind that the input is named for."""
        shape = (self.tokens if tokens is None else tokens, self.hidden)
        generator = self._generator(*stream)
        if self.name == "integers":
            largest = self._largest_integer
            return self._stored(generator.integers(-largest, largest, shape, endpoint=True))
        if self.name == "constant":
            return self._stored(np.repeat(generator.standard_normal((shape[0], 1)), shape[1], 1))
        values = generator.standard_normal(shape)
        values *= scale
        if self.name == "large-mean":
            values += MEAN
        if self.name == "outliers":
            values[:, self._channels] *= OUTLIER
        return self._stored(values)

    @property
    def _channels(self) -> Array:
        count = min(OUTLIER_CHANNELS, self.hidden)
        return self._generator(_CHANNELS).choice(self.hidden, count, replace=False)

    def _negative_sum(self) -> Array:
        total = self._generator(_REST).standard_normal((self.tokens, self.hidden))
        total *= REST
        for rank in range(1, self.size):
            total -= self.partial(rank).astype(np.float64)
        return self._stored(total)
