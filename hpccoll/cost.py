"""Closed forms: what an algorithm promises to cost, as expressions that are printed and evaluated.

The letters are p (ranks), n (bytes of the full vector), k (the radix: 2 if the algorithm has none,
and never above p), l = ⌊log_k p⌋, P = k^l, e = p - P (ranks that a fold leaves out),
E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉ and S (segments). A parameter also stands for
itself under its own name; an empty list is the prime factors of p. Results are exact
(`fractions.Fraction`).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil

from hpccoll.registry import Choice
from hpccoll.shapes import ceil_log, power_below, prime_factors, radix_within

LETTERS = (
    "p ranks, n bytes of the full vector, k radix (2 where there is none; at most p), l = ⌊log_k p⌋, "
    "P = k^l, e = p-P, E = ⌈log_k(e/(k-1))⌉, L = ⌈log2 p⌉, Lk = ⌈log_k p⌉, S segments"
)
"""What the letters of closed forms mean, in one sentence."""


def evaluate(
    form: str, p: int, n: int = 0, parameters: Mapping[str, object] | None = None
) -> Fraction:
    """Return the value of a closed form for `p` ranks and a vector of `n` bytes.

    >>> evaluate("2*n*(p-1)/p", p=3, n=6)
    Fraction(8, 1)
    """
    given = parameters or {}
    radix = radix_within(p, int(str(given.get("radix", 2))))
    core = power_below(p, radix)
    letters = {name: _operand(value, p) for name, value in given.items()} | {
        "p": Fraction(p),
        "n": Fraction(n),
        "P": Fraction(core),
        "l": ceil_log(core, radix),
        "L": ceil_log(p),
        "e": p - core,
        "E": ceil_log(-(-(p - core) // (radix - 1)), radix),
        "S": int(str(given.get("segments", 1))),
        "k": Fraction(radix),
        "Lk": ceil_log(p, radix),
        "log2": lambda size: ceil_log(int(size)),
        "ceil": ceil,
        "len": len,
        "max": max,
        "min": min,
        "sum": sum,
    }
    # Forms are written by an algorithm's author beside its code, so they are trusted like code.
    return Fraction(eval(form, {"__builtins__": {}}, letters))


@dataclass(frozen=True, slots=True)
class Cost:
    """One closed form of an algorithm and its value.

    Attributes
    ----------
    value
        A number, or if `of_n` a share of n.
    """

    what: str
    form: str
    value: Fraction
    of_n: bool


def costs(choice: Choice, size: int) -> tuple[Cost, ...]:
    """Return what a choice costs on `size` ranks: rounds, messages, bytes sent and reduced."""
    entry, length = choice.algorithm, choice.vector(size)
    table = (
        ("rounds on the critical path", entry.rounds, False),
        ("messages sent per rank, at most", entry.messages, False),
        ("bytes sent per rank, at most", entry.sent, True),
        ("bytes reduced per rank, at most", entry.reduced, True),
    )
    return tuple(
        Cost(
            what, form, evaluate(form, size, length, choice.values) / (length if of_n else 1), of_n
        )
        for what, form, of_n in table
    )


def letters(forms: str, choice: Choice, size: int) -> str:
    """Explain the letters in closed forms, and those in the explanations, with their values."""
    used = {*re.findall(r"[A-Za-z]\w*", forms), "n"}
    clauses: list[str] = []
    for clause in reversed(LETTERS.split(", ")):
        letter = clause.split()[0]
        if letter in used:
            used |= set(re.findall(r"[A-Za-z]\w*", clause))
            value = evaluate(letter, size, 0, choice.values)
            clauses.insert(0, clause if letter in "pn" else f"{clause} = {value}")
    return ", ".join(clauses)
def _operand(value: object, p: int) -> object:
    """Return what the value of a parameter is in a closed form."""
    if isinstance(value, int):
        return Fraction(value)
    return prime_factors(p) if value == () else value
