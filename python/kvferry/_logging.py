"""The library's log lines as records of Python's logging.

The library's threads write into a pipe and never wait for Python; one daemon thread reads it for all engines.
"""
from __future__ import annotations

import logging
import os
import threading
from typing import Any, Optional, Tuple

from ._native import ffi, lib
from .constants import LogLevel

LOGGER = logging.getLogger("kvferry")
LEVELS = {LogLevel.ERROR: logging.ERROR, LogLevel.WARNING: logging.WARNING, LogLevel.NOTICE: logging.INFO, LogLevel.DEBUG: logging.DEBUG}

_lock = threading.Lock()
_write_end: Optional[int] = None


def _pass_on(line: str) -> None:
    number, _, text = line.partition(" ")
    level = LEVELS.get(LogLevel(int(number)), logging.ERROR) if number.isdigit() and int(number) in list(LogLevel) else logging.ERROR
    LOGGER.log(level, "%s", text)


def _read_for_ever(read_end: int) -> None:
    with os.fdopen(read_end, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            _pass_on(line.rstrip("\n"))


def _pipe() -> int:
    global _write_end
    with _lock:
        if _write_end is None:
            read_end, _write_end = os.pipe()
            os.set_blocking(_write_end, False)
            threading.Thread(target=_read_for_ever, args=(read_end,), name="kvferry-log", daemon=True).start()
        return _write_end


def sink(level: LogLevel) -> Tuple[Any, Any, int]:
    """The log_sink, log_context and log_level for an engine."""
    return lib.kvferry_log_to_pipe, ffi.cast("void *", _pipe()), int(level)
