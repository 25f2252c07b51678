"""The proofs of many algorithms, and their sum in words."""

import re
from dataclasses import replace

from hpccoll.proofs import prove_all


def test_no_algorithm_needs_less_than_it_declares(entry):
    """Whoever asks for a commutative operator, or grants other bits, must really need it."""
    stricter = [{"commutative": False}] if entry.commutative and entry.collective.reduces else []
    stricter += [] if entry.same_bits else [{"same_bits": True}]
    for claim in stricter:
        claimed = replace(entry, **claim)
        (report,) = prove_all([claimed], range(1, 17))
        assert report.failures
        assert all(re.search("order of the ranks|other bits", line) for line in report.failures)
