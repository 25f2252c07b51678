"""Binding: a schedule and a message become a plan.

The schedule is written as if in place on one buffer. Binding decides where every block really
lives: it is read from the caller's input until it is first written, received and reduced straight
into its place in the output, and kept in scratch only where the output has no place for it. There
is no initial copy, and local work is put off until the next round's messages are in flight.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region, layout
from hpccoll.partition import Partition
from hpccoll.plan import (
    Copy,
    Instruction,
    Plan,
    PostRecv,
    PostSend,
    Reduce,
    Wait,
    reads,
    writes,
)
from hpccoll.registry import Choice
from hpccoll.schedule import DATA, LEFT, Combine, Ranges, Recv, Round, Send, ranges
from hpccoll.schedule import Copy as CopyBlocks
from hpccoll.schedule import Reduce as ReduceBlocks

PACK_BYTES = 8192
"""A message of several separate ranges is packed up to this size and split per range beyond it."""
ALIGNMENT = 64
"""Pieces of scratch start at multiples of this many bytes."""


def bind(choice: Choice, rank: int, size: int, message: Message) -> Plan:
    """Bind the schedule of `rank` to `message`.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """
    binder = _Binder(choice, rank, size, message)
    rounds = list(choice.schedule(rank, size, message.root))
    binder.copy_untouched(rounds)
    for number, step in enumerate(rounds, 1):
        binder.add_round(step, number)
    return binder.finish()


@dataclass(frozen=True, slots=True)
class _Outgoing:
    action: Send
    names: Ranges
    regions: list[Region]


@dataclass(frozen=True, slots=True)
class _Incoming:
    index: int
    action: Recv | Combine
    names: Ranges
    landing: Region


class _Binder:
    def __init__(self, choice: Choice, rank: int, size: int, message: Message) -> None:
        contract, natural = choice.algorithm.collective, choice.algorithm.blocks(size)
        grid = choice.grid(size)
        pieces = grid // natural
        self.rank, self.size, self.message = rank, size, message
        self.partition = Partition(message.count, grid)
        self.held = _scaled(contract.held(rank, size, message.root, natural), pieces)
        self.wanted = _scaled(contract.wanted(rank, size, message.root, natural), pieces)
        self.layout = layout(contract, rank, size, message)
        in_place = self.layout.in_place
        self.home = max(self.held, self.wanted, key=len) if in_place else self.wanted
        start, space = (self.home, OUTPUT) if in_place else (self.held, INPUT)
        self.where = {(DATA, b): (space, self._distance(start, b)) for b in self.held}
        self.temporaries: list[int] = []
        self.pending: list[Instruction] = []
        self.instructions: list[Instruction] = []
        self.untouched: set[int] = set()
        self.slots = self.packed = 0

    # Where blocks live

    def _distance(self, window: range, block: int) -> int:
        return self.partition.border(block) - self.partition.border(window.start)

    def _count(self, names: Ranges) -> int:
        border = self.partition.border
        return sum(border(part.stop) - border(part.start) for part in names)

    def _temporary(self, count: int) -> Region:
        self.temporaries.append(count)
        return Region(SCRATCH + len(self.temporaries), 0, count)

    def _located(self, buffer: int, names: Ranges) -> list[Region]:
        """Return where blocks live now, in order, neighbours joined and empty ones left out."""
        places = (
            Region(*self.where[buffer, block], self.partition.size(block))
            for part in names
            for block in part
            if self.partition.size(block)
        )
        return _joined(places)

    def _homes(self, buffer: int, names: Ranges) -> list[Region] | None:
        """Return the blocks' places in the output, or None if it has none for them."""
        if buffer != DATA or not all(b in self.home for part in names for b in part):
            return None
        return _joined(
            Region(OUTPUT, self._distance(self.home, part.start), self._count((part,)))
            for part in names
        )

    def _settle(self, buffer: int, names: Ranges, regions: Sequence[Region]) -> None:
        """Record that blocks now live in `regions`, which they fill in order."""
        stream = iter(regions)
        region = next(stream, None)
        used = 0
        for part in names:
            for block in part:
                size = self.partition.size(block)
                if region is not None and size and used == region.count:
                    region, used = next(stream), 0
                if region is None or not size:
                    self.where[buffer, block] = (SCRATCH, 0)
                    continue
                self.where[buffer, block] = (region.space, region.offset + used)
                used += size

    # Rounds

    def copy_untouched(self, rounds: Iterable[Round]) -> None:
        """Copy early what the caller gave, wants back, and nobody writes."""
        written = {
            block
            for step in rounds
            for action in step.actions
            if not isinstance(action, Send) and _target(action) == DATA
            for part in ranges(action.blocks)
            for block in part
        }
        # In place they lie in the output already; a place there may still hold another's input.
        if not self.layout.in_place:
            self.untouched = set(self.wanted) & set(self.held) - written
        self._copy_home(sorted(self.untouched))

    def _copy_home(self, blocks: Iterable[int]) -> None:
        for block in blocks:
            count = self.partition.size(block)
            goal = (OUTPUT, self._distance(self.wanted, block))
            if not count or (place := self.where[DATA, block]) == goal:
                continue
            copy = Copy(Region(*goal, count), Region(*place, count))
            previous = self.pending[-1] if self.pending else None
            if isinstance(previous, Copy) and (joined := _joined_copies(previous, copy)):
                self.pending[-1] = joined
            else:
                self.pending.append(copy)

    def add_round(self, step: Round, number: int) -> None:
        """Add one round's messages and put its local work off."""
        sends = [
            _Outgoing(action, names, self._located(action.buffer, names))
            for action in step.actions
            if isinstance(action, Send)
            for names in self._messages(action.blocks)
        ]
        busy = [region for send in sends for region in send.regions]
        receives = [
            _Incoming(index, action, names, self._landing(step, index, names, busy))
            for index, action in enumerate(step.actions)
            if isinstance(action, Recv | Combine)
            for names in self._messages(action.blocks)
        ]
        slots = self._post(sends, receives, number)
        self._flush(len(self.pending))
        if number == 1:  # by now copied, and beside the blocks that it will be sent with
            goals = {(DATA, b): (OUTPUT, self._distance(self.wanted, b)) for b in self.untouched}
            self.where.update(goals)
        if slots:
            self.instructions.append(Wait(tuple(range(slots)), number))
        self.slots = max(self.slots, slots)
        self._act(step, receives)

    def _messages(self, blocks: object) -> list[Ranges]:
        """Return the messages that an action becomes: both sides decide alike."""
        names = ranges(blocks)  # type: ignore[arg-type]
        if not names:
            return [names]
        count = self._count(names)
        if len(names) > 1 and count * self.message.itemsize > PACK_BYTES:
            return [(part,) for part in names if self._count((part,))]
        return [names] if count else []

    def _landing(self, step: Round, index: int, names: Ranges, busy: list[Region]) -> Region:
        """Choose where a message is received, and claim it for this round in `busy`."""
        action = step.actions[index]
        assert isinstance(action, Recv | Combine)
        count = self._count(names)
        homes = self._homes(action.buffer, names) or []
        fits = len(homes) == 1 and not any(homes[0].overlaps(region) for region in busy)
        if isinstance(action, Combine) and fits:
            # The accumulator must still live elsewhere, or the message would overwrite it; and
            # nothing else may write the place before the message is reduced.
            fits = all(
                place.space == INPUT for place in self._located(action.buffer, names)
            ) and not _written_before(step, index, names)
        landing = homes[0] if fits else self._temporary(count)
        busy.append(landing)
        return landing

    def _post(self, sends: list[_Outgoing], receives: list[_Incoming], number: int) -> int:
        """Post a round's messages, receives first, and return how many there are."""
        held_back: list[PostRecv] = []
        for slot, receive in enumerate(receives):
            action = receive.action
            post = PostRecv(slot, action.peer, receive.landing, action.channel, number)
            # Matching is in order, so one receive held back holds back the later ones of its peer.
            after = any((p.peer, p.channel) == (post.peer, post.channel) for p in held_back)
            if after or self._needed(post):
                held_back.append(post)
            else:
                self.instructions.append(post)
        for slot, send in enumerate(sends, len(receives)):
            for region in send.regions:
                self._flush(self._needed(PostSend(slot, send.action.peer, region, 0, number)))
            source = self._packed(send.names, send.regions)
            self.instructions.append(
                PostSend(slot, send.action.peer, source, send.action.channel, number)
            )
        for post in held_back:
            self._flush(self._needed(post))
            self.instructions.append(post)
        return len(receives) + len(sends)

    def _packed(self, names: Ranges, regions: list[Region]) -> Region:
        if not names or len(regions) == 1:
            return regions[0] if regions else Region(INPUT, 0, 0)
        whole = self._temporary(self._count(names))
        for piece, region in zip(_cut(whole, regions), regions, strict=True):
            self.instructions.append(Copy(piece, region))
        self.packed += whole.count
        return whole

    def _needed(self, instruction: Instruction) -> int:
        """Return how many pending instructions must run before `instruction`."""
        for index in range(len(self.pending) - 1, -1, -1):
            earlier = self.pending[index]
            touched = [*reads(earlier), *writes(earlier)]
            if any(new.overlaps(old) for new in writes(instruction) for old in touched) or any(
                new.overlaps(old) for new in reads(instruction) for old in writes(earlier)
            ):
                return index + 1
        return 0

    def _flush(self, count: int) -> None:
        self.instructions += self.pending[:count]
        del self.pending[:count]

    # Local work

    def _act(self, step: Round, receives: list[_Incoming]) -> None:
        for receive in receives:
            if isinstance(receive.action, Recv):
                self._land(receive.action, receive.names, receive.landing)
        for index, action in enumerate(step.actions):
            if isinstance(action, Combine):
                for receive in receives:
                    if receive.index == index:
                        operand = [receive.landing]
                        self._reduce(action.buffer, receive.names, operand, action.side, True)
            elif isinstance(action, ReduceBlocks):
                names = ranges(action.blocks)
                operand = self._located(action.source, names)
                self._reduce(action.into, names, operand, action.side, False)
            elif isinstance(action, CopyBlocks):
                self._copy(action)

    def _land(self, action: Recv, names: Ranges, landing: Region) -> None:
        homes = self._homes(action.buffer, names)
        if homes is None or homes == [landing]:
            self._settle(action.buffer, names, [landing])
            return
        for piece, home in zip(_cut(landing, homes), homes, strict=True):
            self.pending.append(Copy(home, piece))
        if len(homes) > 1:
            self.packed += landing.count
        self._settle(action.buffer, names, homes)

    def _reduce(
        self, buffer: int, names: Ranges, operand: list[Region], side: str, spent: bool
    ) -> None:
        """Reduce `operand`, which fills `names`, into blocks; `spent`: it isn't needed any more."""
        results: list[Region] = []
        homes = self._homes(buffer, names)
        for piece, place, home in _aligned(operand, self._located(buffer, names), homes or operand):
            into = place
            if place.space == INPUT:  # which is never written
                into = home if homes or spent else self._temporary(piece.count)
            left, right = (piece, place) if side == LEFT else (place, piece)
            self.pending.append(Reduce(into, left, right))
            results.append(into)
        self._settle(buffer, names, results)

    def _copy(self, action: CopyBlocks) -> None:
        names = ranges(action.blocks)
        sources = self._located(action.source, names)
        targets = self._homes(action.into, names) or [self._temporary(self._count(names))]
        for source, target in _aligned(sources, targets):
            self.pending.append(Copy(target, source))
        self._settle(action.into, names, targets)

    # The end

    def finish(self) -> Plan:
        """Bring the result home, give temporaries their place in scratch, and return the plan."""
        self._flush(len(self.pending))
        self._copy_home(block for block in self.wanted if block not in self.untouched)
        self._flush(len(self.pending))
        instructions, scratch = _allocate(
            self.instructions, self.temporaries, max(1, ALIGNMENT // self.message.itemsize)
        )
        return Plan(
            self.rank, self.size, instructions, self.layout, scratch, self.slots, self.packed
        )


def _scaled(window: range, pieces: int) -> range:
    return range(window.start * pieces, window.stop * pieces)


def _target(action: object) -> int:
    return action.into if isinstance(action, ReduceBlocks | CopyBlocks) else action.buffer  # type: ignore


def _written_before(step: Round, index: int, names: Ranges) -> bool:
    """Tell whether another action writes some of `names` before action `index` acts."""
    return any(
        part.start < other.stop and other.start < part.stop
        for place, action in enumerate(step.actions)
        if not isinstance(action, Send) and place != index and _target(action) == DATA
        if place < index or isinstance(action, Recv)
        for other in ranges(action.blocks)
        for part in names
    )


def _joined(regions: Iterable[Region]) -> list[Region]:
    joined: list[Region] = []
    for region in regions:
        last = joined[-1] if joined else None
        if last and (last.space, last.offset + last.count) == (region.space, region.offset):
            joined[-1] = Region(last.space, last.offset, last.count + region.count)
        elif region.count:
            joined.append(region)
    return joined


def _joined_copies(first: Copy, second: Copy) -> Copy | None:
    into, source = _joined((first.into, second.into)), _joined((first.source, second.source))
    return Copy(into[0], source[0]) if len(into) == len(source) == 1 else None


def _cut(whole: Region, like: Sequence[Region]) -> list[Region]:
    """Cut a region into consecutive pieces of the sizes of `like`."""
    pieces, offset = [], whole.offset
    for region in like:
        pieces.append(Region(whole.space, offset, region.count))
        offset += region.count
    return pieces


def _aligned(*lists: Sequence[Region]) -> list[tuple[Region, ...]]:
    """Cut lists of regions of the same total size at each other's borders."""
    if all(len(regions) == 1 for regions in lists):
        return [tuple(regions[0] for regions in lists)]
    borders: set[int] = set()
    for regions in lists:
        total = 0
        for region in regions:
            total += region.count
            borders.add(total)
    columns = []
    for regions in lists:
        pieces, position = [], 0
        for region in regions:
            end = position + region.count
            cuts = sorted({position, *(b for b in borders if position < b < end), end})
            pieces += [
                Region(region.space, region.offset + low - position, high - low)
                for low, high in pairwise(cuts)
            ]
            position = end
        columns.append(pieces)
    return list(zip(*columns, strict=True))


def _allocate(
    instructions: list[Instruction], temporaries: list[int], align: int
) -> tuple[tuple[Instruction, ...], int]:
    """Give temporaries that live at different times the same place in scratch.

    A temporary lives from the first instruction that touches it to the last one, and as long as a
    message that it belongs to is in flight.
    """
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    flying: list[int] = []
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Wait):
            last.update(dict.fromkeys(flying, index))
            flying = []
            continue
        for region in (*reads(instruction), *writes(instruction)):
            if region.space > SCRATCH:
                first.setdefault(region.space, index)
                last[region.space] = index
                if isinstance(instruction, PostSend | PostRecv):
                    flying.append(region.space)
    offsets: dict[int, int] = {}
    live: list[tuple[int, int, int]] = []
    scratch = 0
    for space in sorted(first, key=first.__getitem__):
        size = -(-temporaries[space - SCRATCH - 1] // align) * align
        live = [(low, high, end) for low, high, end in live if end >= first[space]]
        offset = 0
        for low, high, _ in sorted(live):
            if low - offset >= size:
                break
            offset = max(offset, high)
        offsets[space] = offset
        live.append((offset, offset + size, last[space]))
        scratch = max(scratch, offset + size)
    return tuple(_placed(i, offsets) for i in instructions), scratch


def _placed(instruction: Instruction, offsets: dict[int, int]) -> Instruction:
    def placed(region: Region) -> Region:
        if region.space <= SCRATCH:
            return region
        return Region(SCRATCH, offsets[region.space] + region.offset, region.count)

    if isinstance(instruction, Wait):
        return instruction
    if all(region.space <= SCRATCH for region in (*reads(instruction), *writes(instruction))):
        return instruction
    if isinstance(instruction, PostSend | PostRecv):
        return replace(instruction, region=placed(instruction.region))
    if isinstance(instruction, Copy):
        return Copy(placed(instruction.into), placed(instruction.source))
    return Reduce(placed(instruction.into), placed(instruction.left), placed(instruction.right))
