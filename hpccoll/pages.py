"""The catalogue as pages in Markdown: one per collective, with a picture of every algorithm."""

import inspect
import re
from collections.abc import Iterable, Iterator

from hpccoll.choice import Algorithm, Choice
from hpccoll.collectives import COLLECTIVES, OWNER, ROOT, Collective
from hpccoll.export import svg
from hpccoll.listing import costs, markdown, requirements, spelling
from hpccoll.parameter import format_value
from hpccoll.registry import catalogue
from hpccoll.schedule import Ranges, ranges

PICTURED = 8
"""Pictures and examples show this number of ranks, or the nearest that an algorithm allows."""
_EXAMPLE = 4
_NOTICE = "<!-- Written by `hpccoll list --pages DIR` from the code: change that instead. -->"


def pages() -> Iterator[tuple[str, str]]:
    """Yield the path and the text of every page and picture."""
    for name, contract in COLLECTIVES.items():
        if not (entries := catalogue(name)):
            continue
        yield f"{name}.md", "\n".join(_page(contract, entries))
        for entry in entries:
            yield _picture(entry), svg.text(Choice(entry), _ranks(entry))


def _picture(entry: Algorithm) -> str:
    return f"pictures/{entry.collective.name}-{entry.name}.svg"


def _ranks(entry: Algorithm) -> int:
    """Return the number of ranks to show: the nearest that the algorithm allows."""
    nearest = sorted(range(1, 8 * PICTURED), key=lambda size: (abs(size - PICTURED), size))
    return next(size for size in nearest if entry.supports(size))


def _page(contract: Collective, entries: Iterable[Algorithm]) -> Iterator[str]:
    entries = tuple(entries)
    yield from (_NOTICE, "", f"# {contract.name}", "")
    yield from _contract(contract)
    yield from ("", "## Algorithms", "", markdown(contract.name), "")
    for entry in entries:
        yield from _algorithm(entry)


def _contract(contract: Collective) -> Iterator[str]:
    natural = contract.natural(_EXAMPLE)
    root = " and root 0" if contract.rooted else ""
    yield f"What every rank has before and must have after, with {_EXAMPLE} ranks{root}:"
    yield ""
    yield from ("| rank | before | after |", "| --- | --- | --- |")
    for rank in range(_EXAMPLE):
        held = ranges(tuple(contract.held(rank, _EXAMPLE, 0, natural)))
        wanted = ranges(tuple(contract.wanted(rank, _EXAMPLE, 0, natural)))
        before = f"its own {_blocks(held)}" if held else "nothing"
        after = ", and knows that all have come" if not contract.moves_data else ""
        yield f"| {rank} | {before} | {_finished(contract, rank, wanted)}{after} |"
    yield ""
    yield f"- Size: {contract.bytes_are}."
    yield f"- In place: {contract.in_place}."
    yield f"- Bus bandwidth: algorithm bandwidth × `{contract.busbw}`."
    yield f"- Compared with: {contract.baselines}."


def _finished(contract: Collective, rank: int, wanted: Ranges) -> str:
    if not wanted:
        return "nothing"
    if contract.reduces:
        over = contract.sources(rank, _EXAMPLE, 0, 0, contract.natural(_EXAMPLE))
        return f"{_blocks(wanted)}, reduced over {_named('rank', (over,))}"
    source = {OWNER: ", each of the rank that had it", ROOT: " of the root"}
    return _blocks(wanted) + source.get(contract.contributors, "")


def _blocks(names: Ranges) -> str:
    return _named("block", names)


def _named(what: str, names: Ranges) -> str:
    parts = [str(b.start) if len(b) == 1 else f"{b.start} to {b.stop - 1}" for b in names]
    return f"{what}{'s' if sum(map(len, names)) > 1 else ''} {', '.join(parts)}"


def _algorithm(entry: Algorithm) -> Iterator[str]:
    size = _ranks(entry)
    yield from (f"### {entry.name}", "", entry.summary, *_description(entry), "")
    yield from _facts(entry)
    yield ""
    nodes = f" on {Choice(entry).placement(size)}" if entry.placed else ""
    yield from (f"| cost | closed form | {size} ranks{nodes} |", "| --- | --- | --- |")
    for cost in costs(Choice(entry), size):
        unit = " n" if cost.of_n else ""
        yield f"| {cost.what} | `{cost.form}` | {cost.value}{unit} |"
    title = f"{entry.collective.name} {entry.name} on {size} ranks"
    yield from ("", f"![{title}]({_picture(entry)})", "")


def _description(entry: Algorithm) -> Iterator[str]:
    """Yield what the docstring says between its first line and its sections."""
    text = (inspect.getdoc(entry.generate) or "").partition("\n")[2]
    paragraphs = re.split(r"\n\S[^\n]*\n-{3,}\n", f"\n{text}\n")[0].strip()
    if paragraphs:
        yield from ("", paragraphs)


def _facts(entry: Algorithm) -> Iterator[str]:
    names = ", ".join(f"`{name}`" for name in (spelling(entry), *entry.aliases))
    yield f"- Name: {names}."
    for sentence in requirements(entry):
        yield f"- It {sentence}."
    if entry.collective.reduces and not entry.commutative:
        yield "- Operands keep the order of the ranks, so that any operator is right."
    if entry.collective.reduces and not entry.same_bits:
        yield "- Ranks may get different bits."
    for parameter in entry.parameters.values():
        default, least = format_value(parameter.default), parameter.minimum
        yield f"- Parameter `{parameter.name}`: {default} by default, at least {least}."
    if (size := _ranks(entry)) != PICTURED:
        yield f"- It isn't defined for {PICTURED} ranks, so {size} are shown."
    if entry.source:
        yield f"- Reference: {entry.source}"
