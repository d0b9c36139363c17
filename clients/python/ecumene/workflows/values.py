"""Values of calls as plain JSON trees and back. Never pickle: a tree can only become what is listed here.

in a message                          in Python
null, true, 1, 1.5, "text", [...]     the same; int of any size
{"name": ...}                         dict with str keys
{"$dict": [[key, value], ...]}        any other dict
{"$tuple": [...]}                     tuple
{"$bytes": base64}                    bytes
{"$float": "nan"}                     NaN and the infinities
{"$data": [name, {...}]}              a dataclass that was registered under the name
{"$model": [name, {...}]}             a pydantic model that was registered under the name
{"$actor": [id, host, class, made]}   a proxy
{"$ref": index}                       a placeholder: the result of a call, by its place in the message's `refs`

No tree is deeper than VALUE_DEPTH_MAX: whoever is sent one can read it, however deep it stands itself.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ecumene.workflows.errors import ValueRefusedError, ValueTooLargeError
from ecumene.workflows.limits import VALUE_DEPTH_MAX

Tree = Any
"""What json.dumps takes as it is."""
Class = TypeVar("Class", bound=type)

_MARK_LEVELS = 2
"""What the mark of a value adds to its own level."""
_PLAIN = frozenset({type(None), bool, int, str})
_CLASSES: dict[str, type] = {}
_NAMES: dict[type, str] = {}


class Pending:
    """A value that is not there yet: the base of placeholders, as far as packing has to know them."""

    __slots__ = ()


class Handle:
    """Something that can be called where it lives: the base of proxies, as far as packing has to know them."""

    __slots__ = ()


def message(cls: Class) -> Class:
    """Register a dataclass or a pydantic model, so that calls may take and return it; a class decorator.

    The module that registers it must be imported wherever it is to be read: the one with the actors usually does.
    """
    if not (dataclasses.is_dataclass(cls) or _is_model_class(cls)):
        raise TypeError(f"{cls.__name__} is neither a dataclass nor a pydantic model")
    name = name_class(cls)
    _CLASSES[name] = cls
    _NAMES[cls] = name
    return cls


def name_class(cls: type) -> str:
    """`module:Class`; of a class in a program, the module that the program's file would be."""
    module = name_program() if cls.__module__ == "__main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def name_program() -> str:
    """The module that this program's file would be if it were imported."""
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    file = getattr(main, "__file__", None) or "__main__"
    name: str = spec.name if spec is not None else file.rpartition("/")[2].removesuffix(".py")
    return name


class Packing:
    """Makes a tree of a value, and gathers the placeholders in it."""

    def __init__(self, describe_handle: Callable[[Any], list[Any]]) -> None:
        self.placeholders: list[Any] = []
        """In the order of their `$ref`."""
        self._describe_handle = describe_handle

    def pack(self, value: object) -> Tree:
        """The tree of a value, as it is now.

        Raises:
            ValueRefusedError: something in it has no form in a message.
            ValueTooLargeError: it is nested more deeply than VALUE_DEPTH_MAX, or contains itself.
        """
        try:
            return self._pack(value, 1)
        except RecursionError as error:
            raise ValueRefusedError("a value is nested too deeply, or contains itself") from error

    def _pack(self, value: Any, depth: int) -> Tree:
        """`depth`: that of the value in its tree, from 1."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        if kind is float:
            return value if math.isfinite(value) else {"$float": str(value)}
        if depth > VALUE_DEPTH_MAX - _MARK_LEVELS:
            raise too_deep()
        if kind is list:
            return [self._pack(item, depth + 1) for item in value]
        if kind is dict:
            return self._pack_dict(value, depth)
        if kind is tuple:
            return {"$tuple": [self._pack(item, depth + 2) for item in value]}
        if isinstance(value, Pending):
            self.placeholders.append(value)
            return {"$ref": len(self.placeholders) - 1}
        if isinstance(value, Handle):
            return {"$actor": self._describe_handle(value)}
        if isinstance(value, bytes | bytearray | memoryview):
            return {"$bytes": base64.b64encode(bytes(value)).decode()}
        return self._pack_object(value, kind, depth)

    def _pack_dict(self, value: dict[Any, Any], depth: int) -> Tree:
        if all(type(key) is str and key[:1] != "$" for key in value):
            return {key: self._pack(item, depth + 1) for key, item in value.items()}
        return {"$dict": [[self._pack(key, depth + 3), self._pack(item, depth + 3)] for key, item in value.items()]}

    def _pack_object(self, value: Any, kind: type, depth: int) -> Tree:
        name = _NAMES.get(kind)
        if name is not None and _is_model_class(kind):
            fields = value.model_dump(mode="json")
            check_depth(fields, depth + 2)
            return {"$model": [name, fields]}
        if name is not None:
            fields = {f.name: self._pack(getattr(value, f.name), depth + 3) for f in dataclasses.fields(value)}
            return {"$data": [name, fields]}
        if dataclasses.is_dataclass(kind) or _is_model_class(kind):
            raise ValueRefusedError(f"{kind.__name__} is not registered: decorate it with @workflows.message")
        # Subclasses (IntEnum, numpy's float64) stand for their plain type.
        for plain in (bool, int, float, str):
            if isinstance(value, plain):
                return self._pack(plain(value), depth)
        raise ValueRefusedError(
            f"{kind.__name__} cannot be sent: values are JSON, tuples, bytes, registered dataclasses and pydantic "
            "models, proxies and placeholders"
        )


def dump(tree: Tree) -> str:
    """The text of a tree, in ASCII: one byte a character.

    Raises:
        ValueRefusedError: it is nested too deeply, or holds an integer of more digits than Python reads.
    """
    try:
        return json.dumps(tree, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    except (ValueError, RecursionError) as error:
        raise ValueRefusedError(f"a value has no form in JSON: {error}") from error


def fill_refs(tree: Tree, refs: Sequence[Tree], depth: int = 1) -> Tree:
    """A tree with other trees in the places of its references. `depth`: its own in the whole.

    Raises:
        ValueTooLargeError: it gets deeper than VALUE_DEPTH_MAX.
    """
    if type(tree) is dict:
        if "$ref" in tree:
            filled = refs[tree["$ref"]]
            check_depth(filled, depth)
            return filled
        return {key: fill_refs(item, refs, depth + 1) for key, item in tree.items()}
    return [fill_refs(item, refs, depth + 1) for item in tree] if type(tree) is list else tree


def check_depth(tree: Tree, depth: int = 1) -> None:
    """Accepts a tree that stands at a depth of a whole, from 1.

    Raises:
        ValueTooLargeError: with it the whole is deeper than VALUE_DEPTH_MAX.
    """
    level = [tree]
    while True:
        level = [item for item in level if type(item) is list or type(item) is dict]
        if not level:
            return
        if depth > VALUE_DEPTH_MAX:
            raise too_deep()
        level = [inner for item in level for inner in (item.values() if type(item) is dict else item)]
        depth += 1


def too_deep() -> ValueTooLargeError:
    """For a value that is nested too deeply."""
    return ValueTooLargeError(f"a value is nested too deeply, or contains itself; VALUE_DEPTH_MAX is {VALUE_DEPTH_MAX}")


class Unpacking:
    """Makes values of trees; each has objects of its own."""

    def __init__(self, make_proxy: Callable[[list[Any]], Any], refs: Sequence[Tree] = ()) -> None:
        self._make_proxy = make_proxy
        self._refs = refs

    def unpack(self, tree: Tree) -> Any:
        """The value of a tree.

        Raises:
            ValueRefusedError: it holds an object of a class that is not registered here, or is none of ours.
        """
        kind = type(tree)
        if kind is dict:
            if len(tree) == 1:
                (mark,) = tree
                if mark[:1] == "$":
                    return self._unpack_marked(mark, tree[mark])
            return {key: self.unpack(item) for key, item in tree.items()}
        if kind is list:
            return [self.unpack(item) for item in tree]
        return tree

    def _unpack_marked(self, mark: str, inner: Any) -> Any:
        try:
            if mark == "$ref":
                return self.unpack(self._refs[inner])
            return _READERS[mark](self, inner)
        except (KeyError, ValueError, TypeError, IndexError) as error:
            raise ValueRefusedError(f"a value of the form {mark} cannot be read: {error}") from error

    def _read_object(self, inner: list[Any]) -> Any:
        name, fields = inner
        cls = _CLASSES.get(name)
        if cls is None:
            raise ValueRefusedError(f"{name} is not registered here: nobody has imported a module that does")
        if _is_model_class(cls):
            return cls.model_validate_json(json.dumps(fields))  # type: ignore[attr-defined]
        made: Any = object.__new__(cls)
        for field in dataclasses.fields(cls):
            object.__setattr__(made, field.name, self.unpack(fields[field.name]))
        return made

    def _read_actor(self, inner: list[Any]) -> Any:
        return self._make_proxy(inner)


_READERS: dict[str, Callable[[Unpacking, Any], Any]] = {
    "$dict": lambda unpacking, inner: {unpacking.unpack(key): unpacking.unpack(item) for key, item in inner},
    "$tuple": lambda unpacking, inner: tuple(unpacking.unpack(item) for item in inner),
    "$bytes": lambda unpacking, inner: base64.b64decode(inner, validate=True),
    "$float": lambda unpacking, inner: float(inner),
    "$data": Unpacking._read_object,
    "$model": Unpacking._read_object,
    "$actor": Unpacking._read_actor,
}


def _is_model_class(cls: type) -> bool:
    """Whether it is a pydantic model; without importing pydantic for those who have none."""
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(cls, type) and issubclass(cls, pydantic.BaseModel)
