"""Barrier: no rank leaves before all have come. Messages are signals, which name no block."""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send


@algorithm("barrier", rounds="L", sent="0")
def dissemination(rank: int, size: int) -> Rounds:
    """Signal the rank 2**k further on every round.

    References
    ----------
    Hensgen, Finkel, Manber, International Journal of Parallel Programming 17(1), 1988,
    doi:10.1007/BF01379320.
    """
    distance = 1
    while distance < size:
        yield Round(Send((rank + distance) % size), Recv((rank - distance) % size))
        distance *= 2
