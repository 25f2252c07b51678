"""Summation trees: in which order a schedule adds up the inputs of the ranks, block by block.

The trees are those of the symbolic execution, so they hold for any number of ranks, and an engine
that runs the schedule executes exactly them: plans decide where operands lie, never which they are.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError, VerificationError
from hpccoll.verify import execute

DRAWN_UP_TO = 32
"""Trees are written out for up to this many ranks."""


@dataclass(frozen=True, slots=True)
class Program:
    """What several blocks compute alike, each from inputs of its own.

    Attributes
    ----------
    steps
        Pairs of operands, left and right: numbers below the number of inputs are inputs, those from
        there on the results of earlier steps.
    results
        Numbers of the values that ranks hold at the end; their ranks are the block's own.
    """

    steps: tuple[tuple[int, int], ...]
    results: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Use:
    """A block that a program computes.

    Attributes
    ----------
    inputs
        The rank of each of the program's inputs.
    holders
        Of each of the program's results, the ranks that hold it.
    """

    block: int
    inputs: tuple[int, ...]
    holders: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Trees:
    """The summation trees of all results of a schedule.

    Attributes
    ----------
    operands
        Of every value its left and right operand, which are smaller numbers; of the input of a rank
        -1 and the rank.
    alike
        Values with the same number are equal to the bit if the operator is commutative.
    depths
        Of every value the operations on the longest way from an input to it.
    results
        By block: its values at the end, each with the ranks that hold it, the lowest rank's first.
    """

    choice: Choice
    size: int
    root: int
    operands: Sequence[tuple[int, int]]
    alike: Sequence[int]
    depths: Sequence[int]
    results: Sequence[dict[int, list[int]]]

    def depth(self, block: int) -> int:
        """Return the depth of a block's deepest tree."""
        return max(self.depths[value] for value in self.results[block])

    def text(self, value: int) -> str:
        """Return a tree in the order of its operands: ``((0+1)+(2+3))``."""
        words: list[str] = []
        # Chains are as deep as there are ranks: too deep for recursion.
        stack = [(value, False)]
        while stack:
            node, operands_are_written = stack.pop()
            left, right = self.operands[node]
            if left < 0:
                words.append(str(right))
            elif operands_are_written:
                second, first = words.pop(), words.pop()
                words.append(f"({first}+{second})")
            else:
                stack += [(node, True), (right, False), (left, False)]
        return words[0]

    def programs(self, commutative: bool) -> dict[Program, list[Use]]:
        """Return what has to be computed, blocks that compute alike together.

        Blocks are alike if their trees are the same but for the names of the ranks; operands keep
        their sides. Of values that a commutative operator makes equal, one is computed.
        """
        found: dict[Program, list[Use]] = defaultdict(list)
        for block, results in enumerate(self.results):
            program, use = self._compiled(block, results, commutative)
            found[program].append(use)
        return dict(found)

    def _compiled(
        self, block: int, results: dict[int, list[int]], commutative: bool
    ) -> tuple[Program, Use]:
        inputs: list[int] = []
        steps: list[tuple[int, int]] = []
        numbers: dict[int, int] = {}
        merged: dict[int, tuple[int, list[int]]] = {}
        for value, holders in results.items():
            key = self.alike[value] if commutative else value
            merged.setdefault(key, (value, []))[1].extend(holders)
        for value, _ in merged.values():
            self._compile(value, inputs, steps, numbers)
        wanted = tuple(numbers[value] for value, _ in merged.values())
        holding = tuple(tuple(sorted(ranks)) for _, ranks in merged.values())
        return Program(tuple(steps), wanted), Use(block, tuple(inputs), holding)

    def _compile(
        self,
        value: int,
        inputs: list[int],
        steps: list[tuple[int, int]],
        numbers: dict[int, int],
    ) -> None:
        """Append what a value needs, and isn't computed yet, and number it."""
        stack = [value]
        while stack:
            node = stack[-1]
            left, right = self.operands[node]
            if node in numbers:
                stack.pop()
            elif left < 0:
                numbers[node] = len(inputs)
                inputs.append(right)
            elif missing := [operand for operand in (right, left) if operand not in numbers]:
                stack += missing
            else:
                numbers[node] = self.size + len(steps)
                steps.append((numbers[left], numbers[right]))


def trees(choice: Choice, size: int, root: int = 0, ordered: bool = False) -> Trees:
    """Return the summation trees of a reduction in which all ranks contribute.

    Parameters
    ----------
    ordered
        Keep the operands in the order of the ranks (see `Choice.schedule`).

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    VerificationError
        The schedule can't be executed, or its results aren't the sums of all ranks.
    """
    execution = execute(choice, size, root, ordered=ordered)
    contract, natural = choice.algorithm.collective, choice.blocks(size)
    pieces = choice.grid(size) // natural
    results: list[dict[int, list[int]]] = [{} for _ in range(choice.grid(size))]
    for rank in range(size):
        wanted = contract.wanted(rank, size, root, natural)
        for block in range(wanted.start * pieces, wanted.stop * pieces):
            value = execution.value(rank, block)
            if value is None or execution.terms.mask[value] != (1 << size) - 1:
                raise VerificationError(
                    f"{contract.name} {choice.label} on {size} ranks is wrong: rank {rank}, block "
                    f"{block} isn't reduced over all ranks; hpccoll verify says more"
                )
            results[block].setdefault(value, []).append(rank)
    terms = execution.terms
    return Trees(choice, size, root, terms.operands, terms.bits, terms.depth, results)


def drawn(of: Trees) -> str:
    """Return all trees in words, those of several blocks or ranks together.

    Raises
    ------
    UnsupportedError
        There are too many ranks to be read.
    """
    if of.size > DRAWN_UP_TO:
        raise UnsupportedError(
            f"trees are written for up to {DRAWN_UP_TO} ranks, got {of.size}; use fewer --ranks"
        )
    places: dict[tuple[str, tuple[int, ...]], list[int]] = defaultdict(list)
    for block, results in enumerate(of.results):
        for value, ranks in results.items():
            differ = tuple(ranks) if len(results) > 1 else ()
            places[of.text(value), differ].append(block)
    entry = of.choice.algorithm
    root = f", root {of.root}" if entry.collective.rooted else ""
    size = f"{of.size} rank{'s' * (of.size > 1)}"
    lines = [f"{entry.collective.name} {of.choice.label}, {size}{root}"]
    names = [_named("block", blocks) + _on(ranks) for (_, ranks), blocks in places.items()]
    width = max(map(len, names))
    lines += [f"  {name:<{width}}  {tree}" for name, (tree, _) in zip(names, places, strict=True)]
    return "\n".join(lines)


def _on(ranks: tuple[int, ...]) -> str:
    return f" on {_named('rank', ranks)}" if ranks else ""


def _named(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'s' * (len(numbers) > 1)} {','.join(map(str, numbers))}"
