"""Arrival patterns: how late each rank comes to a call, as applications' ranks do.

References
----------
Faraj, Patarasuk, Yuan, IJPP 36, 2008, doi:10.1007/s10766-008-0076-2.
"""

import re
from dataclasses import dataclass
from random import Random

from hpccoll.errors import UsageError

NONE = "none"
_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pattern of delays.

    Attributes
    ----------
    kind
        ``none``, ``random`` (uniform), ``late`` (one rank) or ``ramp`` (each rank later than the
        one before, the last one by `seconds`).
    rank
        The late rank.
    """

    kind: str = NONE
    seconds: float = 0.0
    rank: int = 0

    def check(self, size: int) -> None:
        """Raise `UsageError` if the late rank isn't one of `size`."""
        if self.kind == "late" and self.rank >= size:
            raise UsageError(
                f"--arrival late:{self.rank} is out of range: {size} ranks are numbered 0 to "
                f"{size - 1}"
            )

    def delays(self, rank: int, size: int, count: int, seed: str) -> list[float] | None:
        """Return the delays of `rank` before `count` calls in seconds, None if there are none."""
        if self.kind == NONE:
            return None
        if self.kind == "random":
            numbers = Random(f"{seed} {rank}")
            return [numbers.uniform(0, self.seconds) for _ in range(count)]
        if self.kind == "late":
            return [self.seconds * (rank == self.rank)] * count
        return [self.seconds * rank / max(1, size - 1)] * count


def parse(text: str) -> Arrival:
    """Return the pattern that ``none``, ``random:50us``, ``late:0:1ms`` or ``ramp:100us`` spells.

    Raises
    ------
    UsageError
        It can't be read.
    """
    if text == NONE:
        return Arrival()
    found = re.fullmatch(
        r"(?:(random|ramp)|(late):(\d+)):(\d+(?:\.\d+)?)(us|ms|s)", text.replace(" ", "")
    )
    if not found:
        raise UsageError(
            f"arrival pattern {text!r} can't be read; write none, random:50us, late:RANK:1ms or "
            "ramp:100us, with times in us, ms or s"
        )
    seconds = float(found[4]) * _UNITS[found[5]]
    return Arrival(found[1] or found[2], seconds, int(found[3] or 0))
