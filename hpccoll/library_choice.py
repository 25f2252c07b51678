"""The MPI library's own algorithms as they are written: ``library:ring``, ``library:all``.

Which names there are only the running library knows, so here they are read and not looked up.
"""

from dataclasses import dataclass, field

from hpccoll.errors import UsageError
from hpccoll.registry import LIBRARY
from hpccoll.spelling import settings

ALL = "all"
PREFIX = f"{LIBRARY}:"


@dataclass(frozen=True, slots=True)
class LibraryChoice:
    """A name of the library's, or `ALL` of them, and values of its variables.

    Attributes
    ----------
    parameters
        Names as the library's variables end, and values: ``segmentsize``, ``tree_kval``.
    """

    name: str
    parameters: dict[str, int] = field(default_factory=dict)

    @property
    def algorithm(self) -> str:
        """Return the choice without its parameters: ``library:ring``."""
        return PREFIX + self.name

    @property
    def label(self) -> str:
        """Return the spelling that chooses this."""
        given = (f":{key}={value}" for key, value in sorted(self.parameters.items()))
        return self.algorithm + "".join(given)


def library_choices(text: str) -> list[LibraryChoice]:
    """Return the choices that ``library:NAME[:key=value[:key=value]]`` spells, ranges expanded.

    Raises
    ------
    UsageError
        It can't be read, or a value is a list.
    """
    name, *written = text.removeprefix(PREFIX).split(":")
    if not name:
        raise UsageError(f"{text!r}: write {PREFIX}NAME or {PREFIX}{ALL}; hpccoll list --library")
    found = []
    for values in settings(written, text):
        numbers = {key: value for key, value in values.items() if isinstance(value, int)}
        if len(numbers) < len(values):
            raise UsageError(f"{text!r}: the library's variables take numbers, not lists")
        found.append(LibraryChoice(name, numbers))
    return found
