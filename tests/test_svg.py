"""The picture as SVG: whole, embeddable, and legible by its geometry."""

import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.export import arrows, columns, strips, svg
from hpccoll.export.canvas import lines, width
from hpccoll.listing import costs
from hpccoll.spelling import choose
from hpccoll.trace import watch
from hpccoll.verify import prove

SVG = "{http://www.w3.org/2000/svg}"
SIZES = (1, 2, 3, 6, 8)


def drawn(of, name, size, root=0):
    (choice,) = choose(of, name)
    return ElementTree.fromstring(svg.text(choice, size, root))


def paths(picture, **attributes):
    """Return the data of all paths that have the attributes."""
    return [
        path.get("d")
        for path in picture.iter(SVG + "path")
        if all(path.get(name.replace("_", "-")) == value for name, value in attributes.items())
    ]


def boxes(picture, **attributes):
    """Return (left, top, right, bottom) of the rectangles in paths."""
    found = re.findall(r"M(\S+) (\S+?)h(\S+?)v-(\S+?)h-", " ".join(paths(picture, **attributes)))
    return [
        (x, bottom - h, x + w, bottom) for x, bottom, w, h in (map(float, box) for box in found)
    ]


def labels(picture):
    """Return the labels of messages with the boxes that they take."""
    return [
        ((x, y - 8, x + width(text.text, arrows.LABEL), y + 2), text.text)
        for group in picture.iter(SVG + "g")
        if group.get("font-size") == "10" and group.get("text-anchor") is None
        for text in group.iter(SVG + "text")
        for x, y in [(float(text.get("x")), float(text.get("y")))]
    ]


def overlap(a, b):
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]


def words(picture):
    return " ".join(text.text for text in picture.iter(SVG + "text"))


@pytest.mark.parametrize("size", [*SIZES, 16, 20])
def test_every_message_is_an_arrow(entry, size):
    if not entry.supports(size):
        return
    choice = Choice(entry)
    shown, _ = columns.columns(watch(choice, size, states=False))
    if not all(column.shown for column in shown):
        return
    picture = ElementTree.fromstring(svg.text(choice, size))
    total = prove(choice, size).counts.total
    in_legend = len({path.get("stroke") for path in picture.iter(SVG + "path")} - {None, "#fff"})
    assert sum(data.count("C") for data in paths(picture)) == total
    assert in_legend
    assert sum(data.count("l-5.5 -2.8v5.6z") for data in paths(picture)) >= total


@pytest.mark.parametrize("size", SIZES)
def test_rounds_are_those_of_the_critical_path(entry, size):
    if not entry.supports(size):
        return
    choice = Choice(entry)
    steps = prove(choice, size).counts.steps
    picture = ElementTree.fromstring(svg.text(choice, size))
    assert [int(n) for n in re.findall(r"round (\d+)", words(picture))] == [*range(1, steps + 1)]


@pytest.mark.parametrize("size", [2, 6, 8, 16])
def test_no_label_lies_over_another_or_over_what_a_rank_holds(entry, size):
    if not entry.supports(size):
        return
    picture = ElementTree.fromstring(svg.text(Choice(entry), size))
    found = [box for box, _ in labels(picture)]
    frames = boxes(picture, stroke=strips.FRAME)
    _, _, right, bottom = map(float, picture.get("viewBox").split())
    assert not any(overlap(a, b) for a, b in combinations(found, 2))
    assert not any(overlap(label, frame) for label in found for frame in frames)
    assert all(x >= 0 and y >= 0 and x2 <= right and y2 <= bottom for x, y, x2, y2 in found)


@pytest.mark.parametrize("size", [2, 5, 8])
def test_labels_are_the_blocks_that_are_received(entry, size):
    if not entry.supports(size) or Choice(entry).grid(size) == 1:
        return
    trace = watch(Choice(entry), size, states=False)
    if arrows.received_at_most(trace) > arrows.LABELS_PER_RANK:
        return
    found = [text for _, text in labels(ElementTree.fromstring(svg.text(Choice(entry), size)))]
    sent = [arrows.label(a, trace.grid) for step in trace.arrows.values() for a in step]
    assert sorted(found) == sorted(filter(None, sent))


@pytest.mark.parametrize("size", [2, 3, 8])
def test_at_the_end_what_is_wanted_is_whole(entry, size):
    """The blue cells of the last column, in each lane, are at least the wanted blocks."""
    if not entry.supports(size):
        return
    grid, natural = Choice(entry).grid(size), entry.blocks(size)
    shape = strips.strip(size, grid)
    picture = ElementTree.fromstring(svg.text(Choice(entry), size))
    frames = boxes(picture, stroke=strips.FRAME)
    last = [frame for frame in frames if frame[0] == max(f[0] for f in frames[-size:])][-size:]
    whole = boxes(picture, fill=strips.WHOLE)
    for rank, frame in enumerate(sorted(last, key=lambda frame: frame[1])):
        for block in entry.collective.wanted(rank, size, 0, natural):
            row, column = divmod(block * grid // natural, shape.columns)
            x = frame[0] + (column + 0.5) * shape.cell_width
            y = frame[1] + (row + 0.5) * shape.cell_height
            assert any(b[0] <= x <= b[2] and b[1] <= y <= b[3] for b in whole)


def test_cells_are_filled_as_high_as_their_share():
    picture = drawn("allreduce", "recursive-doubling", 4)
    (height,) = {frame[3] - frame[1] for frame in boxes(picture, stroke=strips.FRAME)}
    found = {round((b[3] - b[1]) / height, 2) for b in boxes(picture, fill=strips.PART)}
    assert found == {0.25, 0.5}
    assert {round((b[3] - b[1]) / height, 2) for b in boxes(picture, fill=strips.WHOLE)} == {1.0}


def test_the_costs_are_those_of_the_closed_forms(entry):
    size = max(s for s in range(1, 9) if entry.supports(s))
    said = words(ElementTree.fromstring(svg.text(Choice(entry), size)))
    for name, cost in zip(
        ("rounds", "messages", "sent", "reduced"), costs(Choice(entry), size), strict=True
    ):
        unit = " n" if cost.of_n else ""
        shown = f"{name} {cost.value}{unit} = {cost.form}" in said.replace("\u00a0", " ")
        assert shown or (name == "reduced" and not cost.value)


def test_nothing_in_it_clashes_with_a_page_around_it(entry):
    size = max(s for s in range(1, 9) if entry.supports(s))
    picture = ElementTree.fromstring(svg.text(Choice(entry), size))
    tags = {element.tag.removeprefix(SVG) for element in picture.iter()}
    assert tags <= {"svg", "title", "desc", "rect", "path", "text", "g"}
    names = {name for element in picture.iter() for name in element.attrib}
    assert not names & {"id", "class", "style", "href"}
    assert picture.find(SVG + "title").text.startswith(entry.collective.name)


def luminance(colour):
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_whole_and_partial_cells_differ_without_colour():
    contrast = (luminance(strips.PART) + 0.05) / (luminance(strips.WHOLE) + 0.05)
    assert contrast > 2
    assert (1 + 0.05) / (luminance(strips.WHOLE) + 0.05) > 4.5


def test_reductions_are_marked_and_where_order_counts_so_is_the_side():
    ordered = drawn("allreduce", "recursive-doubling", 8)
    free = drawn("allreduce", "ring", 8)
    circle = re.compile(r"a4\.0 4\.0 0 1 0 8\.0 0a")
    for picture, sides in ((ordered, True), (free, False)):
        signs = sum(len(circle.findall(data)) for data in paths(picture, stroke=arrows.REDUCE))
        assert signs >= 8 * 3
        halves = [data for data in paths(picture) if "a4.0 4.0 0 0" in data]
        assert bool(halves) == sides


def test_many_rounds_alike_are_left_out_and_said():
    picture = drawn("allreduce", "ring", 64)
    said = words(picture)
    assert re.findall(r"round (\d+)", said) == ["1", "63", "64", "126"]
    assert "rounds 1–63: every r →+ r+1 block r-1, r-2, …, r-63" in " ".join(said.split())
    assert "rounds 64–126: every r → r+1 block r, r-1, …, r-62" in " ".join(said.split())


def test_rounds_that_are_not_alike_are_cut_in_the_middle():
    trace = watch(*choose("bcast", "scatter-allgather-ring"), 64, states=False)
    shown, notes = columns.columns(trace)
    (gap,) = (column for column in shown if not column.shown)
    steps = [step for column in shown for step in range(column.first, column.last + 1)]
    assert steps == [*range(1, trace.steps + 1)]
    assert len(shown) == columns.AT_MOST_OF_MANY_RANKS + 1
    assert notes == [f"rounds {gap.first}–{gap.last} are left out"]


def test_more_messages_than_labels_have_room_for_are_drawn_without(enter):
    from hpccoll.schedule import Recv, Round, Send

    def all_at_once(rank, size):
        others = [other for other in range(size) if other != rank]
        yield Round(*(Send(o, rank) for o in others), *(Recv(o, o) for o in others))

    choice = enter("allgather", all_at_once, rounds="1", messages="p-1", sent="n*(p-1)/p")
    picture = ElementTree.fromstring(svg.text(choice, 8))
    assert not labels(picture)
    assert "no labels: a rank receives up to 7 messages in a round" in words(picture)
    assert sum(data.count("C") for data in paths(picture)) == 56
    assert len(labels(ElementTree.fromstring(svg.text(choice, 6)))) == 30


def test_only_signs_that_occur_are_explained(enter):
    """The sides of operands aren't drawn where a rank receives too much to mark it."""
    from hpccoll.schedule import LEFT, RIGHT, Combine, Round, Send

    def all_in_order(rank, size):
        yield Round(
            *(Send(o, 0) for o in range(size) if o != rank),
            *(Combine(o, 0, LEFT) for o in reversed(range(rank))),
            *(Combine(o, 0, RIGHT) for o in range(rank + 1, size)),
        )

    choice = enter("allreduce", all_in_order, blocks=1)
    few, many = (words(ElementTree.fromstring(svg.text(choice, size))) for size in (4, 8))
    for side in ("left", "right"):
        assert f"received operand stands {side} of own" in few
        assert f"received operand stands {side} of own" not in many
    assert "nothing" not in few


def test_signals_and_scratch_have_signs_of_their_own(enter):
    from hpccoll.schedule import Combine, Recv, Reduce, Round, Send

    def asks_first(rank, size):
        other = 1 - rank
        yield Round(Send(other), Recv(other))
        yield Round(Send(other, 0), Recv(other, 0, buffer=1), Reduce(0, 0, 1))
        yield Round(Send(other, 1), Combine(other, 1))

    choice = enter("allreduce", asks_first, rounds="3", sent="n", reduced="n", commutative=True)
    picture = ElementTree.fromstring(svg.text(choice, 2))
    assert sum(data.count("C") for data in paths(picture, stroke=arrows.SIGNAL)) == 2
    assert sorted(text for _, text in labels(picture)) == ["1", "1", "s1:0", "s1:0"]
    assert "signal without data" in words(picture)
    assert "s1: into scratch buffer 1" in words(picture)


def test_as_many_blocks_as_pairs_of_ranks_form_a_square():
    assert strips.strip(8, 64).columns == strips.strip(8, 64).rows == 8
    assert strips.strip(64, 4096) is None
    assert strips.strip(4, 0) is None


def test_of_a_barrier_it_is_drawn_who_is_known_to_have_come():
    size = 6
    picture = drawn("barrier", "dissemination", size)
    (cell,) = {(f[2] - f[0]) / size for f in boxes(picture, stroke=strips.FRAME)}
    columns_of = {}
    for x, _, right, _ in boxes(picture, fill=strips.WHOLE):
        start = max(f[0] for f in boxes(picture, stroke=strips.FRAME) if f[0] <= x + 0.1)
        columns_of[start] = columns_of.get(start, 0) + round((right - x) / cell)
    # Every round doubles what is known, up to all.
    assert [known for _, known in sorted(columns_of.items())] == [6 * n for n in (1, 2, 4, 6)]
    assert sum(data.count("C") for data in paths(picture, stroke=arrows.SIGNAL)) == 18
    assert "this rank is known to have come" in words(picture)


def test_a_scan_is_finished_with_the_inputs_up_to_the_rank():
    picture = drawn("scan", "recursive-doubling", 4)
    frames = boxes(picture, stroke=strips.FRAME)
    whole = [b for b in boxes(picture, fill=strips.WHOLE) if b[1] > min(f[1] for f in frames) - 1]
    starts = sorted({f[0] for f in frames})
    found = [sum(b[0] == start for b in whole) for start in starts]
    assert found == [1, 2, 4]


def test_what_an_algorithm_cannot_do_is_refused():
    (choice,) = choose("allgather", "recursive-doubling")
    with pytest.raises(UnsupportedError, match="power-of-two"):
        svg.text(choice, 6)


def test_lines_are_no_wider_than_their_room():
    text = "one two three four five six seven"
    found = list(lines(text, 60, 10))
    assert " ".join(found) == text
    assert len(found) > 1
    assert all(width(line, 10) <= 60 for line in found)
