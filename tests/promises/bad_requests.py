"""All requests that must fail, each with its code and reason: the error table."""

from __future__ import annotations

from tests.promises.bad_contents import FIELDS, SIZES, UNSET, UNSUPPORTED, VALUES
from tests.promises.bad_states import ABSENT, STATES

ALL = [*VALUES, *UNSET, *FIELDS, *ABSENT, *STATES, *SIZES, *UNSUPPORTED]
