"""Binding: a schedule and a message become a plan.

The schedule is written as if in place on one buffer. Binding decides where every block really
lives: it is read from the caller's input until it is first written, received and reduced straight
into its place in the output, and kept in scratch only where the output has no place for it. There
is no initial copy, and local work is put off until the next round's messages are in flight.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import count, pairwise

from hpccoll.layout import INPUT, OUTPUT, SCRATCH, Message, Region, layout
from hpccoll.partition import Partition
from hpccoll.plan import (
    Copy,
    Instruction,
    Plan,
    PostRecv,
    PostSend,
    Reduce,
    Scale,
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
LARGEST_PIECE = 1 << 30
"""No message has more bytes than this: not every library counts beyond 2**31."""


@dataclass(frozen=True, slots=True)
class Segmentation:
    """How long messages are cut; both ends must use the same.

    Attributes
    ----------
    bytes
        The longest piece of a message.
    window
        Pieces that a round's only receive has in flight; each is reduced as soon as it is there.
    """

    bytes: int = LARGEST_PIECE
    window: int = 2


def bind(
    choice: Choice,
    rank: int,
    size: int,
    message: Message,
    segmentation: Segmentation = Segmentation(),
) -> Plan:
    """Bind the schedule of `rank` to `message`.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """
    binder = _Binder(choice, rank, size, message, segmentation)
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
    def __init__(
        self, choice: Choice, rank: int, size: int, message: Message, cut: Segmentation
    ) -> None:
        contract, natural = choice.algorithm.collective, choice.algorithm.blocks(size)
        grid = choice.grid(size)
        pieces = grid // natural
        self.rank, self.size, self.message = rank, size, message
        self.piece = max(1, min(cut.bytes, LARGEST_PIECE) // message.itemsize)
        self.window = cut.window
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
        self.flying: dict[int, PostSend | PostRecv] = {}
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
        self._wait([slot for slot, post in self.flying.items() if post.round < number - 1])
        pipelined = len(receives) == 1 and self._pipelined(step, sends, receives[0])
        pieces = [self._pieces(receive.landing) for receive in receives]
        if pipelined:
            pieces = [self._window(receives[0])]
        self._post(sends, receives, pieces, number, pipelined)
        self._flush(len(self.pending))
        if number == 1:  # by now copied, and beside the blocks that it will be sent with
            goals = {(DATA, b): (OUTPUT, self._distance(self.wanted, b)) for b in self.untouched}
            self.where.update(goals)
        if pipelined:
            self._pipeline(receives[0], pieces[0], number)
            return
        self._wait([slot for slot, post in self.flying.items() if isinstance(post, PostRecv)])
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

    def _pieces(self, region: Region) -> list[Region]:
        """Cut a message into pieces: both ends cut alike, by its length alone."""
        starts = range(0, region.count, self.piece) or (0,)
        return [
            Region(region.space, region.offset + start, min(self.piece, region.count - start))
            for start in starts
        ]

    def _post(
        self,
        sends: list[_Outgoing],
        receives: list[_Incoming],
        pieces: list[list[Region]],
        number: int,
        pipelined: bool,
    ) -> None:
        """Post a round's messages, receives first; of a pipelined receive only the window."""
        held_back: list[PostRecv] = []
        for receive, landings in zip(receives, pieces, strict=True):
            action = receive.action
            for landing in landings[: self.window] if pipelined else landings:
                post = PostRecv(0, action.peer, landing, action.channel, number)
                # Matching is in order, so one receive held back holds back later ones of its peer.
                after = any((p.peer, p.channel) == (post.peer, post.channel) for p in held_back)
                if after or self._needed(post):
                    held_back.append(post)
                else:
                    self._emit(post)
        for send in sends:
            for region in send.regions:
                self._flush(self._needed(PostSend(0, send.action.peer, region, 0, number)))
            source = self._packed(send.names, send.regions)
            for piece in self._pieces(source):
                self._emit(PostSend(0, send.action.peer, piece, send.action.channel, number))
        for post in held_back:
            self._flush(self._needed(post))
            self._emit(post)

    def _pipelined(self, step: Round, sends: list[_Outgoing], receive: _Incoming) -> bool:
        """Tell whether the round's only receive is reduced piece by piece while it arrives.

        Nothing else may act in the round, and no reduction may have to wait for one of its sends:
        posting a receive would then depend on the progress of another message.
        """
        action = receive.action
        alone = all(isinstance(a, Send) or a is action for a in step.actions)
        if not (isinstance(action, Combine) and alone and receive.landing.count > self.piece):
            return False
        own = self._located(action.buffer, receive.names)
        targets = [*(self._homes(action.buffer, receive.names) or ()), *own]
        return not any(
            region.overlaps(target) and target.space != INPUT
            for send in sends
            for region in send.regions
            for target in targets
        )

    def _window(self, receive: _Incoming) -> list[Region]:
        """Return where the pieces of a pipelined receive land.

        Where they don't stay, they take turns in a part of scratch that remains in the cache.
        """
        action = receive.action
        pieces = self._pieces(receive.landing)
        own = self._located(action.buffer, receive.names)
        homes = self._homes(action.buffer, receive.names)
        stays = homes is None and any(place.space == INPUT for place in own)
        if receive.landing.space <= SCRATCH or stays:
            return pieces
        turns = self._temporary(self.window * self.piece)
        return [
            Region(turns.space, index % self.window * self.piece, piece.count)
            for index, piece in enumerate(pieces)
        ]

    def _pipeline(self, receive: _Incoming, pieces: list[Region], number: int) -> None:
        """Reduce the round's only receive piece by piece, and post the piece after the window."""
        action = receive.action
        assert isinstance(action, Combine)
        self._reduce(action.buffer, receive.names, pieces, action.side, True)
        work, self.pending = iter(self.pending), []
        for index, piece in enumerate(pieces):
            left = piece.count
            while left:
                reduction = next(work)
                assert isinstance(reduction, Reduce)
                self._emit(reduction)
                left -= reduction.into.count
            if index + self.window < len(pieces):
                landing = pieces[index + self.window]
                self._emit(PostRecv(0, action.peer, landing, action.channel, number))

    def _emit(self, instruction: Instruction) -> None:
        """Append an instruction, after the waits that what it touches needs."""
        written, read = writes(instruction), reads(instruction)
        self._wait(
            [
                slot
                for slot, post in self.flying.items()
                if any(region.overlaps(post.region) for region in written)
                or (
                    isinstance(post, PostRecv)
                    and any(region.overlaps(post.region) for region in read)
                )
            ]
        )
        if isinstance(instruction, PostSend | PostRecv):
            slot = next(slot for slot in count() if slot not in self.flying)
            instruction = self.flying[slot] = replace(instruction, slot=slot)
            self.slots = max(self.slots, slot + 1)
        self.instructions.append(instruction)

    def _wait(self, slots: list[int]) -> None:
        if slots:
            self.instructions.append(Wait(tuple(slots), max(self.flying[s].round for s in slots)))
            for slot in slots:
                del self.flying[slot]

    def _packed(self, names: Ranges, regions: list[Region]) -> Region:
        if not names or len(regions) == 1:
            return regions[0] if regions else Region(INPUT, 0, 0)
        whole = self._temporary(self._count(names))
        for piece, region in zip(_cut(whole, regions), regions, strict=True):
            self._emit(Copy(piece, region))
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
        for instruction in self.pending[:count]:
            self._emit(instruction)
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
        self._settle(buffer, names, _joined(results))

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
        if self.message.average and self.layout.result.count:
            self._emit(Scale(self.layout.result))
        self._wait(list(self.flying))
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
    flying: dict[int, int] = {}
    for index, instruction in enumerate(instructions):
        if isinstance(instruction, Wait):
            last.update({flying.pop(slot): index for slot in instruction.slots if slot in flying})
            continue
        for region in (*reads(instruction), *writes(instruction)):
            if region.space > SCRATCH:
                first.setdefault(region.space, index)
                last[region.space] = index
                if isinstance(instruction, PostSend | PostRecv):
                    flying[instruction.slot] = region.space
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

    if isinstance(instruction, Wait | Scale):
        return instruction
    if all(region.space <= SCRATCH for region in (*reads(instruction), *writes(instruction))):
        return instruction
    if isinstance(instruction, PostSend | PostRecv):
        return replace(instruction, region=placed(instruction.region))
    if isinstance(instruction, Copy):
        return Copy(placed(instruction.into), placed(instruction.source))
    return Reduce(placed(instruction.into), placed(instruction.left), placed(instruction.right))
