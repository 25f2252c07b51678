"""The straggler: which rank is the last, how often, and by how much."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

import numpy as np

from hpccoll.datatypes import Array

LEVEL = 0.01
"""How often, at most, chance alone names a straggler."""


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

    It is chance if ranks that are equally often the last would make one of them, whichever, the
    last so often with a probability above `LEVEL`: the more ranks, the more often one stands out.

    Parameters
    ----------
    calls
        Per call the seconds of every rank.

    References
    ----------
    Hoeffding, J. Am. Stat. Assoc. 58(301), 1963, doi:10.1080/01621459.1963.10500830, theorem 1:
    the bound of the probability for one rank.
    """
    if not calls or len(hosts) < 2:
        return None
    times = np.array(calls)
    last = times.argmax(1)
    rank = int(np.bincount(last, minlength=len(hosts)).argmax())
    share, chance = float((last == rank).mean()), 1 / len(hosts)
    entropy = share * log(share / chance)
    if share < 1:
        entropy += (1 - share) * log((1 - share) / (1 - chance))
    if len(hosts) * exp(-len(last) * entropy) > LEVEL:
        return None
    its = np.sort(times[last == rank], axis=1)
    behind = float(np.median(its[:, -1] - its[:, -2]))
    return Straggler(rank, hosts[rank], share, behind)
