"""What the measuring loop needs of an engine: a call that is ready to be made."""

from collections.abc import Sequence
from typing import Protocol

from hpccoll.layout import SPACES
from hpccoll.plan import Plan, PostRecv, PostSend, Wait


class Call(Protocol):
    """A collective bound to its buffers; calling it performs it once."""

    engine: str
    """Name of the engine, as it stands in the record."""

    function: str
    """The library's functions that it calls."""

    def __call__(self) -> None:
        """Perform the collective once."""

    def position(self) -> str:
        """Say, from another thread, what the call is waiting for."""


NAMED = 3
"""Messages that are named; of more there is the number."""


def describe(plan: Plan, at: int, slots: Sequence[int] | None = None) -> str:
    """Say in words what a plan waits for at instruction `at`: its slots, or of them `slots`."""
    table = plan.instructions
    step = table[at] if table else None
    if not isinstance(step, Wait):
        return f"at instruction {at} of {len(table)}, not waiting for a message"
    posted: dict[int, PostSend | PostRecv] = {}
    for earlier in table[:at]:
        if isinstance(earlier, PostSend | PostRecv):
            posted[earlier.slot] = earlier
    waiting = step.slots if slots is None else slots
    messages = [
        f"{'send to' if isinstance(posted[slot], PostSend) else 'receive from'} "
        f"rank {posted[slot].peer} ({posted[slot].region.count} elements of "
        f"{SPACES[posted[slot].region.space]})"
        for slot in waiting[:NAMED]
    ]
    if len(waiting) > NAMED:
        messages.append(f"{len(waiting) - NAMED} more messages")
    return f"in round {step.round}, waiting for " + " and ".join(messages)
