"""Selecting the library's algorithms, with made-up libraries: names, settings, proofs, reasons."""

import ctypes
from itertools import product
from types import SimpleNamespace

import pytest

from hpccoll.collectives import COLLECTIVES
from hpccoll.errors import UnsupportedError, UsageError
from hpccoll.layout import Message
from hpccoll.library_choice import LibraryChoice
from hpccoll.selection import names, selections
from hpccoll.selection.family import Case
from hpccoll.selection.mpich import Mpich
from hpccoll.selection.open_mpi import FALLBACKS, OpenMpi
from hpccoll.selection.selections import Selection, Selections
from hpccoll.selection.tool_interface import Variable, held


class Fake:
    """A variable that keeps its value, and refuses what isn't among its `allowed`."""

    kind = ctypes.c_int

    def __init__(self, name, value=0, numbers=None, allowed=None):
        self.name, self.numbers, self.allowed = name, numbers or {}, allowed
        self.storage = ctypes.c_int(value)

    def read(self):
        return self.storage.value

    def write(self, number):
        if self.allowed is not None and number not in self.allowed:
            raise UnsupportedError(f"{self.name} can't be set")
        self.storage.value = number


RINGS = {"ignore": 0, "linear": 1, "ring": 2, "in-order_tree": 3}


def open_mpi(find=0, moved=False):
    """Return an Open MPI; `find` is what its look-up returns, `moved` that it finds another."""
    variables = [
        Fake("coll_tuned_use_dynamic_rules"),
        Fake("coll_tuned_priority", 30),
        Fake("coll_han_priority", 35),
        Fake("coll_tuned_allreduce_algorithm", numbers=RINGS, allowed=RINGS.values()),
        Fake("coll_tuned_allreduce_algorithm_count", 4),
        Fake("coll_tuned_allreduce_algorithm_segmentsize"),
        Fake("coll_tuned_allgather_algorithm", numbers=RINGS, allowed=[0]),
    ]
    by_name = {variable.name: variable for variable in variables}
    elsewhere = ctypes.c_int()

    def find_by_name(name, index):
        index._obj.value = list(by_name).index(name.decode())
        return find

    def get_value(index, place, *_):
        variable = variables[index.value]
        place._obj.contents = elsewhere if moved else variable.storage
        return 0

    functions = {
        "mca_base_var_find_by_name": find_by_name,
        "mca_base_var_get_value": get_value,
    }
    return OpenMpi(SimpleNamespace(variables=by_name, internal=functions.__getitem__)), by_name


class Probe:
    """A trial call; `refuses` decides by the values of the variables when it is made."""

    size = 4

    def __init__(self, variables, refuses, at_creation=False):
        self.variables, self.refuses, self.at_creation = variables, refuses, at_creation
        self.function, self.tried = "MPI_Allreduce", []

    def of(self, function):
        self.function = function
        return self

    def ranks(self, number=None):
        return {name: variable.read() for name, variable in self.variables.items()}

    def refused(self, comm, during=(), ordered=False):
        with held(during):
            values = comm if self.at_creation else self.ranks()
            self.tried.append((self.function, values))
            return self.refuses(values)


# Open MPI


def test_open_mpis_names_are_those_of_its_enumeration_but_for_no_choice():
    library, _ = open_mpi()
    assert library.numbers("MPI_Allreduce") == {"linear": 1, "ring": 2, "in-order_tree": 3}
    assert list(library.parameters("MPI_Allreduce")) == ["segmentsize"]
    with pytest.raises(UnsupportedError, match="no variable coll_tuned_scan_algorithm"):
        library.numbers("MPI_Scan")


def test_open_mpi_takes_the_choice_over_when_the_communicator_is_made():
    library, variables = open_mpi()
    segment = (variables["coll_tuned_allreduce_algorithm_segmentsize"], 64)
    settings = library.at_creation("MPI_Allreduce", 2, [segment])
    before = {name: variable.read() for name, variable in variables.items()}
    with held(settings):
        assert variables["coll_tuned_use_dynamic_rules"].read() == 1
        assert variables["coll_tuned_allreduce_algorithm"].read() == 2
        assert variables["coll_tuned_allreduce_algorithm_segmentsize"].read() == 64
        assert variables["coll_tuned_priority"].read() > variables["coll_han_priority"].read()
    assert {name: variable.read() for name, variable in variables.items()} == before
    assert library.in_calls("MPI_Allreduce", 2, [segment]) == [segment]


def made_with(value):
    """Return whether a communicator was made while no algorithm has the variable's number."""
    return value["coll_tuned_allreduce_algorithm"] not in RINGS.values()


def test_open_mpis_choice_is_shown_by_a_number_that_no_algorithm_has():
    library, variables = open_mpi()
    probe = Probe(variables, made_with, at_creation=True)
    shown = library.prove("MPI_Allreduce", probe)
    assert "MPI_Allreduce fails where coll_tuned_allreduce_algorithm is" in shown
    assert len(probe.tried) == 1
    assert variables["coll_tuned_allreduce_algorithm"].read() == 0
    assert variables["coll_tuned_priority"].read() == 30


@pytest.mark.parametrize(
    ("how", "refuses", "words"),
    [
        ({}, lambda values: False, "doesn't decide what MPI_Allreduce does here"),
        ({"find": -1}, made_with, "can't be found"),
        ({"moved": True}, made_with, "can't be found"),
    ],
)
def test_open_mpis_choice_that_cant_be_shown_is_none(how, refuses, words):
    library, variables = open_mpi(**how)
    with pytest.raises(UnsupportedError, match=words):
        library.prove("MPI_Allreduce", Probe(variables, refuses, at_creation=True))
    assert variables["coll_tuned_allreduce_algorithm"].read() == 0


CONDITIONS = {
    ("MPI_Allreduce", "ring"): lambda n, p, ordered: n < p,
    ("MPI_Allreduce", "rabenseifner"): lambda n, p, ordered: ordered or n < _power_of_two(p),
    ("MPI_Reduce", "rabenseifner"): lambda n, p, ordered: ordered or n < _power_of_two(p),
    ("MPI_Reduce_scatter_block", "recursive_halving"): lambda n, p, ordered: ordered,
    ("MPI_Allgather", "recursive_doubling"): lambda n, p, ordered: p != _power_of_two(p),
    ("MPI_Allgather", "neighbor"): lambda n, p, ordered: p % 2 == 1,
    ("MPI_Bcast", "scatter_allgather"): lambda n, p, ordered: n < p,
    ("MPI_Bcast", "split_binary_tree"): lambda n, p, ordered: n == 1,
}


def _power_of_two(p):
    """Return the largest one that isn't above p."""
    return max(2**k for k in range(8) if 2**k <= p)


@pytest.mark.parametrize("key", CONDITIONS, ids=" ".join)
def test_open_mpi_runs_something_else_where_its_code_says_so(key):
    library, _ = open_mpi()
    function, name = key
    for count, size, ordered in product(range(1, 20), range(2, 17), (False, True)):
        said = library.otherwise(function, name, Case(Message(count, 4, ordered=ordered), size, {}))
        assert bool(said) == CONDITIONS[key](count, size, ordered), (count, size, ordered)
        assert said is None or f"runs {FALLBACKS[key].instead} instead where" in said


@pytest.mark.parametrize(
    ("count", "bytes_", "falls_back"),
    [
        (1000, 0, True),  # no segments at all
        (1000, 4000, True),
        (1000, 2, True),  # less than an element is no segment
        (1000, 1004, True),  # 251 elements on each of 4 ranks are more than there are
        (1000, 1000, False),
        (1004, 1004, False),
        (1000, 64, False),
        (3, 4, True),
        (4, 4, False),
    ],
)
def test_a_segmented_ring_needs_a_segment_per_rank(count, bytes_, falls_back):
    library, _ = open_mpi()
    case = Case(Message(count, 4), 4, {"segmentsize": bytes_})
    said = library.otherwise("MPI_Allreduce", "segmented_ring", case)
    assert bool(said) == falls_back


def test_in_place_open_mpi_has_one_alltoall_for_all_names():
    library, _ = open_mpi()
    for in_place in (False, True):
        case = Case(Message(8, 4, in_place=in_place), 4, {})
        assert bool(library.otherwise("MPI_Alltoall", "pairwise", case)) == in_place


@pytest.mark.parametrize("radix", [1, 2, 4])
def test_a_tree_without_branches_would_not_end(radix):
    library, _ = open_mpi()
    case = Case(Message(8, 4), 4, {"knomial_radix": radix})
    assert bool(library.otherwise("MPI_Bcast", "knomial", case)) == (radix == 1)


# MPICH

ALGORITHMS = ["auto", "nb", "smp", "reduce_scatter_allgather", "ring"]


def described(*listed):
    """Return the numbers that a description of values gives them."""
    text = "Variable to select\n" + "\n".join(f"{name}  - Force {name} - it" for name in listed)
    return Variable(None, 0, "X", text, ctypes.c_int, ctypes.c_void_p()).numbers


def test_mpichs_values_are_numbered_as_they_are_described():
    assert described("auto", "nb", "smp") == {"auto": 0, "nb": 1, "smp": 2}
    assert described() == {}


def mpich(device="percoll"):
    """Return an MPICH with two functions, one's name the beginning of the other's."""
    numbers = described(*ALGORITHMS)
    devices = described("all", "none", "percoll")
    variables = [
        Fake("MPIR_CVAR_COLLECTIVE_FALLBACK", 2, described("error", "print", "silent")),
        Fake("MPIR_CVAR_DEVICE_COLLECTIVES", devices[device], devices),
    ]
    for name in ("ALLREDUCE", "REDUCE", "REDUCE_SCATTER", "GATHER"):
        own = {"auto": 0, "nb": 1} if name == "GATHER" else numbers
        variables += [
            Fake(f"MPIR_CVAR_{name}_INTRA_ALGORITHM", 0, own),
            Fake(f"MPIR_CVAR_{name}_DEVICE_COLLECTIVE", 1),
            Fake(f"MPIR_CVAR_{name}_TREE_KVAL", 2),
        ]
    by_name = {variable.name: variable for variable in variables}
    return Mpich(SimpleNamespace(variables=by_name)), by_name


def test_mpichs_names_are_those_of_its_description_but_for_its_own_choice():
    library, variables = mpich()
    assert list(library.numbers("MPI_Allreduce")) == ALGORITHMS[1:]
    variables["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"].numbers = {}
    with pytest.raises(UnsupportedError, match="doesn't name its values"):
        library.numbers("MPI_Allreduce")
    with pytest.raises(UnsupportedError, match="no variable MPIR_CVAR_SCAN_INTRA_ALGORITHM"):
        library.numbers("MPI_Scan")


def test_mpichs_parameters_are_the_functions_own():
    library, variables = mpich()
    for function in ("MPI_Reduce", "MPI_Reduce_scatter"):
        name = f"MPIR_CVAR{function.removeprefix('MPI').upper()}_TREE_KVAL"
        assert library.parameters(function) == {"tree_kval": variables[name]}


@pytest.mark.parametrize("device", ["all", "none", "percoll"])
def test_mpich_has_its_choice_during_the_calls_and_nothing_to_fall_back_on(device):
    library, variables = mpich(device)
    before = {name: variable.read() for name, variable in variables.items()}
    with held(library.in_calls("MPI_Allreduce", 4, [])):
        assert variables["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"].read() == 4
        assert variables["MPIR_CVAR_COLLECTIVE_FALLBACK"].read() == 0
        assert variables["MPIR_CVAR_ALLREDUCE_DEVICE_COLLECTIVE"].read() == 0
        assert variables["MPIR_CVAR_DEVICE_COLLECTIVES"].read() != 0
        assert variables["MPIR_CVAR_REDUCE_DEVICE_COLLECTIVE"].read() == 1
    assert {name: variable.read() for name, variable in variables.items()} == before
    assert library.at_creation("MPI_Allreduce", 4, []) == []


def as_mpich(values):
    """Refuse what can't be applied, if its fallback is an error."""
    chosen = ALGORITHMS[values["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"]]
    return chosen == "reduce_scatter_allgather" and values["MPIR_CVAR_COLLECTIVE_FALLBACK"] == 0


@pytest.mark.parametrize("function", ["MPI_Allreduce", "MPI_Gather"])
def test_mpichs_choice_is_shown_by_what_it_refuses_or_by_that_of_allreduce(function):
    library, variables = mpich()
    probe = Probe(variables, as_mpich)
    shown = library.prove(function, probe.of(function))
    assert shown == "MPI_Allreduce refuses reduce_scatter_allgather where it can't be applied"
    assert [called for called, _ in probe.tried] == ["MPI_Allreduce"]


def test_mpichs_choice_that_cant_be_shown_is_none():
    library, variables = mpich()
    with pytest.raises(UnsupportedError, match="doesn't decide what MPI_Allreduce does here"):
        library.prove("MPI_Allreduce", Probe(variables, lambda values: False))
    variables["MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM"].numbers = described("auto", "ring")
    with pytest.raises(UnsupportedError, match="no algorithm of this MPICH"):
        library.prove("MPI_Gather", Probe(variables, as_mpich))


@pytest.mark.parametrize(
    ("function", "name"),
    [
        ("MPI_Bcast", "smp"),
        ("MPI_Allreduce", "ccl"),
        ("MPI_Reduce_scatter", "noncommutative"),
    ],
)
def test_what_mpich_would_not_say_is_known(function, name):
    library, _ = mpich()
    case = Case(Message(8, 4), 4, {})
    assert library.otherwise(function, name, case)
    assert library.otherwise(function, "ring", case) is None


# Variables


def test_variables_are_what_they_were_after_an_error():
    one, other = Fake("one", 5), Fake("other", 6, allowed=[6])
    with pytest.raises(UnsupportedError, match="other can't be set"), held([(one, 1), (other, 2)]):
        raise AssertionError("the block must not begin")
    assert (one.read(), other.read()) == (5, 6)
    with pytest.raises(ZeroDivisionError), held([(one, 1), (one, 2)]):
        1 / (one.read() - 2)
    assert one.read() == 5


# Names and reasons


def asked(*choices, count=8, name="allreduce"):
    """Return a request for some of the library's algorithms."""
    return SimpleNamespace(
        forced=choices,
        sizes=(4 * count,),
        dtype=SimpleNamespace(itemsize=4),
        collective=COLLECTIVES[name],
        message=lambda size, root, ranks: Message(size // 4, 4, root),
    )


def loop(size=4):
    """Return a loop whose communicators are duplicated by name."""
    comm = SimpleNamespace(Dup=lambda: SimpleNamespace(Free=lambda: None), size=size, rank=0)
    return SimpleNamespace(world=SimpleNamespace(library="Some MPI 1.0", size=size, comm=comm))


@pytest.fixture
def found(monkeypatch):
    """Return what is selected of a made-up Open MPI whose choices take effect."""

    def find(*choices, size=4, **more):
        library, _ = open_mpi()
        library.prove = lambda function, probe: "shown"
        monkeypatch.setattr(selections, "detect", lambda name: library)
        monkeypatch.setattr(selections, "Probe", lambda *_: None)
        return selections.select(asked(*choices, **more), loop(size))

    return find


def test_names_are_spelled_as_the_library_does_and_found_with_either_line(found):
    made = found(LibraryChoice("in_order_tree"), LibraryChoice("in-order-tree"))
    assert made.labels == ["library:in-order_tree"]


def test_all_stands_for_every_name_of_the_library_once(found):
    made = found(LibraryChoice("ring"), LibraryChoice("all"))
    assert made.labels == ["library:ring", "library:linear", "library:in-order_tree"]
    assert made.notes()[1:] == ["       shown: shown"]


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        (LibraryChoice("rign"), "algorithm of MPI_Allreduce 'rign'; did you mean ring?"),
        (LibraryChoice("ring", {"segmentsiz": 1}), "'segmentsiz'; did you mean segmentsize?"),
    ],
)
def test_unknown_names_get_the_nearest_and_the_list(found, choice, words):
    with pytest.raises(UsageError) as raised:
        found(choice)
    assert words in str(raised.value)
    assert "choose from" in str(raised.value)


def test_a_record_says_what_was_set_and_what_showed_it(found):
    made = found(LibraryChoice("ring", {"segmentsize": 64}))
    (selection,), reasons = made.of("MPI_Allreduce", Message(8, 4))
    assert reasons == {}
    assert selection.choice.label == "library:ring:segmentsize=64"
    assert selection.record() == {
        "algorithm": "ring",
        "variables": {
            "coll_tuned_use_dynamic_rules": True,
            "coll_tuned_priority": 100,
            "coll_han_priority": 0,
            "coll_tuned_allreduce_algorithm": 2,
            "coll_tuned_allreduce_algorithm_segmentsize": 64,
        },
        "proof": "shown",
    }


def test_a_message_that_the_library_would_treat_otherwise_is_left_out(found):
    made = found(LibraryChoice("all"))
    for count, able in ((0, 0), (3, 2), (4, 3)):
        selected, reasons = made.of("MPI_Allreduce", Message(count, 4))
        assert (len(selected), len(reasons)) == (able, 3 - able)
        assert all(reason.startswith("not selectable here: ") for reason in reasons.values())


def test_one_rank_has_nothing_to_choose(found):
    selected, reasons = found(LibraryChoice("ring"), size=1).of("MPI_Allreduce", Message(8, 4))
    assert selected == []
    assert "on one rank" in reasons["library:ring"]


def test_what_the_library_wont_set_is_a_reason(found):
    made = found(LibraryChoice("ring"), name="allgather")
    selected, reasons = made.of("MPI_Allgather", Message(8, 4))
    assert selected == []
    assert reasons["library:ring"].endswith("coll_tuned_allgather_algorithm can't be set")


def test_a_function_without_names_is_a_reason_for_all_of_them(found):
    made = found(LibraryChoice("all"), LibraryChoice("ring"), name="bcast")
    selected, reasons = made.of("MPI_Bcast", Message(8, 4))
    assert (selected, list(reasons)) == ([], ["library:all", "library:ring"])


@pytest.mark.parametrize(
    ("library", "words"),
    [
        ("Intel MPI 2021.18", "numbers its algorithms without naming them"),
        ("Open MPI 5.0.11", "without its component coll/tuned"),
        ("Some MPI 1.0", "but not Some MPI 1.0"),
    ],
)
def test_other_libraries_are_skipped_with_the_reason(monkeypatch, library, words):
    monkeypatch.setattr(selections, "ToolInterface", lambda: SimpleNamespace(variables={}))
    there = loop()
    there.world.library = library
    made = selections.select(asked(LibraryChoice("ring")), there)
    selected, reasons = made.of("MPI_Allreduce", Message(8, 4))
    assert selected == []
    assert words in reasons["library:ring"]
    with pytest.raises(UnsupportedError, match=words):
        names.text(library)


def test_without_a_wish_the_library_isnt_asked():
    made = selections.select(asked(), loop())
    assert made.of("MPI_Allreduce", Message(8, 4)) == ([], {})
    assert made.notes() == made.labels == []


def test_communicators_are_freed_at_the_end():
    freed = []
    comm = SimpleNamespace(Free=lambda: freed.append(1))
    selection = Selection(LibraryChoice("ring"), "MPI_Bcast", comm, None, {}, "shown", None)
    Selections("", {"MPI_Bcast": [selection, selection]}).free()
    assert freed == [1, 1]


def test_the_list_has_every_function_and_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(names, "detect", lambda library: open_mpi()[0])
    text = names.text("Open MPI 5.0.11")
    for function in (f for c in COLLECTIVES.values() for f in c.baseline):
        assert f"\n  {function}\n" in text
    assert "linear, ring, in-order_tree\n      parameters: segmentsize" in text
    assert "no variable coll_tuned_bcast_algorithm" in text
    assert "MPI_Bcast" not in names.text("Open MPI 5.0.11", "allreduce")
