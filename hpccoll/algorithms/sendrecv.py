"""Sendrecv: every rank has the vector of the one left of it, and all links are busy both ways.

What it reaches is what a collective can reach at most: compare its bus bandwidth with theirs.
"""

from hpccoll.registry import algorithm
from hpccoll.schedule import Recv, Round, Rounds, Send


@algorithm("sendrecv", rounds="1*(p>1)", messages="1*(p>1)", sent="n*(p>1)")
def shift(rank: int, size: int) -> Rounds:
    """Send the vector to the right while the one from the left comes in.

    References
    ----------
    Hockney, Parallel Computing 20(3), 1994, doi:10.1016/S0167-8191(06)80021-9.
    """
    if size > 1:
        right, left = (rank + 1) % size, (rank - 1) % size
        yield Round(Send(right, _vector(rank, size)), Recv(left, _vector(left, size)))


def _vector(rank: int, size: int) -> range:
    return range(rank * size, (rank + 1) * size)
