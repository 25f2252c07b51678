"""How algorithms are spelled on the command line: ``name[:key=value[:key=value]]``."""

import re
from collections.abc import Iterable, Iterator, Mapping

from hpccoll.choice import Choice
from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UsageError, unknown
from hpccoll.parameter import Value, format_value
from hpccoll.registry import catalogue, find, plain


def choose(of: str, text: str) -> list[Choice]:
    """Return the choices that ``name[:key=value[:key=value]]`` spells, ranges expanded.

    A value is a number, a list such as ``3x4``, a range such as ``1..8`` (every number) or a range
    with a factor such as ``1..32*2``; where a list is asked, ``auto`` leaves it to the algorithm.
    Of an algorithm that is made of others it is the name of one, and that one's own parameters are
    written with slashes: ``two-level:across=ring/segments=4``.

    Raises
    ------
    UsageError
        Unknown algorithm or parameter, or a value that can't be read or isn't allowed.
    """
    name, *written = text.split(":")
    entry = find(of, name)
    combinations = settings(written, text, entry.made_of)
    for key, _value in (pair for values in combinations for pair in values.items()):
        if key not in entry.parameters:
            if not entry.parameters:
                raise UsageError(f"{text!r}: {entry.name} has no parameters, got {key!r}")
            raise UsageError(f"{text!r}: " + unknown("parameter", key, entry.parameters))
    return [
        Choice(entry, {key: entry.parameters[key].read(value) for key, value in chosen.items()})
        for chosen in combinations
    ]


def settings(
    written: Iterable[str], text: str, made_of: Mapping[str, str] | None = None
) -> list[dict[str, Value]]:
    """Return every combination of the values that ``key=value`` parts of `text` spell.

    Parameters
    ----------
    made_of
        The keys whose values are algorithms, and of which collective.

    Raises
    ------
    UsageError
        A part can't be read, or a key is given twice.
    """
    combinations: list[dict[str, Value]] = [{}]
    for setting in written:
        key, equals, values = setting.partition("=")
        if not equals:
            raise UsageError(f"{text!r}: write parameters as name:key=value, got {setting!r}")
        if key in combinations[0]:
            raise UsageError(f"{text!r}: {key} is given twice; write a range, such as {key}=1..4")
        of = (made_of or {}).get(key)
        read = list(_parts(of, values, f"{text!r}: {key}") if of else numbers(values, text))
        combinations = [old | {key: value} for old in combinations for value in read]
    return combinations


def _parts(of: str, written: str, where: str) -> Iterator[Value]:
    """Read an algorithm that is a part of another, with slashes before its parameters."""
    names = [name for entry in plain(of) for name in (entry.name, *entry.aliases)]
    if (name := written.split("/")[0]) not in names:
        raise UsageError(f"{where}: {unknown(f'{of} algorithm', name, names)}")
    yield from choose(of, written.replace("/", ":"))


def numbers(written: str, text: str) -> Iterator[Value]:
    """Yield the values that a number, a list or a range, which are parts of `text`, spells.

    Raises
    ------
    UsageError
        It can't be read.
    """
    if found := re.fullmatch(r"(\d+)\.\.(\d+)(?:\*(\d+))?", written):
        value, last, factor = int(found[1]), int(found[2]), int(found[3] or 1)
        if value > last or (found[3] and (factor < 2 or value < 1)):
            raise UsageError(f"{text!r}: the range {written} has no end or no values")
        while value <= last:
            yield value
            value = value * factor if found[3] else value + 1
    elif written == format_value(()):
        yield ()
    elif re.fullmatch(r"\d+(x\d+)*", written):
        numbers = tuple(map(int, written.split("x")))
        yield numbers if len(numbers) > 1 else numbers[0]
    else:
        raise UsageError(f"{text!r}: {written!r} is not a number, a list (3x4) or a range (1..8)")


def named(text: str, of: str | None = None) -> list[Choice]:
    """Return the choices that `text` spells in one collective, or in every one that has the name.

    Raises
    ------
    UsageError
        No collective has it, or a parameter is wrong.
    """
    if of is not None:
        return choose(of, text)
    name = text.split(":", 1)[0]
    having = [
        collective
        for collective in COLLECTIVES
        if any(name in (a.name, *a.aliases) for a in catalogue(collective))
    ]
    if not having:
        raise UsageError(unknown("algorithm", name, sorted({a.name for a in catalogue()})))
    return [choice for collective in having for choice in choose(collective, text)]
