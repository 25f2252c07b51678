"""Memory in which orders take turns: only one of them runs at a time."""

from typing import Any

import numpy as np

from hpccoll.datatypes import Array
from hpccoll.scratch import ALIGNMENT


class Workspace:
    """Arrays for one order after the other, out of one pool.

    Parameters
    ----------
    size
        Bytes of the pool. Without one every array has memory of its own, whose pages the system
        gives it when they are first touched: so an order can be bound only to see what it needs.

    Attributes
    ----------
    used
        Bytes that the current order has taken, each array rounded up to where the next may begin.
    """

    def __init__(self, size: int | None = None) -> None:
        self._pool = None if size is None else np.full(size, 0, np.uint8)
        self.used = 0

    def begin(self) -> None:
        """Give the pool to the next order."""
        self.used = 0

    def array(self, shape: int | tuple[int, ...], of: np.dtype[Any]) -> Array:
        """Return an array; what it holds is left from other orders."""
        size = int(np.prod(shape)) * of.itemsize
        begin, self.used = self.used, self.used + -(-size // ALIGNMENT) * ALIGNMENT
        if self._pool is None:
            return np.zeros(shape, of)
        return self._pool[begin : begin + size].view(of).reshape(shape)
