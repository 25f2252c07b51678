"""The catalogue in words: for the terminal, and as the README's table."""

from hpccoll.collectives import COLLECTIVES
from hpccoll.cost import LETTERS
from hpccoll.registry import Algorithm, catalogue, format_value

LEGEND = (
    f"{LETTERS}. rounds: steps on the critical path; sent, reduced: bytes, of the rank with most. "
    "With N and q: made of the parts shown, on nodes of equally many ranks."
)


def text(of: str | None = None) -> str:
    """Return the catalogue, or one collective's part of it, for a terminal."""
    sections = []
    for name in COLLECTIVES if of is None else (of,):
        entries = [_entry(algorithm) for algorithm in catalogue(name)]
        sections.append("\n\n".join([name, *entries]))
    return "\n\n\n".join([*sections, _wrapped(LEGEND)])


def _entry(algorithm: Algorithm) -> str:
    costs = f"rounds {algorithm.rounds}   sent {algorithm.sent}"
    if algorithm.collective.reduces:
        costs += f"   reduced {algorithm.reduced}"
    lines = [algorithm.summary, costs, *_requirements(algorithm), algorithm.source]
    aliases = f"  (also {', '.join(algorithm.aliases)})" if algorithm.aliases else ""
    return "\n".join([f"  {_spelling(algorithm)}{aliases}", *(f"      {line}" for line in lines)])


def _spelling(algorithm: Algorithm) -> str:
    tunables = (f"[:{p.name}={format_value(p.default)}]" for p in algorithm.parameters.values())
    return algorithm.name + "".join(tunables)


def _requirements(algorithm: Algorithm) -> list[str]:
    needs = [algorithm.requires.sentence] if algorithm.requires else []
    if algorithm.commutative:
        needs.append("a commutative operator")
    return [f"needs {' and '.join(needs)}"] if needs else []


def _wrapped(sentence: str) -> str:
    from textwrap import fill

    return fill(sentence, 100)


def markdown() -> str:
    """Return the catalogue as a Markdown table."""
    rows = [
        "| collective | algorithm | what it does | rounds | bytes sent | bytes reduced | needs |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for algorithm in catalogue():
        needs = "; ".join(_requirements(algorithm)).removeprefix("needs ") or "any number of ranks"
        reduced = f"`{algorithm.reduced}`" if algorithm.collective.reduces else "-"
        rows.append(
            f"| {algorithm.collective.name} | `{_spelling(algorithm)}` | {algorithm.summary} "
            f"| `{algorithm.rounds}` | `{algorithm.sent}` | {reduced} | {needs} |"
        )
    return "\n".join([*rows, "", LEGEND])
