"""What a proof of an algorithm consists of: numbers of ranks, parameters, roots and placements."""

from collections.abc import Iterable, Iterator
from itertools import cycle, islice, product
from math import ceil
from random import Random

from hpccoll.cost import evaluate
from hpccoll.placement import Placement, even
from hpccoll.registry import Algorithm, Choice, Parameter, Value, plain
from hpccoll.shapes import factorizations
from hpccoll.verify import EVERY_ROOT_UP_TO

VARIED_UP_TO = 16
"""Parameters other than the defaults are proven up to this number of ranks."""
DRAWN_UP_TO = 1024
"""Numbers of ranks beyond those asked for are drawn up to this one."""
BUDGET = 100_000
"""Messages, and blocks in messages, that a proof on a drawn number of ranks may have."""


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


def drawn(entry: Algorithm, count: int, above: int, seed: int) -> tuple[int, ...]:
    """Return `count` numbers of ranks from `above` to `DRAWN_UP_TO`, drawn by chance.

    Only those that the algorithm supports and whose proof stays within `BUDGET` are drawn, so
    there may be fewer.
    """
    chance = Random(f"{seed} {entry.collective.name} {entry.name}")
    sizes = chance.sample(range(above + 1, DRAWN_UP_TO + 1), max(0, DRAWN_UP_TO - above))
    fitting = (n for n in sizes if entry.supports(n) and _work(Choice(entry), n) <= BUDGET)
    return tuple(sorted(islice(fitting, count)))


def _work(choice: Choice, size: int) -> int:
    """Return how many messages, and blocks in them, all ranks send at most."""
    entry, length, nodes = choice.algorithm, choice.vector(size), choice.placement(size).count
    each = [
        evaluate(form, size, length, choice.values, nodes) for form in (entry.messages, entry.sent)
    ]
    return ceil(size * max(each))


def obligations(
    entry: Algorithm, sizes: Iterable[int], beyond: Iterable[int] = ()
) -> Iterator[tuple[Choice, int, int]]:
    """Yield every (choice, size, root) that a proof of `entry` consists of.

    Of the sizes `beyond` only the defaults are proven, for root 0.
    """
    for size in sizes:
        if not entry.supports(size):
            continue
        roots = size if entry.collective.rooted and size <= EVERY_ROOT_UP_TO else 1
        for choice in variants(entry, size):
            for root in range(roots):
                yield choice, size, root
    yield from ((Choice(entry), size, 0) for size in beyond)
