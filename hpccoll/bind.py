"""Binding: a schedule and a message become a plan.

The schedule is written as if in place on one buffer. Binding decides where every block really
lives: it is read from the caller's input until it is first written, received and reduced straight
into its place in the output, and kept in scratch only where the output has no place for it. There
is no initial copy, and local work is put off until the next round's messages are in flight.
"""

from dataclasses import dataclass

from hpccoll.choice import Choice
from hpccoll.instructions import Instructions
from hpccoll.landings import Landings
from hpccoll.layout import INPUT, SCRATCH, Message, Region
from hpccoll.local_work import Incoming, LocalWork
from hpccoll.messages import Cutting
from hpccoll.places import Places
from hpccoll.plan import Plan, PostRecv, PostSend, Reduce, Scale
from hpccoll.schedule import DATA, Combine, Ranges, Recv, Round, Send
from hpccoll.scratch import allocate
from hpccoll.segmentation import WHOLE, Segmentation

SHORT_BYTES = 512
"""Messages up to this size are sent before the round's receives are posted."""
LONG_BYTES = 1 << 16
"""From this size on messages wait for the receiver's consent, in every library."""


def bind(
    choice: Choice,
    rank: int,
    size: int,
    message: Message,
    segmentation: Segmentation = WHOLE,
) -> Plan:
    """Bind the schedule of `rank` to `message`.

    Raises
    ------
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """
    rounds = list(choice.schedule(rank, size, message.root, message.ordered))
    binder = _Binder(Places(choice, rank, size, message, rounds), rank, size, message, segmentation)
    binder.work.copy_untouched(rounds)
    binder.work.copy_gathered()
    for number, step in enumerate(rounds, 1):
        binder.add_round(step, number)
    return binder.finish()


@dataclass(frozen=True, slots=True)
class _Outgoing:
    action: Send
    names: Ranges
    regions: list[Region]


class _Binder:
    def __init__(
        self, places: Places, rank: int, size: int, message: Message, cut: Segmentation
    ) -> None:
        self.rank, self.size, self.message = rank, size, message
        self.segmentation = cut
        self.places = places
        self.instructions = Instructions()
        self.cutting = Cutting(places, rank, message.itemsize, cut)
        self.work = LocalWork(places, self.instructions)

    # Rounds

    def add_round(self, step: Round, number: int) -> None:
        """Add one round's messages and put its local work off."""
        self.places.round = number
        sends = [
            _Outgoing(action, names, self.places.located(action.buffer, names))
            for action in step.actions
            if isinstance(action, Send)
            for names in self.cutting.messages(action.blocks)
        ]
        landings = Landings(self.places, step, [r for send in sends for r in send.regions])
        receives = [
            Incoming(index, action, names, landings.choose(index, names))
            for index, action in enumerate(step.actions)
            if isinstance(action, Recv | Combine)
            for names in self.cutting.messages(action.blocks)
        ]
        self._wait_for_earlier(sends, number)
        pipelined = len(receives) == 1 and self._pipelined(step, sends, receives[0])
        pieces = [self.cutting.pieces(receive.landing, receive.action.peer) for receive in receives]
        if pipelined:
            pieces = [self._window(receives[0])]
        self._post(sends, receives, pieces, number, pipelined)
        self.instructions.flush()
        if number == 1:  # by now copied, and beside the blocks that it will be sent with
            self.places.where.update({(DATA, b): self.places.goal(b) for b in self.work.untouched})
        if pipelined:
            self._pipeline(receives[0], pieces[0], number)
            return
        self.work.act(step, receives)

    def _wait_for_earlier(self, sends: list[_Outgoing], number: int) -> None:
        """Wait for what is older than a round, and for the last one's receives if sends need them.

        If none does, the messages of two rounds are in flight, and the network never rests. If one
        does, this round's receives can wait as well: posted early they'd cost Open MPI a fifth.
        """
        needed = self._need_earlier(sends)
        self.instructions.wait_for(
            lambda post: post.round < number - 1 or (needed and isinstance(post, PostRecv))
        )

    def _need_earlier(self, sends: list[_Outgoing]) -> bool:
        """Tell whether some send needs what is received, or reduced, in earlier rounds.

        What a signal tells is that all before it has happened, and what follows one waits for it.
        """
        received = [
            post.region for post in self.instructions.flying.values() if isinstance(post, PostRecv)
        ]
        signal = not all(send.names for send in sends) or not all(r.count for r in received)
        if sends and received and signal:
            return True
        return any(
            self.instructions.needed(PostSend(0, send.action.peer, region, 0, 0))
            or self.instructions.receiving(region)
            for send in sends
            for region in send.regions
        )

    def _post(
        self,
        sends: list[_Outgoing],
        receives: list[Incoming],
        pieces: list[list[Region]],
        number: int,
        pipelined: bool,
    ) -> None:
        """Post a round's messages; of a pipelined receive only the window.

        Receives come first, so that what arrives goes straight to its place. But short messages are
        sent first: leaving earlier is worth more than the copy of one that comes early. And so are
        long ones to a peer that sends one, too: its consent to ours and ours to its share one
        connection with the data, and what agrees to a message must not wait until ours is through.
        """
        short = all(r.landing.count * self.message.itemsize <= SHORT_BYTES for r in receives)
        first = short or self._exchanges_long(sends, receives)
        if first:
            self._post_sends(sends, number)
        held_back: list[PostRecv] = []
        waiting: set[tuple[int, int]] = set()
        for receive, landings in zip(receives, pieces, strict=True):
            action = receive.action
            for landing in landings[: self.segmentation.window] if pipelined else landings:
                post = PostRecv(0, action.peer, landing, action.channel, number)
                # Matching is in order, so one receive held back holds back later ones of its peer.
                if (post.peer, post.channel) in waiting or self.instructions.needed(post):
                    held_back.append(post)
                    waiting.add((post.peer, post.channel))
                else:
                    self.instructions.emit(post)
        if not first:
            self._post_sends(sends, number)
        for post in held_back:
            self.instructions.prepare(post)
            self.instructions.emit(post)

    def _exchanges_long(self, sends: list[_Outgoing], receives: list[Incoming]) -> bool:
        """Tell whether long messages, or pieces of them, go to a peer and come from it."""

        def long(count: int, peer: int) -> bool:
            return min(count, self.cutting.piece(count, peer)) * self.message.itemsize >= LONG_BYTES

        peers = {r.action.peer for r in receives if long(r.landing.count, r.action.peer)}
        return any(
            s.action.peer in peers and long(self.places.count(s.names), s.action.peer)
            for s in sends
        )

    def _post_sends(self, sends: list[_Outgoing], number: int) -> None:
        for send in sends:
            for region in send.regions:
                self.instructions.flush(
                    self.instructions.needed(PostSend(0, send.action.peer, region, 0, number))
                )
            source = self.work.pack(send.names, send.regions)
            for piece in self.cutting.pieces(source, send.action.peer):
                self.instructions.emit(
                    PostSend(0, send.action.peer, piece, send.action.channel, number)
                )

    def _pipelined(self, step: Round, sends: list[_Outgoing], receive: Incoming) -> bool:
        """Tell whether the round's only receive is reduced piece by piece while it arrives.

        Nothing else may act in the round, and no reduction may have to wait for one of its sends:
        posting a receive would then depend on the progress of another message.
        """
        action = receive.action
        alone = all(isinstance(a, Send) or a is action for a in step.actions)
        whole = receive.landing.count <= self.cutting.piece(receive.landing.count, action.peer)
        if whole or not (isinstance(action, Combine) and alone):
            return False
        own = self.places.located(action.buffer, receive.names)
        targets = [*(self.places.homes(action.buffer, receive.names) or ()), *own]
        return not any(
            region.overlaps(target) and target.space != INPUT
            for send in sends
            for region in send.regions
            for target in targets
        )

    def _window(self, receive: Incoming) -> list[Region]:
        """Return where the pieces of a pipelined receive land.

        Where they don't stay, they take turns in a part of scratch that remains in the cache.
        """
        action = receive.action
        pieces = self.cutting.pieces(receive.landing, action.peer)
        own = self.places.located(action.buffer, receive.names)
        homes = self.places.homes(action.buffer, receive.names)
        stays = homes is None and any(place.space == INPUT for place in own)
        if receive.landing.space <= SCRATCH or stays:
            return pieces
        window, longest = self.segmentation.window, pieces[0].count
        turns = self.places.temporary(window * longest)
        return [
            Region(turns.space, index % window * longest, piece.count)
            for index, piece in enumerate(pieces)
        ]

    def _pipeline(self, receive: Incoming, pieces: list[Region], number: int) -> None:
        """Reduce the round's only receive piece by piece, and post the piece after the window."""
        action = receive.action
        assert isinstance(action, Combine)
        self.work.reduce(action.buffer, receive.names, pieces, action.side, True)
        work = iter(self.instructions.take())
        for index, piece in enumerate(pieces):
            left = piece.count
            while left:
                reduction = next(work)
                assert isinstance(reduction, Reduce)
                self.instructions.emit(reduction)
                left -= reduction.into.count
            if index + self.segmentation.window < len(pieces):
                landing = pieces[index + self.segmentation.window]
                self.instructions.emit(PostRecv(0, action.peer, landing, action.channel, number))

    # The end

    def finish(self) -> Plan:
        """Bring the result home, give temporaries their place in scratch, and return the plan."""
        self.instructions.flush()
        self.work.copy_home(
            block for block in self.places.wanted if block not in self.work.untouched
        )
        self.instructions.flush()
        if self.message.average and self.places.layout.result.count:
            self.instructions.emit(Scale(self.places.layout.result))
        self.instructions.wait(list(self.instructions.flying))
        issued, scratch = allocate(
            self.instructions.issued, self.places.temporaries, self.message.itemsize
        )
        slots = self.instructions.slots
        return Plan(
            self.rank, self.size, issued, self.places.layout, scratch, slots, self.work.packed
        )
