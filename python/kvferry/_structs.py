"""Option structs from keyword arguments and back, driven by the C declarations, so that a new C field needs no change here."""
from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ._native import ffi
from .statuses import Invalid

SECOND_NS = 1_000_000_000


def nanoseconds(seconds: float) -> int:
    """At least 1 for a positive time: 0 means "default" to the library."""
    if seconds < 0:
        raise Invalid("a time is negative", {"seconds": repr(seconds)})
    return max(1, round(seconds * SECOND_NS)) if seconds else 0


def options(kind: str, values: Dict[str, Any]) -> Tuple[Any, List[object]]:
    """A `kind *` with its struct_bytes and the given fields set, and what it borrows from. None leaves a field at its default."""
    pointer = ffi.new(f"{kind} *")
    pointer.struct_bytes = ffi.sizeof(kind)
    borrowed: List[object] = []
    for name, value in values.items():
        if value is None:
            continue
        if isinstance(value, str):
            value = ffi.new("char[]", value.encode("utf-8"))
            borrowed.append(value)
        try:
            setattr(pointer, name, value)
        except (OverflowError, TypeError) as fault:
            raise Invalid("a value does not fit its option", {"option": name, "value": repr(value)}) from fault
    return pointer, borrowed


def values_of(struct: Any) -> Dict[str, Any]:
    """The plain fields of a struct: numbers as they are, char arrays as text, byte arrays as bytes."""
    values: Dict[str, Any] = {}
    for name, field in ffi.typeof(struct).fields:
        if name == "struct_bytes":
            continue
        value = getattr(struct, name)
        if field.type.kind == "array":
            item = field.type.item.cname
            value = ffi.string(value).decode("utf-8", "replace") if item == "char" else bytes(ffi.buffer(value)) if item == "uint8_t" else list(value)
        values[name] = value
    return values
