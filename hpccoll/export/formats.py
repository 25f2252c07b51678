"""The formats of schedules by name, and by the suffix of a file."""

from importlib import import_module
from pathlib import Path

from hpccoll.choice import Choice
from hpccoll.errors import UsageError
from hpccoll.layout import Message

SUFFIXES = {"text": ".txt", "svg": ".svg", "json": ".json", "goal": ".goal", "msccl-xml": ".xml"}
"""Every format and the suffix of its files."""


def format_of(path: Path) -> str:
    """Return the format that a file's suffix means.

    Raises
    ------
    UsageError
        It means none.
    """
    for name, suffix in SUFFIXES.items():
        if path.suffix == suffix:
            return name
    raise UsageError(
        f"{path}: the suffix doesn't say the format; use {', '.join(SUFFIXES.values())} or "
        f"--format {'|'.join(SUFFIXES)}"
    )


def render(style: str, choice: Choice, size: int, message: Message) -> str:
    """Return the schedules of all ranks in a format; of the message, only goal reads the size.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks, or the format can't express it.
    VerificationError
        The schedule can't be executed; the message is the counterexample.
    """
    if style == "text":
        from hpccoll import draw

        return draw.text(choice, size, message.root) + "\n"
    if style == "goal":
        from hpccoll.export import goal

        return goal.text(choice, size, message)
    module = import_module(f"hpccoll.export.{style.removesuffix('-xml')}")
    text: str = module.text(choice, size, message.root)
    return text
