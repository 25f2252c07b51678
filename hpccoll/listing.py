"""The catalogue in words: for the terminal, and as the README's table; what an algorithm costs."""

import re
from dataclasses import dataclass
from fractions import Fraction

from hpccoll.choice import Algorithm, Choice
from hpccoll.collectives import COLLECTIVES
from hpccoll.cost import LETTERS, evaluate
from hpccoll.parameter import format_value
from hpccoll.registry import catalogue
from hpccoll.symbolic import Counts

LEGEND = (
    f"{LETTERS}. rounds: steps on the critical path; sent, reduced: bytes, of the rank with most. "
    f"=N: where it isn't given, the model chooses it for the least time, by what a step "
    "and a byte are measured to cost when a run starts. "
    "With LN and Lq: made of the parts shown, on nodes of equally many ranks."
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
    model = [f"N for the least time {algorithm.time}"] if algorithm.chosen else []
    lines = [algorithm.summary, costs, *model, *requirements(algorithm), algorithm.source]
    aliases = f"  (also {', '.join(algorithm.aliases)})" if algorithm.aliases else ""
    return "\n".join([f"  {spelling(algorithm)}{aliases}", *(f"      {line}" for line in lines)])


def spelling(algorithm: Algorithm) -> str:
    """Return how an algorithm is chosen, with its parameters and their defaults."""
    tunables = (
        f"[:{p.name}={'N' if p.name in algorithm.chosen else format_value(p.default)}]"
        for p in algorithm.parameters.values()
    )
    return algorithm.name + "".join(tunables)


def requirements(algorithm: Algorithm) -> list[str]:
    """Return what an algorithm needs, if anything, in a sentence that lacks its subject."""
    needs = [algorithm.requires.sentence] if algorithm.requires else []
    if algorithm.commutative:
        needs.append("a commutative operator")
    return [f"needs {' and '.join(needs)}"] if needs else []


@dataclass(frozen=True, slots=True)
class Cost:
    """One cost of an algorithm: its value and the closed form of it.

    Attributes
    ----------
    form
        Empty where it doesn't hold (see `Choice.as_declared`), and the value was counted.
    value
        A number, or if `of_n` a share of n.
    """

    what: str
    form: str
    value: Fraction
    of_n: bool


def costs(choice: Choice, size: int, counts: Counts | None = None) -> tuple[Cost, ...]:
    """Return what a choice costs on `size` ranks: rounds, messages, bytes sent and reduced.

    Without `counts`, of an execution, its closed forms must hold.
    """
    entry, length, nodes = choice.algorithm, choice.vector(size), choice.placement(size).count
    table = (
        ("rounds on the critical path", entry.rounds, "steps", False),
        ("messages sent per rank, at most", entry.messages, "messages", False),
        ("bytes sent per rank, at most", entry.sent, "sent", True),
        ("bytes reduced per rank, at most", entry.reduced, "reduced", True),
    )
    found = []
    for what, form, name, of_n in table:
        if counts is None or choice.as_declared(size):
            value = evaluate(form, size, length, choice.values, nodes)
        else:
            form, value = "", Fraction(getattr(counts, name))
        found.append(Cost(what, form, value / (length if of_n else 1), of_n))
    return tuple(found)


def letters(forms: str, choice: Choice, size: int) -> str:
    """Explain the letters in closed forms, and those in the explanations, with their values."""
    used = {*re.findall(r"[A-Za-z]\w*", forms), "n"}
    clauses: list[str] = []
    for clause in reversed(LETTERS.split(", ")):
        letter = clause.split()[0]
        if letter in used:
            used |= set(re.findall(r"[A-Za-z]\w*", clause))
            nodes = choice.placement(size).count
            value = evaluate(letter, size, 0, choice.values, nodes)
            clauses.insert(0, clause if letter in "pn" else f"{clause} = {value}")
    return ", ".join(clauses)


def _wrapped(sentence: str) -> str:
    from textwrap import fill

    return fill(sentence, 100)


def index() -> str:
    """Return the names of all algorithms as a Markdown table that leads to the pages."""
    rows = ["| collective | algorithms |", "| --- | --- |"]
    for name in COLLECTIVES:
        names = ", ".join(f"`{algorithm.name}`" for algorithm in catalogue(name))
        rows.append(f"| [{name}](docs/{name}.md) | {names} |")
    return "\n".join(rows)


def markdown(of: str) -> str:
    """Return one collective's part of the catalogue as a Markdown table."""
    rows = [
        "| algorithm | what it does | rounds | bytes sent | bytes reduced | needs |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for algorithm in catalogue(of):
        needs = "; ".join(requirements(algorithm)).removeprefix("needs ") or "any number of ranks"
        reduced = f"`{algorithm.reduced}`" if algorithm.collective.reduces else "-"
        rows.append(
            f"| `{spelling(algorithm)}` | {algorithm.summary} "
            f"| `{algorithm.rounds}` | `{algorithm.sent}` | {reduced} | {needs} |"
        )
    return "\n".join([*rows, "", LEGEND])
