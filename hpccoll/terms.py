"""The values of a symbolic execution: trees of reductions."""


class Terms:
    """Values of an execution: hash-consed trees of reductions, named by small integers.

    `mask` has a bit for every rank whose input is in the value; `low` and `high` are the first and
    last of these ranks if they are contiguous and were reduced in rank order (else `low` is -1).
    Values with the same `bits` are equal to the bit if ``a op b`` equals ``b op a``. `operands` are
    the left and the right one, which are older values, or of an input -1 and its rank. `depth` is
    the number of reductions on the longest way from an input to the value.
    """

    def __init__(self) -> None:
        self.operands: list[tuple[int, int]] = []
        self.depth: list[int] = []
        self.mask: list[int] = []
        self.low: list[int] = []
        self.high: list[int] = []
        self.bits: list[int] = []
        self._known: dict[tuple[int, int], int] = {}
        self._same: dict[tuple[int, int], int] = {}

    def leaf(self, rank: int) -> int:
        """Return the input of `rank`."""
        return self._enter((-1, rank), 1 << rank, rank, rank, (-1, rank))

    def reduce(self, left: int, right: int) -> int:
        """Return ``left op right``; the two must not share a rank."""
        key = (left, right)
        if (known := self._known.get(key)) is not None:
            return known
        ordered = self.low[left] >= 0 and self.low[right] == self.high[left] + 1
        low = self.low[left] if ordered else -1
        pair = sorted((self.bits[left], self.bits[right]))
        mask = self.mask[left] | self.mask[right]
        return self._enter(key, mask, low, self.high[right], (pair[0], pair[1]))

    def _enter(
        self, key: tuple[int, int], mask: int, low: int, high: int, same: tuple[int, int]
    ) -> int:
        if (known := self._known.get(key)) is not None:
            return known
        term = self._known[key] = len(self.mask)
        left, right = key
        self.operands.append(key)
        self.depth.append(0 if left < 0 else 1 + max(self.depth[left], self.depth[right]))
        self.mask.append(mask)
        self.low.append(low)
        self.high.append(high)
        self.bits.append(self._same.setdefault(same, term))
        return term
