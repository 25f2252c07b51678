"""Closed forms: what an algorithm promises to cost, as expressions that are printed and evaluated.

The letters are p (ranks), n (bytes of the full vector), l = ⌊log2 p⌋, L = ⌈log2 p⌉, P = 2^l,
e = p - P and E = ⌈log2 e⌉ (ranks that a fold leaves out), S (segments), k (radix),
Lk = ⌈log_k p⌉, and for algorithms on nodes N (nodes), q (ranks of each), LN = ⌈log2 N⌉ and
Lq = ⌈log2 q⌉. Results are exact (`fractions.Fraction`).
"""

from collections.abc import Mapping
from fractions import Fraction
from math import ceil

from hpccoll.shapes import ceil_log, power_of_two_below

LETTERS = (
    "p ranks, n bytes of the full vector, l = ⌊log2 p⌋, L = ⌈log2 p⌉, P = 2^l, e = p-P, "
    "E = ⌈log2 e⌉, S segments, k radix, Lk = ⌈log_k p⌉, N nodes, q ranks of each, LN = ⌈log2 N⌉, "
    "Lq = ⌈log2 q⌉"
)
"""What the letters of closed forms mean, in one sentence."""


def evaluate(
    form: str,
    p: int,
    n: int = 0,
    parameters: Mapping[str, object] | None = None,
    nodes: int = 1,
) -> Fraction:
    """Return the value of a closed form for `p` ranks and a vector of `n` bytes.

    All `nodes` have equally many ranks.

    >>> evaluate("2*n*(p-1)/p", p=3, n=6)
    Fraction(8, 1)
    """
    given = parameters or {}
    radix = int(str(given.get("radix", 2)))
    core = power_of_two_below(p)
    letters = {
        "p": Fraction(p),
        "n": Fraction(n),
        "P": Fraction(core),
        "l": ceil_log(core),
        "L": ceil_log(p),
        "e": p - core,
        "E": ceil_log(p - core),
        "S": int(str(given.get("segments", 1))),
        "k": Fraction(radix),
        "Lk": ceil_log(p, radix),
        "N": Fraction(nodes),
        "q": Fraction(p, nodes),
        "LN": ceil_log(nodes),
        "Lq": ceil_log(p // nodes),
        "log2": lambda size: ceil_log(int(size)),
        "ceil": ceil,
        "max": max,
    }
    # Forms are written by an algorithm's author beside its code, so they are trusted like code.
    return Fraction(eval(form, {"__builtins__": {}}, letters))
