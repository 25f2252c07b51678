"""Where the messages of a round are received: straight in their places, if nothing forbids it."""

from hpccoll.layout import INPUT, Region
from hpccoll.local_work import written_buffer
from hpccoll.overlaps import Overlaps
from hpccoll.places import Places
from hpccoll.schedule import DATA, Combine, Ranges, Recv, Round, Send, ranges


class Landings:
    """The places where a round's messages are received; `sent` are the regions that it sends."""

    def __init__(self, places: Places, step: Round, sent: list[Region]) -> None:
        self.places, self.step = places, step
        self.busy, self.written = Overlaps(), Overlaps()
        for number, region in enumerate(sent):
            self.busy.add(region, number)
        for place, action in enumerate(step.actions):
            if not isinstance(action, Send) and written_buffer(action) == DATA:
                for part in ranges(action.blocks):
                    self.written.add(_named(part), place)

    def choose(self, index: int, names: Ranges) -> Region:
        """Choose where a message of action `index` is received, and claim it for this round."""
        action = self.step.actions[index]
        assert isinstance(action, Recv | Combine)
        count = self.places.count(names)
        homes = self.places.homes(action.buffer, names) or []
        fits = len(homes) == 1 and not self.busy.any(homes[0])
        if isinstance(action, Combine) and fits:
            # The accumulator must still live elsewhere, or the message would overwrite it; and
            # nothing else may write the place before the message is reduced.
            fits = all(
                place.space == INPUT for place in self.places.located(action.buffer, names)
            ) and not self._written_before(index, names)
        landing = homes[0] if fits else self.places.temporary(count)
        self.busy.add(landing, -1)
        return landing

    def _written_before(self, index: int, names: Ranges) -> bool:
        """Tell whether another action writes some of `names` before action `index` acts."""
        return any(
            place != index and (place < index or isinstance(self.step.actions[place], Recv))
            for part in names
            for place in self.written.find(_named(part))
        )


def _named(part: range) -> Region:
    """Return a range of blocks as if they were elements."""
    return Region(DATA, part.start, len(part))
