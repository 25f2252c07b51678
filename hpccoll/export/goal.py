"""A schedule in GOAL, the input of the network simulator LogGOPSim.

References
----------
Hoefler, Siebert, Lumsdaine, ICPP 2009, doi:10.1109/ICPP.2009.70; the grammar is that of the
simulator's own reader, https://github.com/spcl/LogGOPSim.
"""

from collections.abc import Callable, Iterable, Iterator
from itertools import count

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.layout import Message, natural
from hpccoll.schedule import Action, Combine, Copy, Recv, Reduce, Round, Send, ranges
from hpccoll.units import format_size
from hpccoll.verify import execute

BYTES_PER_NANOSECOND = 10
"""At this rate the file lets ranks reduce and copy; the simulator's unit is a nanosecond."""
SIGNAL_BYTES = 1
"""A message without data; the simulator charges for a message's bytes but the first."""
_LONGEST = (1 << 32) - 1


def text(choice: Choice, size: int, message: Message) -> str:
    """Return the schedules of all ranks for a message.

    Messages of a round require the end of the round before, whose reductions and copies are a
    calculation that requires its messages. A channel is a tag.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks, or a message is too long for the simulator.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    root = message.root
    execute(choice, size, root)
    entry = choice.algorithm
    where = f", root {root}" if entry.collective.rooted else ""
    size_text = format_size(message.count * message.itemsize)
    lines = [
        f"// {entry.collective.name} {choice.label}, {size_text}{where}",
        f"// reductions and copies: {BYTES_PER_NANOSECOND} bytes per nanosecond; "
        f"signals: {SIGNAL_BYTES} byte",
        f"num_ranks {size}",
    ]
    partition = natural(entry.collective, size, message).finer(choice.grid(size))

    def length(action: Action) -> int:
        return message.itemsize * sum(
            partition.border(part.stop) - partition.border(part.start)
            for part in ranges(action.blocks)
        )

    for rank in range(size):
        operations = _operations(choice.schedule(rank, size, root), length)
        lines += ["", f"rank {rank} {{", *operations, "}"]
    return "\n".join([*lines, ""])


def _operations(rounds: Iterable[Round], length: Callable[[Action], int]) -> Iterator[str]:
    """Yield one rank's operations, each followed by what it requires."""
    labels = (f"l{number}" for number in count(1))
    before: list[str] = []
    for step in rounds:
        messages: list[str] = []
        for words in _messages(step, length):
            messages.append(next(labels))
            yield from _operation(messages[-1], words, before)
        work = sum(length(a) for a in step.actions if isinstance(a, Combine | Reduce | Copy))
        ends = messages or before
        if work or len(ends) > 1:
            before, required = [next(labels)], ends
            yield from _operation(before[0], f"calc {-(-work // BYTES_PER_NANOSECOND)}", required)
        else:
            before = ends


def _operation(label: str, words: str, required: Iterable[str]) -> Iterator[str]:
    yield f"{label}: {words}"
    yield from (f"{label} requires {other}" for other in required)


def _messages(step: Round, length: Callable[[Action], int]) -> Iterator[str]:
    """Yield the messages of a round; both sides drop one whose blocks are all empty."""
    for action in step.actions:
        if not isinstance(action, Send | Recv | Combine):
            continue
        signal = not ranges(action.blocks)
        size = SIGNAL_BYTES if signal else length(action)
        if size > _LONGEST:
            raise UnsupportedError(
                f"LogGOPSim's messages have at most {_LONGEST} bytes, this has {size}; "
                "use fewer --bytes"
            )
        if size:
            ends = "send {}b to {}" if isinstance(action, Send) else "recv {}b from {}"
            yield f"{ends.format(size, action.peer)} tag {action.channel}"
