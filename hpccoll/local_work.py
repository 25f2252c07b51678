"""The local work of a plan: copies and reductions, put off until messages are in flight.

There is no initial copy: a block is read from the caller's input until it is first written.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from hpccoll.instructions import Instructions
from hpccoll.layout import INPUT, Region
from hpccoll.places import Places
from hpccoll.plan import Copy, Reduce
from hpccoll.regions import aligned, cut, joined
from hpccoll.schedule import DATA, LEFT, Combine, Ranges, Recv, Round, Send, ranges
from hpccoll.schedule import Copy as CopyBlocks
from hpccoll.schedule import Reduce as ReduceBlocks


@dataclass(frozen=True, slots=True)
class Incoming:
    """A message of a round's action `index` that is received into `landing`."""

    index: int
    action: Recv | Combine
    names: Ranges
    landing: Region


class LocalWork:
    """What one rank copies and reduces.

    Attributes
    ----------
    untouched
        Blocks that are copied early, and by nothing else.
    packed
        Elements that are copied to make one message of several ranges, or several of one.
    """

    def __init__(self, places: Places, instructions: Instructions) -> None:
        self.places, self.instructions = places, instructions
        self.untouched: set[int] = set()
        self.packed = 0

    def copy_untouched(self, rounds: Iterable[Round]) -> None:
        """Copy early what the caller gave, wants back, and nobody writes."""
        written = {
            block
            for step in rounds
            for action in step.actions
            if not isinstance(action, Send) and written_buffer(action) == DATA
            for part in ranges(action.blocks)
            for block in part
        }
        # In place they lie in the output already; a place there may still hold another's input.
        if not self.places.layout.in_place:
            self.untouched = set(self.places.wanted) & set(self.places.held) - written
        self.copy_home(sorted(self.untouched))

    def copy_gathered(self) -> None:
        """Copy the rank's own blocks early to those that it gathers and sends on."""
        if self.places.gathered:
            own = [b for b in self.places.gathered[0] if b in self.places.held]
            self._bring_home(ranges(tuple(own)))

    def _bring_home(self, names: Ranges) -> None:
        homes = self.places.homes(DATA, names) or []
        for target, source in aligned(homes, self.places.located(DATA, names)):
            self.instructions.defer(Copy(target, source))
        self.places.settle(DATA, names, homes)

    def copy_home(self, blocks: Iterable[int]) -> None:
        """Copy blocks to their places in the result, where they aren't there."""
        for block in blocks:
            count = self.places.partition.size(block)
            goal = self.places.goal(block)
            if not count or (place := self.places.where[DATA, block]) == goal:
                continue
            copy = Copy(Region(*goal, count), Region(*place, count))
            previous = self.instructions.last
            if isinstance(previous, Copy) and (joined := _joined_copies(previous, copy)):
                self.instructions.replace_last(joined)
            else:
                self.instructions.defer(copy)

    def pack(self, names: Ranges, regions: list[Region]) -> Region:
        """Return one region with all of a message, copied there if it lies in several."""
        if not names or len(regions) == 1:
            return regions[0] if regions else Region(INPUT, 0, 0)
        whole = self.places.temporary(self.places.count(names))
        for piece, region in zip(cut(whole, regions), regions, strict=True):
            self.instructions.emit(Copy(piece, region))
        self.packed += whole.count
        return whole

    def act(self, step: Round, receives: list[Incoming]) -> None:
        """Put off what a round does with what it received and with its own blocks."""
        for receive in receives:
            if isinstance(receive.action, Recv):
                self._land(receive.action, receive.names, receive.landing)
        arrived: dict[int, list[Incoming]] = {}
        for receive in receives:
            arrived.setdefault(receive.index, []).append(receive)
        for index, action in enumerate(step.actions):
            if isinstance(action, Combine):
                for receive in arrived.get(index, ()):
                    operand = [receive.landing]
                    self.reduce(action.buffer, receive.names, operand, action.side, True)
            elif isinstance(action, ReduceBlocks):
                names = ranges(action.blocks)
                operand = self.places.located(action.source, names)
                self.reduce(action.into, names, operand, action.side, False)
            elif isinstance(action, CopyBlocks):
                self._copy(action)

    def _land(self, action: Recv, names: Ranges, landing: Region) -> None:
        homes = self.places.homes(action.buffer, names)
        if homes is None or homes == [landing]:
            self.places.settle(action.buffer, names, [landing])
            return
        for piece, home in zip(cut(landing, homes), homes, strict=True):
            self.instructions.defer(Copy(home, piece))
        if len(homes) > 1:
            self.packed += landing.count
        self.places.settle(action.buffer, names, homes)

    def reduce(
        self, buffer: int, names: Ranges, operand: list[Region], side: str, spent: bool
    ) -> None:
        """Reduce `operand`, which fills `names`, into blocks; `spent`: it isn't needed any more."""
        results: list[Region] = []
        homes = self.places.homes(buffer, names)
        for piece, place, home in aligned(
            operand, self.places.located(buffer, names), homes or operand
        ):
            into = place
            if place.space == INPUT:  # which is never written
                into = home if homes or spent else self.places.temporary(piece.count)
            left, right = (piece, place) if side == LEFT else (place, piece)
            self.instructions.defer(Reduce(into, left, right))
            results.append(into)
        self.places.settle(buffer, names, joined(results))

    def _copy(self, action: CopyBlocks) -> None:
        names = ranges(action.blocks)
        sources = self.places.located(action.source, names)
        if action.into != DATA and all(source.space == INPUT for source in sources):
            self.places.settle(action.into, names, sources)  # the input is never written
            return
        targets = self.places.homes(action.into, names) or [
            self.places.temporary(self.places.count(names))
        ]
        for source, target in aligned(sources, targets):
            self.instructions.defer(Copy(target, source))
        self.places.settle(action.into, names, targets)


def written_buffer(action: object) -> int:
    """Return the buffer that an action writes."""
    return action.into if isinstance(action, ReduceBlocks | CopyBlocks) else action.buffer  # type: ignore


def _joined_copies(first: Copy, second: Copy) -> Copy | None:
    into, source = joined((first.into, second.into)), joined((first.source, second.source))
    return Copy(into[0], source[0]) if len(into) == len(source) == 1 else None
