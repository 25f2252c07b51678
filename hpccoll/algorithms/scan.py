"""Scan and exclusive scan: rank r ends with the vectors of the ranks up to r, or before r."""

from hpccoll.registry import algorithm
from hpccoll.schedule import LEFT, Combine, Round, Rounds, Send


@algorithm("scan", blocks=1, rounds="L", messages="L", sent="n*L", reduced="n*L")
def recursive_doubling(rank: int, size: int) -> Rounds:
    """Double the number of ranks that a partial result covers every round.

    References
    ----------
    Hillis, Steele, CACM 29(12), 1986, doi:10.1145/7902.7903.
    """
    distance = 1
    while distance < size:
        actions: list[Send | Combine] = []
        if rank + distance < size:
            actions.append(Send(rank + distance, 0))
        if rank >= distance:
            actions.append(Combine(rank - distance, 0, LEFT))
        yield Round(*actions)
        distance *= 2
