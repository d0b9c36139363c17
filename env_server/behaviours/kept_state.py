"""State that clients can overwrite too: it is taken only in the form in which a behaviour keeps it.

The environment of a behaviour takes plain writes like any other. When somebody puts there what has not the form, the op
that meets it is refused; that is no defect of the server.
"""

import json
from typing import Any, TypeVar

from pydantic import TypeAdapter

from env_server.behaviours.context import Context

T = TypeVar("T")


def get_kept(ctx: Context, key: str, form: TypeAdapter[T]) -> T | None:
    """An entry's value, parsed anew; None when it is absent or null. Refused with `foreign_state` in any other form."""
    try:
        value: Any = ctx.get(key)
        if value is not None:
            form.validate_python(value, strict=True)
    except ValueError:
        ctx.refuse("foreign_state", f"{key} holds what this behaviour has not written", key=key)
    return value


def get_config(ctx: Context, form: TypeAdapter[T]) -> T:
    """The environment's config. Refused with `bad_config` when it has not the form."""
    environment = ctx.environment()
    text = environment.declaration.config.text if environment is not None else b"{}"
    try:
        return form.validate_python(json.loads(text))
    except ValueError as error:
        ctx.refuse("bad_config", f"the config of {ctx.path} is not what this behaviour takes: {_first(error)}")


def _first(error: ValueError) -> str:
    lines = str(error).splitlines()
    return " ".join(line.strip() for line in lines[1:3])[:200] or "no JSON of this kind"
