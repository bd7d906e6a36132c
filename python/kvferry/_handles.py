"""Sends, receives, peers and regions: what an engine hands out.

A room's handle gets its end from the engine, whoever polls; waiting and awaiting are only ways to be told.
"""
from __future__ import annotations

import asyncio
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Callable, Dict, Generator, List, Mapping, Optional, Sequence, Tuple, Union

from ._memory import Span, page_numbers
from ._native import ffi, lib
from ._structs import options, values_of
from .constants import Health, Way
from .errors import Error, check
from .statuses import Closed, Invalid, NotReady

if TYPE_CHECKING:
    from .engine import Engine

__all__ = ["Pages", "Peer", "PeerState", "Receive", "Region", "Result", "Send"]

#: Page numbers of list 0 from token 0 on; or by page list: numbers, or (numbers, first_token).
Pages = Union[Sequence[int], Any, Mapping[int, Any]]


def page_lists(pages: Optional[Pages]) -> Tuple[Any, int, List[object]]:
    """A `kvf_page_list[]`, its length, and what it points into."""
    if pages is None:
        return ffi.NULL, 0, []
    by_list: Mapping[int, Any] = pages if isinstance(pages, Mapping) else {0: pages}
    lists = ffi.new("kvf_page_list[]", max(1, len(by_list)))
    kept: List[object] = []
    for place, (number, value) in enumerate(by_list.items()):
        # (numbers, first_token) is told from a plain pair of page numbers by its first member.
        paired = isinstance(value, tuple) and len(value) == 2 and not isinstance(value[0], int)
        pointer, count = page_numbers(value[0] if paired else value)
        one = lists[place]
        one.page_list, one.page_count, one.pages = number, count, pointer
        one.first_token = value[1] if paired else 0
        kept.append(pointer)
    return lists, len(by_list), kept


@dataclass(frozen=True)
class Result:
    """How a room went on this rank. Times are sums over its pieces."""
    room: int
    bytes: int
    pieces: int
    slices: int
    retries: int
    elapsed_ns: int
    grant_wait_ns: int
    gather_ns: int
    write_ns: int
    scatter_ns: int

    @staticmethod
    def of_event(event: Any) -> Result:
        return Result(**{name: int(getattr(event, name)) for name in Result.__dataclass_fields__})


class Room:
    """One side of a room. It ends once: `result` is set, or `error`."""

    _close: Callable[[Any], None]
    _cancel: Callable[[Any, Any], int]

    def __init__(self, engine: Engine, room: int, tag: object) -> None:
        self.engine = engine
        self.room = room
        #: whatever the caller wants to find again on the event
        self.tag = tag
        self.result: Optional[Result] = None
        self.error: Optional[Error] = None
        self._pointer: Any = None
        self._futures: List[asyncio.Future[Result]] = []

    @property
    def ended(self) -> bool:
        """The terminal event has come: nothing reads or writes the pages any more."""
        return self.result is not None or self.error is not None

    def live_pointer(self) -> Any:
        if self._pointer is None:
            raise Closed("the handle is closed", {"room": str(self.room)})
        return self._pointer

    def cancel(self) -> None:
        """End the room; the pages may be reused only after its end has come."""
        error = ffi.new("kvf_error **")
        check(type(self)._cancel(self.live_pointer(), error), error)

    def wait(self, timeout: Optional[float] = None) -> Result:
        """Wait for the end, at most `timeout` seconds. Raises the room's error, or Timeout, after which the room goes on."""
        self.engine.wait_until(lambda: self.ended, timeout, f"the end of room {self.room}")
        return self._outcome()

    def __await__(self) -> Generator[Any, None, Result]:
        if self.ended:
            return self._outcome()
        loop = asyncio.get_running_loop()
        self.engine.attach(loop)
        future: asyncio.Future[Result] = loop.create_future()
        self._futures.append(future)
        # The end may have come between the look above and the attachment.
        self.engine.dispatch()
        return (yield from future.__await__())

    def close(self) -> None:
        """Give the handle back; before the end it cancels. Closing twice is fine."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None and self.engine.is_open:
            type(self)._close(pointer)

    def end(self, result: Result, error: Optional[Error]) -> None:
        """Called by the engine, once."""
        if error is None:
            self.result = result
        else:
            self.error = error
        futures, self._futures = self._futures, []
        for future in futures:
            future.get_loop().call_soon_threadsafe(self._settle, future)

    def _settle(self, future: asyncio.Future[Result]) -> None:
        if future.done():
            return
        self.engine.told(self)
        if self.error is not None:
            future.set_exception(self.error)
        elif self.result is not None:
            future.set_result(self.result)

    def _outcome(self) -> Result:
        self.engine.told(self)
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise NotReady("the room has not ended", {"room": str(self.room)})
        return self.result

    def __enter__(self: Any) -> Any:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()


class Send(Room):
    """The prefill side of a room."""

    _close = staticmethod(lib.kvf_send_close)
    _cancel = staticmethod(lib.kvf_send_cancel)

    def post(self, tokens: Tuple[int, int] = (0, 0), pages: Optional[Pages] = None, *, final: bool = False, aux: Any = b"",
             layers: Optional[Tuple[int, int]] = None, fence_fd: Optional[int] = None, cuda_stream: Optional[int] = None,
             cuda_event: Optional[int] = None) -> None:
        """Post tokens [tokens[0], tokens[1]) as one chunk, of all layers or of layers [layers[0], layers[1]).

        The page numbers and `aux` are copied before it returns; the pages themselves are read until the room's end. With `fence_fd`,
        an eventfd, they are not read before a count arrives there; with `cuda_stream` or `cuda_event`, a handle as a number, not before
        what is enqueued in the stream by now, or the event, has come.
        """
        if tokens[1] < tokens[0]:
            raise Invalid("a token range runs backwards", {"tokens": str(tokens)})
        lists, count, kept = page_lists(pages)
        chunk = ffi.new("kvf_chunk *")
        chunk.struct_bytes = ffi.sizeof("kvf_chunk")
        chunk.token_first, chunk.token_count = tokens[0], tokens[1] - tokens[0]
        chunk.final, chunk.page_lists, chunk.page_list_count = final, lists, count
        if layers is not None:
            chunk.layer_first, chunk.layer_count = layers[0], layers[1] - layers[0]
        if aux:
            held = ffi.from_buffer(aux)
            chunk.aux, chunk.aux_bytes = held, len(held)
        if fence_fd is not None:
            chunk.fenced, chunk.fence_fd = 1, fence_fd
        if cuda_stream is not None:
            chunk.after_cuda, chunk.cuda_handle = lib.KVF_CUDA_STREAM, ffi.cast("void *", cuda_stream)
        elif cuda_event is not None:
            chunk.after_cuda, chunk.cuda_handle = lib.KVF_CUDA_EVENT, ffi.cast("void *", cuda_event)
        error = ffi.new("kvf_error **")
        check(lib.kvf_send_post(self.live_pointer(), chunk, error), error)
        del kept


class Receive(Room):
    """The decode side of a room."""

    _close = staticmethod(lib.kvf_recv_close)
    _cancel = staticmethod(lib.kvf_recv_cancel)

    @property
    def aux(self) -> bytes:
        """The sender's auxiliary bytes, after the end."""
        pointer, count, error = ffi.new("const void **"), ffi.new("uint64_t *"), ffi.new("kvf_error **")
        check(lib.kvf_recv_aux(self.live_pointer(), pointer, count, error), error)
        return bytes(ffi.buffer(pointer[0], count[0])) if count[0] else b""


@dataclass(frozen=True)
class PeerState:
    """What is known of a peer."""
    up: bool
    rank: int
    rank_count: int
    stage: int
    incarnation: bytes
    label: str
    address: str
    fabric: str
    way: Way
    reason: str
    health: Health
    health_age_ns: int


class Peer:
    """A rank of another instance. Equal and hashable by identity."""

    def __init__(self, engine: Engine, pointer: Any, connected: bool) -> None:
        self.engine = engine
        self.pointer = pointer
        self._connected = connected

    @property
    def state(self) -> PeerState:
        """Asked anew each time."""
        given, _ = options("kvf_peer_state", {})
        error = ffi.new("kvf_error **")
        check(lib.kvf_peer_query(self.live_pointer(), given, error), error)
        values: Dict[str, Any] = values_of(given[0])
        values.update(up=bool(values["up"]), way=Way(values["way"]), health=Health(values["health"]))
        return PeerState(**{name: values[name] for name in PeerState.__dataclass_fields__})

    def live_pointer(self) -> Any:
        if self.pointer is None or not self.engine.is_open:
            raise Closed("the peer is closed")
        return self.pointer

    def wait_up(self, timeout: Optional[float] = None) -> PeerState:
        """Wait until the handshake is done."""
        self.engine.wait_until(lambda: self.state.up, timeout, "the peer's handshake")
        return self.state

    def close(self) -> None:
        """Drop the connection; rooms with this peer fail. A peer that connected to us is left to its engine."""
        pointer, self.pointer = self.pointer, None
        if pointer is not None and self._connected and self.engine.is_open:
            self.engine.forget(pointer)
            lib.kvf_peer_close(pointer)


class Region:
    """Registered memory. Its owner is kept alive until the region is closed and no room is left that may use it."""

    def __init__(self, engine: Engine, pointer: Any, span: Span) -> None:
        self.engine = engine
        self.address, self.length_bytes = span.address, span.length_bytes
        self._pointer = pointer

    def close(self) -> None:
        """Give the registration back. Closing twice is fine."""
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            self.engine.close_region(self, pointer)

    def __enter__(self) -> Region:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Waiters:
    """Lets any number of threads wait for events of one engine while just one of them at a time sits in the library."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._one_waits = False

    def take_turn(self, done: Callable[[], bool], seconds: float) -> bool:
        """True: the caller shall wait in the library, then call give_turn. False: it was woken, or the time is over."""
        with self._condition:
            if done():
                return False
            if not self._one_waits:
                self._one_waits = True
                return True
            self._condition.wait(seconds)
            return False

    def give_turn(self) -> None:
        with self._condition:
            self._one_waits = False
            self._condition.notify_all()

    def wake(self) -> None:
        with self._condition:
            self._condition.notify_all()
