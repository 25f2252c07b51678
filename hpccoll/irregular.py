"""Irregular sizes: how a vector is divided among the ranks where not all get the same."""

from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from random import Random

from hpccoll.collectives import Collective
from hpccoll.errors import UsageError, unknown

PATTERNS = ("equal", "linear", "random[:SEED]", "one-empty", "one-huge", "a file of shares")
HUGE = 9
"""The huge block has as many times the elements of all others together."""


@dataclass(frozen=True, slots=True)
class Shares:
    """Which part of a vector each rank has.

    Attributes
    ----------
    pattern
        As it was given; ``equal`` cuts the vector as evenly as can be.
    given
        The shares of a file.
    """

    pattern: str = "equal"
    given: tuple[int, ...] = ()

    @property
    def regular(self) -> bool:
        """Tell whether the vector is cut as usual."""
        return self.pattern == "equal"

    def check(self, size: int) -> None:
        """Raise `UsageError` if `size` ranks can't be called with these."""
        if self.given and len(self.given) != size:
            raise UsageError(
                f"--counts {self.pattern} has {len(self.given)} shares, for {size} ranks; "
                "give one per rank"
            )

    def shares(self, size: int) -> tuple[int, ...]:
        """Return the ranks' shares, whole numbers that are not all 0."""
        middle, name = size // 2, self.pattern.partition(":")[0]
        if self.given:
            return self.given
        if name == "linear":
            return tuple(range(1, size + 1))
        if name == "random":
            random = Random(int(self.pattern.partition(":")[2] or 0))
            return tuple(random.randint(1, 100) for _ in range(size))
        if name == "one-empty":
            return tuple(int(rank != middle or size == 1) for rank in range(size))
        if name == "one-huge":
            huge = max(1, HUGE * (size - 1))
            return tuple(huge if rank == middle else 1 for rank in range(size))
        return (1,) * size

    def counts(self, collective: Collective, count: int, size: int) -> tuple[int, ...] | None:
        """Return the elements of every natural block, None where they are cut as usual.

        Every vector of an alltoall is divided alike.
        """
        if self.regular:
            return None
        shares = self.shares(size)
        borders = [count * s // sum(shares) for s in accumulate(shares, initial=0)]
        one = tuple(b - a for a, b in pairwise(borders))
        return one * collective.vectors(size)


def parse(text: str, of: Collective) -> Shares:
    """Return the shares that ``--counts`` spells.

    Raises
    ------
    UsageError
        There is no such pattern or file, or the collective has no irregular form.
    """
    name, _, seed = text.partition(":")
    if text == "equal":
        return Shares()
    if not of.irregular:
        raise UsageError(f"{of.name} has no blocks that belong to ranks; leave out --counts")
    if text in ("linear", "one-empty", "one-huge"):
        return Shares(text)
    if name == "random" and (seed.isdecimal() or text == "random"):
        return Shares(text)
    if not Path(text).is_file():
        raise UsageError(unknown("pattern of counts", text, PATTERNS))
    words = Path(text).read_text(errors="replace").split()
    if not words or not all(word.isdecimal() for word in words) or not any(map(int, words)):
        raise UsageError(
            f"--counts {text} must have whole numbers, one share per rank, not all of them 0"
        )
    return Shares(text, tuple(map(int, words)))
