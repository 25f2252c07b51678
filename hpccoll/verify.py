"""The proof of an algorithm: right data, operand order, equal bits and costs, without MPI."""

from dataclasses import dataclass

from hpccoll.choice import Choice
from hpccoll.collectives import ALL, Collective
from hpccoll.combinators import rotate
from hpccoll.cost import evaluate
from hpccoll.errors import VerificationError
from hpccoll.obligations import EVERY_ROOT_UP_TO
from hpccoll.schedule import Round, Rounds, Send
from hpccoll.symbolic import Counts, Execution, Watcher


@dataclass(frozen=True, slots=True)
class Proof:
    """What was proven of one algorithm on one number of ranks, with one root."""

    choice: Choice
    size: int
    root: int
    counts: Counts


def prove(choice: Choice, size: int, root: int = 0) -> Proof:
    """Prove one algorithm on `size` ranks: data, order, equal bits, costs.

    A reduction to another root than 0 is proven twice: rotated, and with its operands in order.

    Raises
    ------
    VerificationError
        The counterexample.
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """
    entry = choice.algorithm
    try:
        execution = execute(choice, size, root)
        _check_result(execution, choice, size, root, ordered=False)
        _check_cost(execution.counts, choice, size)
        if root and entry.collective.reduces and not entry.commutative:
            forwarded = execute(choice, size, root, ordered=True)
            _check_result(forwarded, choice, size, root, ordered=True)
    except VerificationError as error:
        where = f", root {root}" if entry.collective.rooted else ""
        where += f", nodes {choice.placement(size).spelling}" if entry.placed else ""
        raise VerificationError(
            f"{entry.collective.name} {choice.label} on {size} ranks{where}: {error}"
        ) from None
    return Proof(choice, size, root, execution.counts)


def execute(
    choice: Choice,
    size: int,
    root: int = 0,
    watcher: Watcher | None = None,
    ordered: bool = False,
) -> Execution:
    """Execute the schedules of all ranks symbolically, from what the contract lets them hold.

    Parameters
    ----------
    watcher
        Is told of every message and every round.
    ordered
        Keep the operands in the order of the ranks (see `Choice.schedule`).

    Raises
    ------
    VerificationError
        The schedules can't be executed; the message is the counterexample.
    UnsupportedError
        The algorithm isn't defined for `size` ranks.
    """
    contract, natural = choice.algorithm.collective, choice.blocks(size)
    _check_blocks(contract, size, natural)
    grid = choice.grid(size)
    pieces = grid // natural
    held = [contract.held(r, size, root, natural) for r in range(size)]
    return Execution(
        [choice.schedule(r, size, root, ordered) for r in range(size)],
        [_pieces(window, pieces) for window in held],
        grid,
        clocks=choice.algorithm.clocked and not ordered,  # what is sent on has none
        watcher=watcher,
    )


def _pieces(natural: range, pieces: int) -> list[int]:
    return [block * pieces + piece for block in natural for piece in range(pieces)]


def _check_blocks(contract: Collective, size: int, natural: int) -> None:
    """Check that the declared blocks are the contract's, which else would ask for nothing."""
    if natural < 1:
        raise VerificationError("blocks= declares no blocks")
    if contract.irregular and natural != contract.natural(size):
        raise VerificationError(
            f"blocks= declares {natural} natural blocks, but {contract.name} has "
            f"{contract.natural(size)} on {size} ranks"
        )


def _check_result(
    execution: Execution, choice: Choice, size: int, root: int, ordered: bool
) -> None:
    entry, terms = choice.algorithm, execution.terms
    contract, natural = entry.collective, choice.blocks(size)
    pieces, same_bits = choice.grid(size) // natural, choice.same_bits
    first: dict[int, int] = {}
    for rank in range(size):
        for block in _pieces(contract.wanted(rank, size, root, natural), pieces):
            place = f"at the end, rank {rank}, block {block}"
            value = execution.value(rank, block)
            if value is None:
                raise VerificationError(f"{place}: was never received")
            sources = contract.sources(rank, size, root, block // pieces, natural)
            expected = (1 << sources.stop) - (1 << sources.start)
            if terms.mask[value] != expected:
                raise VerificationError(f"{place}: {_difference(terms.mask[value], expected)}")
            if not contract.reduces:
                continue
            if not entry.commutative and (root == 0 or ordered) and terms.low[value] < 0:
                raise VerificationError(f"{place}: operands aren't in the order of the ranks")
            if contract.contributors != ALL:
                continue
            same = first.setdefault(block, terms.bits[value])
            if same_bits and same != terms.bits[value]:
                raise VerificationError(f"{place}: other ranks get other bits")
    if not contract.moves_data:
        _check_everyone_came(execution, size)


def _check_everyone_came(execution: Execution, size: int) -> None:
    for rank in range(size):
        if missing := ((1 << size) - 1) & ~execution.ranks[rank].past:
            late = (missing & -missing).bit_length() - 1
            raise VerificationError(f"at the end, rank {rank} can't know that rank {late} came")


def _difference(found: int, expected: int) -> str:
    def first(mask: int) -> int:
        return (mask & -mask).bit_length() - 1

    if missing := expected & ~found:
        return f"lacks the input of rank {first(missing)}"
    return f"has the input of rank {first(found & ~expected)}, which doesn't belong there"


def _check_cost(counts: Counts, choice: Choice, size: int) -> None:
    if not choice.as_declared(size):
        return
    entry, length, nodes = choice.algorithm, choice.vector(size), choice.placement(size).count
    for name, form, counted in (
        ("rounds", entry.rounds, counts.steps),
        ("messages", entry.messages, counts.messages),
        ("sent", entry.sent, counts.sent),
        ("reduced", entry.reduced, counts.reduced),
    ):
        declared = evaluate(form, size, length, choice.values, nodes)
        if declared != counted:
            raise VerificationError(
                f"counted {counted} {name}, but {form} is {declared} (n = {length} blocks)"
            )


def prove_rotation(size: int) -> None:
    """Prove that rotating to another root is a renaming of the ranks.

    A probe schedule in which every rank names every other one shows where each pair goes. With the
    contracts' own symmetry, the proof for root 0 then holds for every root. Every root is probed
    where every root is executed, the first, middle and last one beyond.
    """

    def probe(rank: int, size: int) -> Rounds:
        yield Round(*(Send(peer) for peer in range(size)))

    every = size <= EVERY_ROOT_UP_TO
    for root in range(size) if every else {1, size // 2, size - 1}:
        for virtual in range(size):
            real = (virtual + root) % size
            (found,) = rotate(probe, root)(real, size)
            peers = [a.peer for a in found.actions if isinstance(a, Send)]
            if peers != [(peer + root) % size for peer in range(size)]:
                raise VerificationError(f"rotation to root {root} of {size} misplaces rank {real}")
