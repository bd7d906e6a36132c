"""Exceptions: one class per status, made into a chain of causes from the library's own chain.

The classes are in kvferry.statuses, written from the same table as docs/errors.md; this module owns their base and the conversion.
"""
from __future__ import annotations

from typing import Any, ClassVar, Dict, List, Optional, Tuple, Type

from ._native import ffi, lib

__all__ = ["Error", "check", "class_of", "exception_from"]

OK = 0


class Error(Exception):
    """A failure that the library reported. `__cause__` is the next link inwards; the innermost has the foreign code."""

    #: the number of the status, and its name in the C library
    status: ClassVar[int] = -1
    name: ClassVar[str] = "UNKNOWN"
    #: whether trying the same thing again may succeed
    retry: ClassVar[bool] = False
    meaning: ClassVar[str] = ""
    remedy: ClassVar[str] = ""

    def __init__(self, message: str = "", fields: Optional[Dict[str, str]] = None, raised_at: Tuple[str, int] = ("", 0)) -> None:
        super().__init__(message)
        self.message = message
        #: the named values of this link: room, peer, rank, layer, page, address, length, attempt …
        self.fields: Dict[str, str] = dict(fields or {})
        #: file and line of the library's source; "peer" when the link came from another process
        self.raised_at = raised_at

    def __str__(self) -> str:
        values = " ".join(f"{name}={value}" for name, value in self.fields.items())
        return f"{self.name}: {self.message}" + (f" ({values})" if values else "")

    def chain(self) -> List[Error]:
        """This error and its causes, outermost first."""
        links: List[Error] = []
        link: Optional[BaseException] = self
        while isinstance(link, Error):
            links.append(link)
            link = link.__cause__
        return links

    def find(self, field: str) -> Optional[str]:
        """The value of `field` on the outermost link that has it."""
        return next((link.fields[field] for link in self.chain() if field in link.fields), None)


_classes: Dict[int, Type[Error]] = {}


def register(kind: Type[Error]) -> Type[Error]:
    """Class decorator of kvferry.statuses."""
    _classes[kind.status] = kind
    return kind


def class_of(status: int) -> Type[Error]:
    """The exception class of a status number; the base class for a number that this package does not know."""
    return _classes.get(status, Error)


def _text(pointer: Any) -> str:
    value: bytes = ffi.string(pointer)
    return value.decode("utf-8", "replace")


def _fields_of(link: Any) -> Dict[str, str]:
    name, value = ffi.new("const char **"), ffi.new("const char **")
    fields: Dict[str, str] = {}
    for index in range(lib.kvf_error_field_count(link)):
        if lib.kvf_error_field(link, index, name, value) == OK:
            fields[_text(name[0])] = _text(value[0])
    return fields


def exception_from(status: int, error: Any) -> Error:
    """Turn an owned `kvf_error *`, which may be NULL, into an exception with its causes, and free it."""
    outermost: Optional[Error] = None
    innermost: Optional[Error] = None
    link = error
    while link != ffi.NULL:
        raised_at = (_text(lib.kvf_error_file(link)), int(lib.kvf_error_line(link)))
        one = class_of(lib.kvf_error_status(link))(_text(lib.kvf_error_message(link)), _fields_of(link), raised_at)
        if innermost is None:
            outermost = one
        else:
            innermost.__cause__ = one
        innermost = one
        link = lib.kvf_error_cause(link)
    lib.kvf_error_free(error)
    return outermost if outermost is not None else class_of(status)()


def check(status: int, error: Any) -> None:
    """Raise for anything but OK. `error` is the `kvf_error **` that the call was given."""
    if status != OK:
        raise exception_from(status, error[0])
