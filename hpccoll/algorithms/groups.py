"""One round of everybody with everybody in a group of ranks, which whole families are made of."""

from collections.abc import Callable, Sequence

from hpccoll.schedule import DATA, LEFT, RIGHT, Action, Blocks, Combine, Recv, Reduce, Round, Send
from hpccoll.shapes import rotated

SCRATCH = 1


def reduce_in_order(rank: int, group: Sequence[int], part: Callable[[int], Blocks]) -> Round:
    """Reduce ``part(i)`` at the i-th member of `group`, for all members at once.

    Every member computes ``((v0 op v1) op v2) op …`` in the order of the group, so that those who
    reduce the same blocks get the same bits. What comes before a member's own operand is reduced in
    scratch: sides alone would give ``v0 op (v1 op v2)`` at the last of three.
    """
    place = group.index(rank)
    own = part(place)
    actions: list[Action] = [Send(peer, part(group.index(peer))) for peer in rotated(group, rank)]
    before, after = group[:place], group[place + 1 :]
    if len(before) == 1:
        actions.append(Combine(before[0], own, LEFT))
    elif before:
        actions.append(Recv(before[0], own, SCRATCH))
        actions += [Combine(peer, own, RIGHT, SCRATCH) for peer in before[1:]]
        actions.append(Reduce(own, DATA, SCRATCH, LEFT))
    actions += [Combine(peer, own, RIGHT) for peer in after]
    return Round(*actions)


def gather(rank: int, group: Sequence[int], part: Callable[[int], Blocks]) -> Round:
    """Give ``part(i)`` of the i-th member of `group` to all members."""
    others = rotated(group, rank)
    own = part(group.index(rank))
    return Round(
        *(Send(peer, own) for peer in others),
        *(Recv(peer, part(group.index(peer))) for peer in others),
    )
