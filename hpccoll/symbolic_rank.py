"""One rank in a symbolic execution: its place in its schedule, and what its buffers hold."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from hpccoll.schedule import DATA, Message, Ranges, Round, Rounds, clocked


@dataclass(slots=True)
class Posted:
    """A message that a rank has posted; a receive gets the values from the send that it meets."""

    rank: int
    action: Message
    names: Ranges
    values: list[int] = field(default_factory=list)
    past: int = 0

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the blocks with their values."""
        return zip((b for part in self.names for b in part), self.values, strict=True)


class Rank:
    """One rank's place in its schedule and what its buffers hold."""

    __slots__ = (
        "actions",
        "buffers",
        "clock",
        "end",
        "messages",
        "number",
        "open",
        "past",
        "posted",
        "reduced",
        "rounds",
        "sent",
        "start",
    )

    def __init__(self, number: int, rounds: Rounds, data: dict[int, int]) -> None:
        self.past = 1 << number  # the ranks whose arrival it may know of
        self.rounds = clocked(rounds)
        self.buffers: dict[int, dict[int, int]] = {DATA: data}
        self.number = self.clock = self.start = self.end = self.open = 0
        self.messages = self.sent = self.reduced = 0
        self.posted: list[Posted] = []
        self.actions: Round | None = None
