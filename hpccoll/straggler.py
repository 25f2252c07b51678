"""The straggler: which rank is the last, how often, and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from hpccoll.datatypes import Array


@dataclass(frozen=True, slots=True)
class Straggler:
    """The rank that was the last in most calls.

    Attributes
    ----------
    share
        The part of the calls in which it was the last.
    behind
        Median, over those calls, of the seconds between it and the rank before it.
    """

    rank: int
    host: str
    share: float
    behind: float


def straggler(calls: Sequence[Array], hosts: Sequence[str]) -> Straggler | None:
    """Return the straggler, or None with one rank, without calls, or where it is just chance.

    A rank is a straggler if it is the last more often, by three standard deviations, than if every
    rank were the last equally often.

    Parameters
    ----------
    calls
        Per call the seconds of every rank.
    """
    if not calls or len(hosts) < 2:
        return None
    times = np.array(calls)
    last = times.argmax(1)
    rank = int(np.bincount(last, minlength=len(hosts)).argmax())
    chance = 1 / len(hosts)
    deviation = sqrt(chance * (1 - chance) / len(last))
    if (last == rank).mean() < chance + 3 * deviation:
        return None
    its = np.sort(times[last == rank], axis=1)
    behind = float(np.median(its[:, -1] - its[:, -2]))
    return Straggler(rank, hosts[rank], float((last == rank).mean()), behind)
