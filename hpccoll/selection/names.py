"""The names of the library's own algorithms, for a terminal."""

from collections.abc import Iterator
from textwrap import fill

from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UnsupportedError
from hpccoll.library_choice import ALL, PREFIX
from hpccoll.selection.family import Family
from hpccoll.selection.selections import detect

_INDENT = " " * 6


def text(library: str, of: str | None = None) -> str:
    """Return the names for one collective or all, by the MPI functions that hpccoll calls.

    Parameters
    ----------
    library
        Its name and version.

    Raises
    ------
    UnsupportedError
        The library lets nothing be chosen by name while it runs.
    """
    family = detect(library)
    sections = [
        "\n".join([name, *_functions(family, COLLECTIVES[name].baseline)])
        for name in (COLLECTIVES if of is None else (of,))
    ]
    use = (
        f"hpccoll bench COLLECTIVE -a {PREFIX}NAME[:PARAMETER=VALUE] or -a {PREFIX}{ALL}; not "
        "every algorithm can be applied to every message, and a parameter concerns only some"
    )
    return "\n\n".join([library, *sections, fill(use, 100)])


def _functions(family: Family, functions: tuple[str, str]) -> Iterator[str]:
    for function in dict.fromkeys(functions):
        yield f"  {function}"
        try:
            names = list(family.numbers(function))
        except UnsupportedError as error:
            yield f"{_INDENT}{error}"
            continue
        yield _wrapped(", ".join(names))
        if parameters := sorted(family.parameters(function)):
            yield _wrapped("parameters: " + ", ".join(parameters))


def _wrapped(words: str) -> str:
    return fill(words, 100, initial_indent=_INDENT, subsequent_indent=_INDENT)
