"""Plans whose partial results have a type of their own: what is converted, and when.

A plan is bound as if all elements were partial results, which are wider than the caller's elements.
But what one rank alone has contributed stands in the caller's input, and what all have contributed
to is the result, which is rounded to the caller's type in any case. So messages of these carry the
caller's elements, and only those between carry partial results. A reduction converts operands that
are the caller's elements, and a result that nothing reduces any more; else an element is converted
where it is first read as a partial result, and rounded where it is first sent, or at the end.

Both ends of a message must decide alike. What a message carries follows from its sender's plan; so
the receiver binds its peers' plans, too, and takes their messages in order.
"""

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import chain

from hpccoll.bind import bind
from hpccoll.choice import Choice
from hpccoll.collectives import ALL
from hpccoll.contents import COMPLETE, PARTIAL, contents, written_last
from hpccoll.layout import LANDING, USER, Message, Region
from hpccoll.plan import (
    Convert,
    Instruction,
    Plan,
    PostRecv,
    PostSend,
    Reduce,
    Wait,
    reads,
    writes,
)
from hpccoll.regions import Parts
from hpccoll.segmentation import WHOLE, Segmentation


def bind_partial(
    choice: Choice,
    rank: int,
    size: int,
    message: Message,
    segmentation: Segmentation = WHOLE,
) -> Plan:
    """Bind the schedule of `rank`, as `hpccoll.bind.bind` does, and add the conversions.

    Parameters
    ----------
    message
        Its elements are partial results.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """

    def plan_of(rank: int) -> Plan:
        return bind(choice, rank, size, message, segmentation)

    completes = choice.algorithm.collective.contributors == ALL
    return convert(plan_of(rank), completes, plan_of)


def convert(plan: Plan, completes: bool, plan_of: Callable[[int], Plan]) -> Plan:
    """Return a plan with the conversions between the caller's type and that of partial results.

    Parameters
    ----------
    completes
        Every result is one of all ranks, so that it is never reduced any more.
    plan_of
        Returns the plan of a peer, without conversions.
    """
    return _Converter(plan, completes, plan_of).converted()


def _user(region: Region) -> Region:
    """Return the place of the caller's elements that a region of input or output stands for."""
    return replace(region, space=USER + region.space)


@dataclass(frozen=True, slots=True)
class _Landed:
    """The caller's elements in `place` that should be partial results in `region`."""

    region: Region
    place: Region

    def part(self, region: Region) -> "_Landed":
        """Return the part for a region inside."""
        offset = self.place.offset + region.offset - self.region.offset
        return _Landed(region, Region(self.place.space, offset, region.count))


class _Converter:
    """The instructions of one rank, growing.

    `narrow` are the parts of input and output of which only the caller's elements are there, and
    `rounded` those of the output of which the caller's elements are the result. `flying` has by
    slot the caller's elements that are being received, `landed` those that have been received and
    not converted, `landing` how many elements a slot's landing needs; `reduced` has by their number
    the reductions into the output that nothing has read.
    """

    def __init__(self, plan: Plan, completes: bool, plan_of: Callable[[int], Plan]) -> None:
        self.plan, self._plan_of, self._completes = plan, plan_of, completes
        self.issued: list[Instruction] = []
        self.narrow, self.rounded = Parts(plan.layout.held), Parts()
        self.flying: dict[int, _Landed] = {}
        self.landed: dict[int, list[_Landed]] = {}
        self.landing: dict[int, int] = {}
        self.reduced: dict[int, Reduce] = {}
        self._received: dict[int, dict[int, Iterator[str]]] = {}

    def converted(self) -> Plan:
        """Go through the plan, and round the result at the end."""
        sent, last = iter(contents(self.plan, self._completes)), written_last(self.plan)
        for number, step in enumerate(self.plan.instructions):
            if isinstance(step, PostSend):
                self._send(step, next(sent))
            elif isinstance(step, PostRecv):
                self._receive(step, number, number in last)
            elif isinstance(step, Wait):
                self.issued.append(step)
                arrived = {s: [self.flying.pop(s)] for s in step.slots if s in self.flying}
                self.landed |= arrived
            else:
                self._act(step)
        self._round(self.plan.layout.result)
        instructions, landing = self._placed()
        return replace(self.plan, instructions=instructions, landing=landing)

    # Messages

    def _send(self, step: PostSend, content: str) -> None:
        if content == COMPLETE:
            self._round(step.region)
        elif content == PARTIAL:
            self._read(step.region)
            self.issued.append(step)
            return
        self.issued.append(replace(step, region=_user(step.region)))

    def _receive(self, step: PostRecv, number: int, last: bool) -> None:
        self._written(step.region)
        if self._content(step) == PARTIAL:
            self.issued.append(step)
            return
        if last and step.region.inside(self.plan.layout.result):
            self.narrow.add(step.region)
            self.rounded.add(step.region)
            self.issued.append(replace(step, region=_user(step.region)))
            return
        # Every slot has a landing of its own, whose place follows when all are known.
        for earlier in self.landed.pop(step.slot, []):
            if self._read_later(earlier.region, number):
                self.issued.append(Convert(earlier.region, earlier.place))
        landing = Region(LANDING + step.slot, 0, step.region.count)
        self.landing[step.slot] = max(self.landing.get(step.slot, 0), landing.count)
        self.flying[step.slot] = _Landed(step.region, landing)
        self.issued.append(replace(step, region=landing))

    def _content(self, step: PostRecv) -> str:
        """Return what the next message of a sender on a channel carries."""
        if step.peer not in self._received:
            theirs = self._plan_of(step.peer)
            sends = [each for each in theirs.instructions if isinstance(each, PostSend)]
            found = defaultdict[int, list[str]](list)
            for send, content in zip(sends, contents(theirs, self._completes), strict=True):
                if send.peer == self.plan.rank:
                    found[send.channel].append(content)
            self._received[step.peer] = {channel: iter(each) for channel, each in found.items()}
        return next(self._received[step.peer][step.channel])

    def _read_later(self, region: Region, number: int) -> bool:
        """Tell whether an instruction from `number` on reads a region before it is overwritten."""
        left = Parts(region)
        for step in self.plan.instructions[number:]:
            if any(left.common(read) for read in reads(step)):
                return True
            for written in writes(step):
                left.remove(written)
            if not left.common(region):
                return False
        return False

    # Local work

    def _act(self, step: Instruction) -> None:
        if isinstance(step, Reduce):
            left, right = self._operand(step.left), self._operand(step.right)
            self._written(step.into)
            step = Reduce(step.into, left, right)
            if step.into.inside(self.plan.layout.result):
                self.reduced[len(self.issued)] = step
            self.issued.append(step)
            return
        for region in reads(step):
            self._read(region)
        for region in writes(step):
            self._written(region)
        self.issued.append(step)

    def _operand(self, region: Region) -> Region:
        """Return where an operand is: the caller's elements are converted by the reduction."""
        if self.narrow.common(region) == [region]:
            return _user(region)
        for landed in chain.from_iterable(self.landed.values()):
            if region.inside(landed.region):
                return landed.part(region).place
        self._read(region)
        return region

    def _read(self, region: Region) -> None:
        """Make partial results of those of the caller's elements that a region still needs."""
        for part in self.narrow.common(region):
            self.issued.append(Convert(part, _user(part)))
            self.narrow.remove(part)
        for slot, parts in self.landed.items():
            for landed in parts:
                if landed.region.overlaps(region):
                    self.issued.append(Convert(landed.region, landed.place))
            self.landed[slot] = [each for each in parts if not each.region.overlaps(region)]
        self._forget(region)

    def _written(self, region: Region) -> None:
        """Note that partial results are written."""
        self.narrow.remove(region)
        self.rounded.remove(region)
        for slot, parts in self.landed.items():
            self.landed[slot] = [
                landed.part(rest)
                for landed in parts
                for rest in Parts(region).missing(landed.region)
            ]
        self._forget(region)

    def _forget(self, region: Region) -> None:
        kept = {n: s for n, s in self.reduced.items() if not s.into.overlaps(region)}
        self.reduced = kept

    def _round(self, region: Region) -> None:
        """Make the caller's elements of a part of the result, by its reductions where it can be."""
        for part in self.rounded.missing(region):
            for number, step in list(self.reduced.items()):
                if step.into.inside(part):
                    self.issued[number] = replace(step, into=_user(step.into))
                    self._written(step.into)
                    self.narrow.add(step.into)
                    self.rounded.add(step.into)
        for part in self.rounded.missing(region):
            self._read(part)
            self.issued.append(Convert(_user(part), part))
            self.rounded.add(part)

    def _placed(self) -> tuple[tuple[Instruction, ...], int]:
        """Return the instructions, their landings side by side, and the elements of all."""
        offsets, total = {}, 0
        for slot, count in self.landing.items():
            offsets[slot], total = total, total + count

        def placed(region: Region) -> Region:
            if region.space < LANDING:
                return region
            return Region(LANDING, offsets[region.space - LANDING] + region.offset, region.count)

        def moved(step: Instruction) -> Instruction:
            if isinstance(step, PostRecv):
                return replace(step, region=placed(step.region))
            if isinstance(step, Convert):
                return Convert(step.into, placed(step.source))
            if isinstance(step, Reduce):
                return Reduce(step.into, placed(step.left), placed(step.right))
            return step

        return tuple(map(moved, self.issued)), total
