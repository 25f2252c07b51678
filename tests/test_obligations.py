"""What there is to prove."""

from generators import several

from hpccoll.obligations import BUDGET, DRAWN_UP_TO, draw, obligations
from hpccoll.registry import find
from hpccoll.verify import prove


def test_obligations_of_a_list_parameter_are_its_default_and_all_factorizations(enter):
    entry = enter("allreduce", several).algorithm
    lists = {choice.values["factors"] for choice, _, _ in obligations(entry, [4])}
    assert lists == {(2, 3), (4,), (2, 2)}


def test_obligations_hold_every_root_and_other_parameters_of_few_ranks():
    asked = list(obligations(find("bcast", "binomial"), [5, 13]))
    assert [(size, root) for _, size, root in asked] == [(5, r) for r in range(5)] + [(13, 0)]
    sweep = {choice.label for choice, _, _ in obligations(find("allgather", "bruck"), [16])}
    assert sweep == {"bruck", "bruck:radix=3", "bruck:radix=4", "bruck:radix=8"}


def test_numbers_of_ranks_beyond_are_drawn_again_by_the_same_seed_only():
    entry = find("scan", "linear")
    drawn = [draw(entry, 5, 64, seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(64 < size <= DRAWN_UP_TO for size in drawn[0].sizes)
    assert len(set(drawn[0].sizes)) == 5
    assert draw(entry, 5, DRAWN_UP_TO, 1).sizes == ()


def test_only_numbers_of_ranks_that_the_algorithm_supports_are_drawn():
    drawn = draw(find("barrier", "recursive-doubling"), 1, 64, 0)
    needy = draw(find("allgather", "recursive-doubling"), 99, 64, 0)
    assert drawn.sizes
    assert {*needy.sizes} <= {128, 256, 512, 1024}
    assert len(needy.sizes) + needy.left_out == 4


def test_a_drawn_proof_has_no_more_messages_than_the_budget_and_the_others_are_counted():
    # All ranks of a ring send p (p - 1) messages.
    ring = draw(find("allgather", "ring"), DRAWN_UP_TO, 64, 0)
    assert ring.sizes == tuple(size for size in range(65, 1025) if size * (size - 1) <= BUDGET)
    assert ring.left_out == 960 - len(ring.sizes)
    assert prove_total("allgather", "ring", ring.sizes[-1]) <= BUDGET


def prove_total(of, name, size):
    """Return how many messages a proof with the defaults has."""
    ((choice, size, root),) = obligations(find(of, name), [], [size])
    return prove(choice, size, root).counts.total
