"""The symbolic execution of a schedule: all ranks run on names instead of numbers, without MPI.

Sends are synchronous (they complete when the receiver posts the matching receive), so freedom from
deadlock doesn't depend on eager buffering. A value is the exact tree of reductions that made it.
"""

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NoReturn, Protocol

from hpccoll.errors import VerificationError
from hpccoll.schedule import (
    DATA,
    LEFT,
    Combine,
    Copy,
    Message,
    Recv,
    Reduce,
    Rounds,
    Send,
    ranges,
)
from hpccoll.symbolic_rank import Posted, Rank
from hpccoll.terms import Terms


@dataclass(frozen=True, slots=True)
class Counts:
    """What an execution cost: per rank at most, except `steps` (critical path) and `total`."""

    steps: int
    messages: int
    sent: int
    reduced: int
    total: int


class Watcher(Protocol):
    """Is told what happens in an execution; a step is a place on the critical path, from 1 on."""

    def delivered(self, step: int, source: int, target: int, receive: Message) -> None:
        """Note that a message completes at `step`; `receive` is the action that it met."""

    def finished(self, step: int, rank: int, execution: "Execution") -> None:
        """Note that a round of `rank` ends at `step` (0: the start), and what it holds now."""


class Execution:
    """Execute the schedules of all ranks together.

    Parameters
    ----------
    schedules
        One iterator of rounds per rank.
    held
        The blocks that each rank has at the start.
    grid
        Number of blocks that the schedules name.
    clocks
        Check that both ends of every message have the same clock.
    watcher
        Is told of every message and round, not necessarily in the order of their steps.

    Raises
    ------
    VerificationError
        The counterexample: rank, round, block.
    """

    def __init__(
        self,
        schedules: Sequence[Rounds],
        held: Sequence[Iterable[int]],
        grid: int,
        clocks: bool = False,
        watcher: Watcher | None = None,
    ) -> None:
        self.terms = Terms()
        self.grid = grid
        self.clocks = clocks
        self.watcher = watcher
        self.ranks = [
            Rank(r, rounds, dict.fromkeys(held[r], self.terms.leaf(r)))
            for r, rounds in enumerate(schedules)
        ]
        self._sends: dict[tuple[int, int, int], deque[Posted]] = {}
        self._receives: dict[tuple[int, int, int], deque[Posted]] = {}
        self._ready = deque(range(len(self.ranks)))
        if watcher:
            for r in range(len(self.ranks)):
                watcher.finished(0, r, self)
        while self._ready:
            self._post(self._ready.popleft())
        self._check_finished()

    def value(self, rank: int, block: int) -> int | None:
        """Return the term that a rank's DATA holds (now, or at the end), if any."""
        return self.ranks[rank].buffers[DATA].get(block)

    @property
    def counts(self) -> Counts:
        """Return what the execution cost."""
        return Counts(
            steps=max(rank.end for rank in self.ranks),
            messages=max(rank.messages for rank in self.ranks),
            sent=max(rank.sent for rank in self.ranks),
            reduced=max(rank.reduced for rank in self.ranks),
            total=sum(rank.messages for rank in self.ranks),
        )

    def _post(self, r: int) -> None:
        rank = self.ranks[r]
        while (following := next(rank.rounds, None)) is not None:
            rank.clock, rank.actions = following
            rank.number += 1
            rank.start = rank.end
            rank.posted = [
                self._posted(r, a)
                for a in rank.actions.actions
                if isinstance(a, Send | Recv | Combine)
            ]
            rank.open = len(rank.posted)
            if rank.open:
                for message in rank.posted:
                    self._match(message)
                return
            self._finish_round(r)
        rank.actions = None

    def _posted(self, r: int, action: Message) -> Posted:
        names = ranges(action.blocks)
        if not 0 <= action.peer < len(self.ranks) or action.peer == r:
            self._fail(r, f"{_words(action)}: no such peer")
        for part in names:
            if part.start < 0 or part.stop > self.grid:
                self._fail(r, f"{_words(action)}: block {part.stop - 1} of {self.grid}")
        message = Posted(r, action, names, past=self.ranks[r].past)
        if isinstance(action, Send):
            message.values = [self._read(r, action.buffer, b) for part in names for b in part]
        return message

    def _match(self, message: Posted) -> None:
        r, action = message.rank, message.action
        if isinstance(action, Send):
            key, own, other = (r, action.peer, action.channel), self._sends, self._receives
        else:
            key, own, other = (action.peer, r, action.channel), self._receives, self._sends
        if not (waiting := other.get(key)):
            own.setdefault(key, deque()).append(message)
            return
        partner = waiting.popleft()
        send, receive = (message, partner) if own is self._sends else (partner, message)
        self._deliver(send, receive)

    def _deliver(self, send: Posted, receive: Posted) -> None:
        source, target = self.ranks[send.rank], self.ranks[receive.rank]
        if send.names != receive.names:
            self._fail(
                receive.rank,
                f"{_words(receive.action)} meets {_words(send.action)} "
                f"of rank {send.rank}, round {source.number}",
            )
        if self.clocks and source.clock != target.clock:
            self._fail(
                receive.rank,
                f"clock {target.clock} meets clock {source.clock} of rank {send.rank}",
            )
        receive.values, receive.past = send.values, send.past
        source.messages += 1
        source.sent += len(send.values)
        end = max(source.start, target.start) + 1
        if self.watcher:
            self.watcher.delivered(end, send.rank, receive.rank, receive.action)
        for r in (send.rank, receive.rank):
            rank = self.ranks[r]
            rank.end = max(rank.end, end)
            rank.open -= 1
            if not rank.open:
                self._finish_round(r)
                self._ready.append(r)

    def _finish_round(self, r: int) -> None:
        rank = self.ranks[r]
        assert rank.actions is not None
        for arrived in rank.posted:
            rank.past |= arrived.past
        messages = iter(rank.posted)
        landed: set[tuple[int, int]] = set()
        local = []
        for action in rank.actions.actions:
            message = next(messages) if isinstance(action, Send | Recv | Combine) else None
            if isinstance(action, Recv) and message is not None:
                buffer = rank.buffers.setdefault(action.buffer, {})
                for block, value in message.pairs():
                    if (action.buffer, block) in landed:
                        self._fail(r, f"two receives of one round both land in block {block}")
                    landed.add((action.buffer, block))
                    buffer[block] = value
            elif not isinstance(action, Send):
                local.append((action, message))
        for action, message in local:
            self._act(r, action, message)
        rank.posted = []
        if self.watcher:
            self.watcher.finished(rank.end, r, self)

    def _act(self, r: int, action: object, message: Posted | None) -> None:
        rank = self.ranks[r]
        if isinstance(action, Combine) and message is not None:
            for block, value in message.pairs():
                self._reduce(r, action.buffer, block, value, action.side)
        elif isinstance(action, Reduce):
            for part in ranges(action.blocks):
                for block in part:
                    value = self._read(r, action.source, block)
                    self._reduce(r, action.into, block, value, action.side)
        elif isinstance(action, Copy):
            into = rank.buffers.setdefault(action.into, {})
            for part in ranges(action.blocks):
                for block in part:
                    into[block] = self._read(r, action.source, block)

    def _reduce(self, r: int, buffer: int, block: int, value: int, side: str) -> None:
        rank, terms = self.ranks[r], self.terms
        own = self._read(r, buffer, block)
        if shared := terms.mask[own] & terms.mask[value]:
            first = (shared & -shared).bit_length() - 1
            self._fail(r, f"block {block} would contain the input of rank {first} twice")
        left, right = (value, own) if side == LEFT else (own, value)
        rank.buffers[buffer][block] = terms.reduce(left, right)
        rank.reduced += 1

    def _read(self, r: int, buffer: int, block: int) -> int:
        value = self.ranks[r].buffers.get(buffer, {}).get(block)
        if value is None:
            where = "" if buffer == DATA else f" of scratch {buffer}"
            self._fail(r, f"block {block}{where} is used but was never received")
        return value

    def _fail(self, r: int, problem: str) -> NoReturn:
        raise VerificationError(f"rank {r}, round {self.ranks[r].number}: {problem}")

    def _check_finished(self) -> None:
        if all(rank.actions is None for rank in self.ranks):
            return
        waiting: dict[int, list[str]] = {}
        for message in self._unmatched():
            waiting.setdefault(message.rank, []).append(_words(message.action))
        lines = [
            f"rank {r}, round {self.ranks[r].number}: waits to {' and to '.join(waiting[r])}"
            for r in sorted(waiting)
        ]
        more = f"; and {len(lines) - 4} more ranks" if len(lines) > 4 else ""
        raise VerificationError("deadlock: " + "; ".join(lines[:4]) + more)

    def _unmatched(self) -> Iterator[Posted]:
        for table in (self._sends, self._receives):
            for queue in table.values():
                yield from queue


def _words(action: Message) -> str:
    verb = {Send: "send to", Recv: "receive from", Combine: "combine from"}[type(action)]
    blocks = ",".join(
        str(part.start) if len(part) == 1 else f"{part.start}-{part.stop - 1}"
        for part in ranges(action.blocks)
    )
    return f"{verb} {action.peer} " + (f"block {blocks}" if blocks else "(signal)")
