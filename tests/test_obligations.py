"""What there is to prove."""

from generators import several

from hpccoll.obligations import obligations
from hpccoll.registry import find


def test_obligations_of_a_list_parameter_are_its_default_and_all_factorizations(enter):
    entry = enter("allreduce", several).algorithm
    lists = {choice.values["factors"] for choice, _, _ in obligations(entry, [4])}
    assert lists == {(2, 3), (4,), (2, 2)}


def test_obligations_hold_every_root_and_other_parameters_of_few_ranks():
    asked = list(obligations(find("bcast", "binomial"), [5, 13]))
    assert [(size, root) for _, size, root in asked] == [(5, r) for r in range(5)] + [(13, 0)]
    sweep = {choice.label for choice, _, _ in obligations(find("allgather", "bruck"), [16])}
    assert sweep == {"bruck", "bruck:radix=3", "bruck:radix=4", "bruck:radix=8"}
