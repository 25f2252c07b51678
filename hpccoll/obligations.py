"""What there is to prove of an algorithm: its parameters, placements and roots."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import cycle, product
from math import ceil
from random import Random

from hpccoll.choice import Algorithm, Choice
from hpccoll.cost import evaluate
from hpccoll.parameter import Parameter, Value
from hpccoll.placement import Placement, even
from hpccoll.registry import plain
from hpccoll.shapes import factorizations

VARIED_UP_TO = 16
"""Parameters other than the defaults are proven up to this number of ranks."""
DRAWN_UP_TO = 1024
"""Numbers of ranks beyond those that are asked for are drawn up to this one."""
BUDGET = 50_000
"""Messages, and blocks in messages, that a proof on a drawn number of ranks may have."""
EVERY_ROOT_UP_TO = 12
"""Every root is executed up to this number of ranks; beyond, the rotation's proof stands for it."""


def variants(entry: Algorithm, size: int) -> list[Choice]:
    """Return what to prove: the defaults, and for few ranks a spread of other parameters."""
    few = size <= VARIED_UP_TO
    if entry.placed:
        return _placed(entry, size, few)
    if not few:
        return [Choice(entry)]
    spreads = [
        [(parameter.name, value) for value in (parameter.default, *_others(parameter, size))]
        for parameter in entry.parameters.values()
    ]
    choices = [Choice(entry, dict(values)) for values in product(*spreads)]
    return [choice for choice in choices if choice.supports(size)]


def _others(parameter: Parameter, size: int) -> list[Value]:
    """Return other values of a parameter than the default."""
    default, least = parameter.default, parameter.minimum
    others: Iterable[Value] = [least + step for step in (0, 1, 2, 6)]
    if isinstance(default, tuple):
        others = factorizations(size)
    if isinstance(default, Choice):
        entries = plain(default.algorithm.collective.name)
        # The last variant of an algorithm is the one with the largest parameters.
        others = [part for entry in entries for part in (Choice(entry), variants(entry, 1)[-1])]
    return [value for value in others if value != default]


def _placed(entry: Algorithm, size: int, few: bool) -> list[Choice]:
    """Return the defaults on all placements, and for few ranks other parts on one of them each.

    There are many: each has its turn on every fourth number of ranks.
    """
    nodes = placements(size)
    found = [Choice(entry, nodes=placement) for placement in nodes]
    others = [{p.name: value} for p in entry.parameters.values() for value in _others(p, size)]
    turn = others[size % 4 :: 4] if few else ()
    found += map(Choice, cycle([entry]), turn, cycle(reversed(nodes)))
    return [choice for choice in found if choice.supports(size)]


def placements(size: int) -> list[Placement]:
    """Return a spread of placements: equal nodes, uneven ones, ranks in turn, and by chance."""
    equal = [n for n in range(1, size + 1) if size % n == 0]
    if size > VARIED_UP_TO:
        equal = [min(equal, key=lambda n: abs(n - size / n))]
    chance = Random(size)
    labels = [chance.randrange(1 + size // 3) for _ in range(size)]
    found = [even(size, n) for n in (*equal, min(3, size))]
    found += [Placement(r % max(1, size // 3) for r in range(size)), Placement(labels)]
    return list(dict.fromkeys(found))


@dataclass(frozen=True, slots=True)
class Drawn:
    """Numbers of ranks drawn by chance, and how many were left out because of `BUDGET`."""

    sizes: tuple[int, ...] = ()
    left_out: int = 0


def draw(entry: Algorithm, count: int, above: int, seed: int) -> Drawn:
    """Draw `count` numbers of ranks from `above` to `DRAWN_UP_TO` that the algorithm supports.

    Those on which a proof would be longer than `BUDGET` are left out, so there may be fewer.
    """
    chance = Random(f"{seed} {entry.collective.name} {entry.name}")
    candidates = list(range(above + 1, DRAWN_UP_TO + 1))
    chance.shuffle(candidates)
    found: list[int] = []
    left_out = 0
    for size in candidates:
        if len(found) == count:
            break
        if not entry.supports(size):
            continue
        if _length(Choice(entry), size) > BUDGET:
            left_out += 1
        else:
            found.append(size)
    return Drawn(tuple(sorted(found)), left_out)


def _length(choice: Choice, size: int) -> int:
    """Return how many messages, and blocks in them, all ranks send at most."""
    entry, length, nodes = choice.algorithm, choice.vector(size), choice.placement(size).count
    forms = (entry.messages, entry.sent)
    return ceil(size * max(evaluate(f, size, length, choice.values, nodes) for f in forms))


def obligations(
    entry: Algorithm, sizes: Iterable[int], beyond: Iterable[int] = ()
) -> Iterator[tuple[Choice, int, int]]:
    """Yield every (choice, size, root) that a proof of `entry` for `sizes` consists of.

    Of the sizes `beyond` only the defaults are proven, for root 0, and last: the counterexample
    that is shown is then a small one.
    """
    for size in sizes:
        if not entry.supports(size):
            continue
        roots = size if entry.collective.rooted and size <= EVERY_ROOT_UP_TO else 1
        for choice in variants(entry, size):
            for root in range(roots):
                yield choice, size, root
    yield from ((Choice(entry), size, 0) for size in beyond)
