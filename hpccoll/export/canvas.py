"""A sheet of SVG: shapes and words with presentation attributes only, so that it can be embedded.

There are no style sheets, scripts, identifiers or links: nothing clashes with the page around it.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from html import escape

INK, GREY = "#222222", "#666666"
"""Colours of words."""

JOINT = "\u00a0"
"""A space at which no line is broken."""

FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
_NARROW, _WIDE = frozenset("ijl.,:;'|!()[]/ tfrI-"), frozenset("mwMW→⌊⌋⌈⌉…%@+=")


def width(words: str, size: float) -> float:
    """Return the room that words need in the widest of these fonts, in units of the sheet."""
    return size * sum(
        0.42 if c in _NARROW else 0.9 if c in _WIDE else 0.72 if c.isupper() else 0.63
        for c in words
    )


def lines(words: str, room: float, size: float) -> Iterator[str]:
    """Break words into lines that are no wider than `room`, not within parts joined by `JOINT`."""
    line = ""
    for word in words.split(" "):
        word = word.replace(JOINT, " ")
        if line and width(f"{line} {word}", size) > room:
            yield line
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield line


def number(value: float) -> str:
    """Return a coordinate with at most one digit after the point."""
    return f"{value:.1f}".removesuffix(".0")


class Canvas:
    """Elements in the order in which they are painted."""

    def __init__(self) -> None:
        self._parts: list[str] = []

    @contextmanager
    def group(self, **attributes: object) -> Iterator[None]:
        """Give all elements within the same attributes; underscores become hyphens."""
        self._parts.append(f"<g{_attributes(attributes)}>")
        yield
        self._parts.append("</g>")

    def path(self, data: str, **attributes: object) -> None:
        """Draw a path, if it isn't empty."""
        if data:
            self._parts.append(f'<path d="{data}"{_attributes(attributes)}/>')

    def rectangle(
        self, x: float, y: float, width: float, height: float, **attributes: object
    ) -> None:
        """Draw a rectangle."""
        self._parts.append(
            f'<rect x="{number(x)}" y="{number(y)}" width="{number(width)}" '
            f'height="{number(height)}"{_attributes(attributes)}/>'
        )

    def text(self, x: float, y: float, words: str, **attributes: object) -> None:
        """Write words; (x, y) is on their base line."""
        self._parts.append(
            f'<text x="{number(x)}" y="{number(y)}"{_attributes(attributes)}>'
            f"{escape(words, quote=False)}</text>"
        )

    def svg(
        self, width: float, height: float, title: str, description: str, ground: str = "#fff"
    ) -> str:
        """Return the whole document on a white ground, or on another colour or ``none``."""
        size = f"{number(width)} {number(height)}"
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {size}" '
                f'width="{number(width)}" height="{number(height)}" role="img" '
                f'font-family="{FONT}" font-size="10" fill="none">',
                f"<title>{escape(title, quote=False)}</title>",
                f"<desc>{escape(description, quote=False)}</desc>",
                f'<rect width="{number(width)}" height="{number(height)}" fill="{ground}"/>',
                *self._parts,
                "</svg>\n",
            ]
        )


def _attributes(attributes: dict[str, object]) -> str:
    def written(value: object) -> str:
        return number(value) if isinstance(value, float) else escape(str(value))

    return "".join(f' {k.replace("_", "-")}="{written(v)}"' for k, v in attributes.items())
