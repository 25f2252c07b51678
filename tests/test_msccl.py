"""MSCCL's XML: its structure, and what an interpreter of it computes in any order it allows."""

import random
from xml.etree import ElementTree

import pytest

from hpccoll.choice import Choice
from hpccoll.errors import UnsupportedError
from hpccoll.export import msccl
from hpccoll.spelling import choose

SENDS, RECEIVES = {"s"}, {"r", "rrc"}


class Interpreter:
    """Run a file: thread blocks side by side, sends synchronously, chunks as sets of inputs.

    A chunk is (block, ranks whose inputs it has). Whatever a thread block needn't wait for may come
    before: the next step is drawn at random.
    """

    def __init__(self, text, seed=0):
        self.algorithm = ElementTree.fromstring(text)
        self.random = random.Random(seed)
        self.blocks = {}
        self.memory = []
        for gpu in self.algorithm:
            self.memory.append({})
            for block in gpu:
                steps = [dict(step.items()) for step in block]
                assert [int(step["s"]) for step in steps] == [*range(len(steps))]
                self.blocks[int(gpu.get("id")), int(block.get("id"))] = (block, steps)
        self.over = dict.fromkeys(self.blocks, 0)

    def give(self, rank, buffer, offset, value):
        self.memory[rank][buffer, offset] = value

    def run(self):
        while moves := list(self._moves()):
            self._move(*self.random.choice(moves))
        left = [key for key, (_, steps) in self.blocks.items() if self.over[key] < len(steps)]
        assert not left, f"deadlock: {left}"

    def _next(self, key):
        """Return a thread block's next step if it needn't wait for another thread block."""
        _, steps = self.blocks[key]
        if self.over[key] == len(steps):
            return None
        step = steps[self.over[key]]
        awaited = (key[0], int(step["depid"]))
        if awaited[1] >= 0:
            assert self.blocks[awaited][1][int(step["deps"])]["hasdep"] == "1"
            if self.over[awaited] <= int(step["deps"]):
                return None
        return step

    def _moves(self):
        for key, (block, _) in self.blocks.items():
            step = self._next(key)
            if step is None or step["type"] in RECEIVES:
                continue
            if step["type"] not in SENDS:
                yield key, step, None, None
            elif (other := self._receiver(key[0], block)) and (taken := self._next(other)):
                assert taken["type"] in RECEIVES
                assert taken["cnt"] == step["cnt"]
                yield key, step, other, taken

    def _receiver(self, rank, block):
        """Return the thread block that takes what a thread block sends: there is one at most."""
        found = [
            key
            for key, (other, _) in self.blocks.items()
            if key[0] == int(block.get("send"))
            and int(other.get("recv")) == rank
            and other.get("chan") == block.get("chan")
        ]
        assert len(found) == 1
        return found[0]

    def _move(self, key, step, other, taken):
        for i in range(int(step["cnt"])):
            if step["type"] == "cpy":
                self._write(key[0], step, i, self._read(key[0], step, "src", i))
            elif step["type"] == "re":
                source, own = (self._read(key[0], step, which, i) for which in ("src", "dst"))
                self._write(key[0], step, i, self._reduced(source, own))
            elif step["type"] in SENDS:
                value = self._read(key[0], step, "src", i)
                if taken["type"] == "rrc":
                    value = self._reduced(value, self._read(other[0], taken, "src", i))
                self._write(other[0], taken, i, value)
            else:
                raise AssertionError(f"unknown type {step['type']}")
        self.over[key] += 1
        if other:
            self.over[other] += 1

    def _read(self, rank, step, which, i):
        return self.memory[rank][step[f"{which}buf"], int(step[f"{which}off"]) + i]

    def _write(self, rank, step, i, value):
        offset = int(step["dstoff"]) + i
        name = {"i": "i_chunks", "o": "o_chunks", "s": "s_chunks"}[step["dstbuf"]]
        assert 0 <= offset < int(self.algorithm[rank].get(name))
        assert step["dstbuf"] != "i", "the input is only read"
        self.memory[rank][step["dstbuf"], offset] = value

    @staticmethod
    def _reduced(a, b):
        assert a[0] == b[0], f"block {a[0]} is reduced with block {b[0]}"
        assert not a[1] & b[1], f"inputs of {a[1] & b[1]} twice"
        return a[0], a[1] | b[1]


def scaled(blocks, pieces):
    return [b * pieces + i for b in blocks for i in range(pieces)]


def check(choice, size, root=0, seed=0, text=None):
    """Run what the export gives and compare every output with the contract."""
    entry = choice.algorithm
    contract, natural = entry.collective, choice.blocks(size)
    pieces = choice.grid(size) // natural
    machine = Interpreter(text or msccl.text(choice, size, root), seed)
    in_place = machine.algorithm.get("inplace") == "1"
    for rank in range(size):
        held = scaled(contract.held(rank, size, root, natural), pieces)
        for chunk, block in enumerate(held):
            machine.give(rank, "o" if in_place else "i", chunk, (block, frozenset({rank})))
    machine.run()
    for rank in range(size):
        for chunk, block in enumerate(scaled(contract.wanted(rank, size, root, natural), pieces)):
            found, inputs = machine.memory[rank].get(("o", chunk), (None, None))
            assert found == block
            if contract.reduces:
                assert inputs == frozenset(
                    contract.sources(rank, size, root, block // pieces, natural)
                )


@pytest.mark.parametrize("size", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("seed", [1, 2])
def test_what_it_computes_is_the_contract_in_any_order(entry, size, seed):
    if not entry.supports(size):
        return
    root = size - 1 if entry.collective.rooted else 0
    if entry.collective.name in msccl.COLLECTIVES:
        check(Choice(entry), size, root, seed)
        return
    with pytest.raises(UnsupportedError, match=f"MSCCL has no {entry.collective.name}"):
        msccl.text(Choice(entry), size, root)


@pytest.mark.parametrize("size", [2, 5, 8])
def test_its_structure_is_what_the_runtime_reads(entry, size):
    if not entry.supports(size) or entry.collective.name not in msccl.COLLECTIVES:
        return
    algorithm = ElementTree.fromstring(msccl.text(Choice(entry), size))
    assert algorithm.get("coll") == msccl.COLLECTIVES[entry.collective.name]
    assert (
        [int(gpu.get("id")) for gpu in algorithm]
        == [*range(size)]
        == [*range(int(algorithm.get("ngpus")))]
    )
    # The runtime's own rule for chunks per loop.
    parts = {"allgather": (size, 1), "reduce_scatter": (1, size)}
    times = parts.get(algorithm.get("coll"), (1, 1))
    for gpu in algorithm:
        chunks = [int(gpu.get(name)) for name in ("i_chunks", "o_chunks")]
        loops = {c * t for c, t in zip(chunks, times, strict=True) if c}
        assert loops <= {int(algorithm.get("nchunksperloop"))}
        assert [int(block.get("id")) for block in gpu] == [*range(len(gpu))]
        for block in gpu:
            peers = [int(block.get(way)) for way in ("send", "recv")]
            assert all(-1 <= peer < size and peer != int(gpu.get("id")) for peer in peers)
            assert int(block.get("chan")) < int(algorithm.get("nchannels"))
            for step in block:
                assert step.get("type") in {"s", "r", "rrc", "re", "cpy", "nop"}
                assert int(step.get("cnt")) < 72
                assert int(step.get("depid")) < len(gpu)
                assert int(step.get("depid")) != int(block.get("id"))
                assert peers[0] >= 0 or step.get("type") not in SENDS
                assert peers[1] >= 0 or step.get("type") not in RECEIVES
            if len(block):  # a step that only waits comes before one that waits and acts
                pairs = zip(block, [*block][1:], strict=False)
                assert block[-1].get("type") != "nop"
                assert all(a.get("type") != "nop" or b.get("depid") != "-1" for a, b in pairs)


def test_every_root_is_exported():
    for of, name in (("bcast", "binomial"), ("reduce", "rabenseifner")):
        for root in range(5):
            check(*choose(of, name), 5, root)


def test_long_ranges_are_cut_to_what_a_step_can_take():
    for seed in range(3):
        check(*choose("allreduce", "ring:segments=80"), 2, seed=seed)


def test_a_ring_reduces_as_it_receives_and_never_copies():
    algorithm = ElementTree.fromstring(msccl.text(*choose("allreduce", "ring"), 4))
    kinds = [step.get("type") for step in algorithm.iter("step")]
    assert {kind: kinds.count(kind) for kind in set(kinds)} == {"s": 24, "rrc": 12, "r": 12}


@pytest.mark.parametrize(
    ("of", "name"), [("allreduce", "rabenseifner"), ("allreduce", "recursive-doubling")]
)
def test_without_its_dependencies_it_is_wrong_in_some_order(of, name):
    """So the interpreter does find a dependency that is missing."""
    (choice,) = choose(of, name)
    algorithm = ElementTree.fromstring(msccl.text(choice, 4))
    for step in algorithm.iter("step"):
        step.set("depid", "-1")
    assert is_wrong(choice, 4, ElementTree.tostring(algorithm, encoding="unicode"))


def is_wrong(choice, size, text):
    """Tell whether one of several orders gives something else than the contract."""
    try:
        for seed in range(10):
            check(choice, size, seed=seed, text=text)
    except (AssertionError, KeyError):
        return True
    return False


@pytest.mark.parametrize("name", ["rabenseifner", "ring:segments=2", "circulant"])
def test_every_dependency_counts_or_is_implied(name):
    """Of every single dependency left out, what remains is wrong in some order or still right.

    Pruning leaves out what others imply, so most that are left must matter.
    """
    (choice,) = choose("allreduce", name)
    text = msccl.text(choice, 4)
    total = sum(s.get("depid") != "-1" for s in ElementTree.fromstring(text).iter("step"))
    wrong = 0
    for index in range(total):
        algorithm = ElementTree.fromstring(text)
        steps = [step for step in algorithm.iter("step") if step.get("depid") != "-1"]
        steps[index].set("depid", "-1")
        wrong += is_wrong(choice, 4, ElementTree.tostring(algorithm, encoding="unicode"))
    assert wrong > total / 2


def test_what_cannot_be_expressed_is_refused_with_the_reason(enter):
    from hpccoll.schedule import Recv, Round, Send

    def signals(rank, size):
        yield Round(Send(1 - rank), Recv(1 - rank))
        yield Round(Send(1 - rank, rank), Recv(1 - rank, 1 - rank))

    with pytest.raises(UnsupportedError, match="a message without data can't be expressed"):
        msccl.text(enter("allgather", signals), 2)
    with pytest.raises(UnsupportedError, match="at most 256 steps of a thread block, this needs"):
        msccl.text(*choose("allreduce", "ring:segments=300"), 2)
