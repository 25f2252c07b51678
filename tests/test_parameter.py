"""Values of parameters are checked."""

import pytest

from hpccoll.errors import UsageError
from hpccoll.parameter import Parameter


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2, "factors takes a list such as 3x4, got 2"),
        ((2, 1), "factors must be at least 2, got 1"),
    ],
)
def test_list_parameter_checks_shape_and_every_number(value, message):
    with pytest.raises(UsageError, match=message):
        Parameter("factors", (2, 2), 2).check(value)
