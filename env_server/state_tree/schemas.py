"""Schemas in force: values are checked by what their environment declares, compiled when first needed."""

from typing import Final

from env_server.model.errors import InvalidRequest, Reason
from env_server.model.limits import Limits
from env_server.model.ports import CompileSchema, Schema
from env_server.model.values import Json, Value
from env_server.state_tree.nodes import Node

_KEPT_MAX: Final = 1024


class Schemas:
    """The compiled schemas of one tree. Recovery compiles none: what is stored was let in."""

    def __init__(self, compile_schema: CompileSchema | None, limits: Limits) -> None:
        self._compile = compile_schema
        self._limits = limits
        self._compiled: dict[bytes, Schema] = {}
        #: Whether any environment ever declared one.
        self.in_use = False

    def find(self, schema: Json) -> Schema:
        """The compiled form.

        Raises:
            InvalidRequest: INVALID_FIELD; it is none.
            LimitExceeded.
        """
        found = self._compiled.get(schema.text)
        if found is None:
            if self._compile is None:
                raise InvalidRequest(Reason.INVALID_FIELD, "entry_schema", "this world checks none")
            found = self._compile(schema, self._limits)
            if len(self._compiled) >= _KEPT_MAX:
                del self._compiled[next(iter(self._compiled))]
            self._compiled[schema.text] = found
        return found

    def check(self, node: Node, key: str, value: Value) -> None:
        """Accepts a value that the node's entry, or an item of it, is to hold. Only for nodes with a schema.

        Raises:
            InvalidRequest: SCHEMA_MISMATCH, each violation with the JSON pointer of what is wrong.
            LimitExceeded: schema_work_max.
        """
        assert node.schema is not None
        violations = self.find(node.schema).violations(value)
        if violations:
            where, problem = violations[0]
            error = InvalidRequest(Reason.SCHEMA_MISMATCH, f"value{where}", problem)
            error.violations = tuple((f"value{where}", problem) for where, problem in violations)
            error.metadata = {"path": node.path, "key": key}
            raise error
