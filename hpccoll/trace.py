"""What is seen of a schedule's execution: its messages by step, and what every rank then holds.

A step is a place on the critical path: messages that complete at the same time, if all take
equally long, have the same step. Pictures and exports read traces.
"""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from hpccoll.choice import Choice
from hpccoll.schedule import DATA, RIGHT, Combine, Message, Ranges, ranges
from hpccoll.symbolic import Counts, Execution
from hpccoll.verify import execute

COPIED = "→"
"""Kind of a message that its target stores."""
LEFT_OF_OWN = "→+"
"""Kind of a message that its target reduces; the received operand stands left of its own."""
RIGHT_OF_OWN = "+←"
"""Kind of a message that its target reduces; the received operand stands right of its own."""

FINISHED = -1
"""Stands for the number of inputs in a block that has just those that the contract asks for."""


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message; `kind` tells what its target does with it.

    Attributes
    ----------
    scratch
        The scratch buffer that it is received into, 0 for the collective's data.
    """

    source: int
    target: int
    kind: str
    blocks: Ranges
    scratch: int
    channel: int


@dataclass(slots=True)
class Trace:
    """What was seen of an execution.

    Attributes
    ----------
    grid
        Number of blocks that the schedule names.
    states
        Whether `inputs` was recorded.
    arrows
        Messages by step.
    inputs
        By step and rank, if a round of the rank ended at that step (0: the start): the number of
        inputs in each of the rank's blocks, 0 if it doesn't have the block, or `FINISHED`. Where no
        data move: for each rank, whether this one may know that it has come.
    ends
        By rank: the step at which each of its rounds ended.
    counts
        What it cost.
    """

    choice: Choice
    size: int
    root: int
    grid: int
    states: bool
    arrows: dict[int, list[Arrow]] = field(default_factory=lambda: defaultdict(list))
    inputs: dict[tuple[int, int], tuple[int, ...]] = field(default_factory=dict)
    ends: list[list[int]] = field(default_factory=list)
    counts: Counts | None = None
    _finished: dict[int, tuple[int, ...]] = field(default_factory=dict)

    @property
    def cells(self) -> int:
        """Return the length of `inputs`."""
        return self.grid if self.choice.algorithm.collective.moves_data else self.size

    @property
    def steps(self) -> int:
        """Return the number of steps."""
        return max(self.arrows, default=0)

    def delivered(self, step: int, source: int, target: int, receive: Message) -> None:
        """Record a message (see `hpccoll.symbolic.Watcher`)."""
        kind = COPIED
        if isinstance(receive, Combine):
            ordered = not self.choice.algorithm.commutative
            kind = RIGHT_OF_OWN if ordered and receive.side == RIGHT else LEFT_OF_OWN
        blocks, scratch = ranges(receive.blocks), receive.buffer - DATA
        self.arrows[step].append(Arrow(source, target, kind, blocks, scratch, receive.channel))

    def finished(self, step: int, rank: int, execution: Execution) -> None:
        """Record the end of a round (see `hpccoll.symbolic.Watcher`)."""
        if rank == len(self.ends):  # the start, before any round
            self.ends.append([])
        else:
            self.ends[rank].append(step)
        if self.states:
            self.inputs[step, rank] = tuple(self._seen(rank, execution))

    def _seen(self, rank: int, execution: Execution) -> Iterator[int]:
        if not self.choice.algorithm.collective.moves_data:
            past = execution.ranks[rank].past
            yield from (FINISHED if past >> other & 1 else 0 for other in range(self.size))
            return
        mask = execution.terms.mask
        for block, finished in enumerate(self._masks(rank)):
            value = execution.value(rank, block)
            if value is None:
                yield 0
            else:
                yield FINISHED if mask[value] == finished else mask[value].bit_count()

    def _masks(self, rank: int) -> tuple[int, ...]:
        """Return the ranks whose input each block has when it is finished on `rank`, as bits."""
        if rank not in self._finished:
            entry = self.choice.algorithm
            natural = self.choice.blocks(self.size)
            pieces = self.grid // natural
            sources = (
                entry.collective.sources(rank, self.size, self.root, block, natural)
                for block in range(natural)
            )
            masks = [(1 << ranks.stop) - (1 << ranks.start) for ranks in sources]
            self._finished[rank] = tuple(mask for mask in masks for _ in range(pieces))
        return self._finished[rank]


def watch(choice: Choice, size: int, root: int = 0, states: bool = True) -> Trace:
    """Execute the schedules of all ranks and return what was seen.

    Parameters
    ----------
    states
        Record what every rank holds after each of its rounds.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    choice.check(size)
    trace = Trace(choice, size, root, choice.grid(size), states)
    trace.counts = execute(choice, size, root, trace).counts
    for arrows in trace.arrows.values():
        arrows.sort(key=lambda a: (min(a.source, a.target), max(a.source, a.target), a.source))
    return trace
