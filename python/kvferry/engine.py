"""The engine: one per rank. It owns what the library hands out, and deals events to the handles they belong to."""
from __future__ import annotations

import asyncio
import threading
import time
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Tuple

from . import _logging
from ._handles import Pages, Peer, Receive, Region, Result, Room, Send, Waiters, page_lists
from ._memory import span_of
from ._native import ffi, lib
from ._structs import SECOND_NS, nanoseconds, options, values_of
from .constants import EventType, LogLevel, Way
from .errors import Error, check, exception_from
from .layout import Plane, planes_array
from .statuses import Closed, Timeout

__all__ = ["Engine", "Event"]

POLL_BATCH = 64
KEPT_EVENTS = 4096
# How long one wait in the library lasts at most: a signal such as Ctrl-C is seen between two of them.
WAIT_SLICE_SECONDS = 0.1
ENDS = (EventType.SEND_END, EventType.RECV_END)


@dataclass(frozen=True, eq=False)
class Event:
    """Something that happened. Of a room: `handle`, unless it was closed. Of a peer: `peer`."""
    type: EventType
    room: int = 0
    handle: Optional[Room] = None
    peer: Optional[Peer] = None
    result: Optional[Result] = None
    error: Optional[Error] = None


class Engine:
    """Opens with the library's defaults; see kvferry/engine.h for each option. Times are in seconds.

    Threads: every method may be called from any thread. Waiting releases the interpreter's lock.
    Use it as a context manager, or close it: the library's threads live until then.
    """

    def __init__(self, *, listen: Optional[str] = None, label: Optional[str] = None, fabrics: Optional[str] = None, secret: Optional[str] = None,
                 way: Way = Way.AUTO, handshake_seconds: float = 0, heartbeat_seconds: float = 0, progress_seconds: float = 0, room_seconds: float = 0,
                 retry_backoff_seconds: float = 0, log_level: LogLevel = LogLevel.WARNING, **sizes: Any) -> None:
        """`sizes` are the further fields of kvf_engine_options by their names: copy_threads, arena_bytes, piece_bytes, window …"""
        self._pointer: Any = None
        sink, context, level = _logging.sink(log_level)
        given, borrowed = options("kvf_engine_options", dict(
            sizes, listen=listen, label=label, fabrics=fabrics, secret=secret, way=int(way), handshake_ns=nanoseconds(handshake_seconds),
            heartbeat_ns=nanoseconds(heartbeat_seconds), progress_ns=nanoseconds(progress_seconds), room_ns=nanoseconds(room_seconds),
            retry_backoff_ns=nanoseconds(retry_backoff_seconds), log_sink=sink, log_context=context, log_level=level))
        engine, error = ffi.new("kvf_engine **"), ffi.new("kvf_error **")
        check(lib.kvf_engine_open(given, engine, error), error)
        del borrowed
        self._pointer = engine[0]
        self._lock = threading.Lock()  # of what follows, and of polling
        self._rooms: Dict[int, Room] = {}
        self._last_tag = 0
        self._peers: Dict[Any, Peer] = {}
        self._owners: Dict[Region, object] = {}
        self._late_owners: List[object] = []
        self._kept: Dict[object, Event] = {}  # by the room whose end it is, else by the event itself
        self._batch = ffi.new("kvf_event[]", POLL_BATCH)
        self._waiters = Waiters()
        self._loops: Set[asyncio.AbstractEventLoop] = set()
        self._cache: Any = None

    # Lifetime

    @property
    def is_open(self) -> bool:
        """Until close."""
        return self._pointer is not None

    def live_pointer(self) -> Any:
        if self._pointer is None:
            raise Closed("the engine is closed")
        return self._pointer

    def close(self) -> None:
        """Stop everything. Rooms that still run end as Closed here, as cancelled on the other side. Closing twice is fine."""
        pointer, self._pointer = self._pointer, None
        if pointer is None:
            return
        for loop in self._loops:
            if not loop.is_closed():
                loop.call_soon_threadsafe(loop.remove_reader, lib.kvf_engine_event_fd(pointer))
        lib.kvf_engine_close(pointer)
        with self._lock:
            rooms = list(self._rooms.values())
            self._rooms.clear()
        for room in rooms:
            room.end(Result(room.room, 0, 0, 0, 0, 0, 0, 0, 0, 0), Closed("the engine was closed", {"room": str(room.room)}))
        self._waiters.wake()
        self._owners.clear()
        self._late_owners.clear()

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None) is not None:
            self.close()

    def drain(self) -> None:
        """Refuse new rooms; running ones go on."""
        error = ffi.new("kvf_error **")
        check(lib.kvf_engine_drain(self.live_pointer(), error), error)

    # What it is

    @property
    def address(self) -> str:
        """Where it listens, as bound."""
        text: bytes = ffi.string(lib.kvf_engine_address(self.live_pointer()))
        return text.decode()

    @property
    def incarnation(self) -> bytes:
        """The random identity of this process start."""
        identity = ffi.new("uint8_t[16]")
        lib.kvf_engine_incarnation(self.live_pointer(), identity)
        return bytes(ffi.buffer(identity))

    def stats(self) -> Dict[str, int]:
        """Every counter of kvf_engine_stats by its name."""
        given, _ = options("kvf_engine_stats", {})
        error = ffi.new("kvf_error **")
        check(lib.kvf_engine_stats_query(self.live_pointer(), given, error), error)
        return values_of(given[0])

    def metrics(self) -> str:
        """The metrics as Prometheus text."""
        needed = lib.kvf_engine_metrics_render(self.live_pointer(), ffi.NULL, 0)
        while True:
            room = needed + 1024
            text = ffi.new("char[]", room)
            needed = lib.kvf_engine_metrics_render(self.live_pointer(), text, room)
            if needed < room:
                return str(ffi.string(text).decode("utf-8", "replace"))

    # Memory and cache

    def register(self, *holders: Any, labels: Sequence[str] = (), pin: bool = False) -> List[Region]:
        """Register the memory of arrays, tensors, pools, buffers or (address, length_bytes) pairs, all or none, without copying."""
        spans = [span_of(holder) for holder in holders]
        names = [ffi.new("char[]", label.encode("utf-8")) for label in labels]
        given = ffi.new("kvf_region_options[]", max(1, len(spans)))
        for index, span in enumerate(spans):
            one = given[index]
            one.struct_bytes = ffi.sizeof("kvf_region_options")
            one.address, one.length_bytes, one.kind, one.pin = ffi.cast("void *", span.address), span.length_bytes, span.kind, pin
            if index < len(names):
                one.label = names[index]
        regions, error = ffi.new("kvf_region *[]", max(1, len(spans))), ffi.new("kvf_error **")
        check(lib.kvf_region_open(self.live_pointer(), given, len(spans), regions, error), error)
        made = [Region(self, regions[index], span) for index, span in enumerate(spans)]
        self._owners.update((region, span.owner) for region, span in zip(made, spans))
        return made

    def close_region(self, region: Region, pointer: Any) -> None:
        """Region.close: the owner of the memory stays as long as rooms run."""
        owner = self._owners.pop(region, None)
        if not self.is_open:
            return
        lib.kvf_region_close(pointer)
        with self._lock:
            if self._rooms:
                self._late_owners.append(owner)

    def open_cache(self, planes: Sequence[Plane], *, rank: int = 0, rank_count: int = 1, stage: int = 0, components: int = 0,
                   ignore_components: int = 0) -> None:
        """Declare what this rank holds. Handshakes complete from here on. One per engine."""
        array = planes_array(planes)
        given, _ = options("kvf_cache_options", dict(
            planes=array, plane_count=len(planes), plane_bytes=ffi.sizeof("kvf_plane"), rank=rank, rank_count=rank_count, stage=stage,
            components=components, ignore_components=ignore_components))
        cache, error = ffi.new("kvf_cache **"), ffi.new("kvf_error **")
        check(lib.kvf_cache_open(self.live_pointer(), given, cache, error), error)
        self._cache = cache[0]

    def close_cache(self) -> None:
        """Take the declaration back; every room ends as cancelled."""
        cache, self._cache = self._cache, None
        if cache is not None and self.is_open:
            lib.kvf_cache_close(cache)

    # Peers and rooms

    def connect(self, *addresses: str) -> List[Peer]:
        """Connect to ranks; returns at once. The engine keeps trying until a peer is closed."""
        texts = [ffi.new("char[]", address.encode()) for address in addresses]
        given = ffi.new("const char *[]", texts or [ffi.NULL])
        peers, error = ffi.new("kvf_peer *[]", max(1, len(texts))), ffi.new("kvf_error **")
        check(lib.kvf_peer_connect(self.live_pointer(), given, len(texts), peers, error), error)
        made = [Peer(self, peers[index], True) for index in range(len(texts))]
        with self._lock:
            self._peers.update((peer.pointer, peer) for peer in made)
        return made

    def forget(self, pointer: Any) -> None:
        """Peer.close: the pointer may be given to another peer from now on."""
        with self._lock:
            self._peers.pop(pointer, None)

    def send(self, room: int, *, tag: object = None, progress_seconds: float = 0, room_seconds: float = 0, **more: Any) -> Send:
        """Open the sending side of a room. `more` are further fields of kvf_send_options."""
        send = Send(self, room, tag)
        given, _ = options("kvf_send_options", dict(
            more, room=room, progress_ns=nanoseconds(progress_seconds), room_ns=nanoseconds(room_seconds)))
        self._open_room(send, lib.kvf_send_open, given, "kvf_send **")
        return send

    def receive(self, room: int, peers: Sequence[Peer], *, tokens: Tuple[int, int] = (0, 0), pages: Optional[Pages] = None, tag: object = None,
                progress_seconds: float = 0, room_seconds: float = 0, **more: Any) -> Receive:
        """Open the receiving side: tokens [tokens[0], tokens[1]) of the request from every rank of the sending instance.

        The page numbers are copied; the pages are written until the room's end. `more` are further fields of kvf_recv_options.
        """
        receive = Receive(self, room, tag)
        lists, count, kept = page_lists(pages)
        pointers = ffi.new("kvf_peer *[]", [peer.live_pointer() for peer in peers] or [ffi.NULL])
        given, _ = options("kvf_recv_options", dict(
            more, room=room, peers=pointers, peer_count=len(peers), page_lists=lists, page_list_count=count, token_first=tokens[0],
            token_end=tokens[1], progress_ns=nanoseconds(progress_seconds), room_ns=nanoseconds(room_seconds)))
        self._open_room(receive, lib.kvf_recv_open, given, "kvf_recv **")
        del kept
        return receive

    def _open_room(self, room: Room, open_in_library: Any, given: Any, kind: str) -> None:
        handle, error = ffi.new(kind), ffi.new("kvf_error **")
        with self._lock:
            self._last_tag += 1
            tag = given.user_tag = self._last_tag
            self._rooms[tag] = room  # before the call: its end may be polled by another thread at once
        status = open_in_library(self.live_pointer(), given, handle, error)
        if status:
            with self._lock:
                del self._rooms[tag]
            raise exception_from(status, error[0])
        room._pointer = handle[0]

    # Events

    @property
    def event_fd(self) -> int:
        """Readable while events wait. Do not read it; call dispatch or poll."""
        return int(lib.kvf_engine_event_fd(self.live_pointer()))

    def dispatch(self) -> None:
        """Take every waiting event and deal it to its handle. Never blocks."""
        with self._lock:
            while self._pointer is not None and self._take_batch() == POLL_BATCH:
                pass
            if not self._rooms:
                self._late_owners.clear()
        self._waiters.wake()

    def poll(self) -> List[Event]:
        """Everything that happened since the last poll, oldest first, but for ends of rooms that somebody was told by waiting.
        Never blocks. At most the last 4,096 events are kept for it."""
        self.dispatch()
        with self._lock:
            events = list(self._kept.values())
            self._kept.clear()
        return events

    def told(self, room: Room) -> None:
        """Somebody has waited for this room's end: poll need not tell it."""
        with self._lock:
            self._kept.pop(room, None)

    def wait_until(self, done: Callable[[], bool], timeout: Optional[float], what: str) -> None:
        """Wait until `done()`, dealing events meanwhile. Raises Timeout, naming `what`."""
        deadline = None if timeout is None else time.monotonic() + timeout
        while not done():
            self.live_pointer()
            left = WAIT_SLICE_SECONDS if deadline is None else min(WAIT_SLICE_SECONDS, deadline - time.monotonic())
            if left < 0:
                raise Timeout(f"waited {timeout} s for {what}", {"waiting_for": what})
            if self._waiters.take_turn(done, left):
                try:
                    lib.kvf_engine_wait(self.live_pointer(), int(left * SECOND_NS), ffi.NULL)
                finally:
                    self._waiters.give_turn()
                self.dispatch()

    def attach(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let an event loop deal the events, so that handles can be awaited in it. Awaiting does this by itself."""
        if loop not in self._loops:
            self._loops.add(loop)
            loop.add_reader(self.event_fd, self.dispatch)

    def _take_batch(self) -> int:
        """With the lock held."""
        count, error = ffi.new("size_t *"), ffi.new("kvf_error **")
        check(lib.kvf_engine_poll(self._pointer, self._batch, POLL_BATCH, count, error), error)
        for index in range(count[0]):
            self._keep(self._deal(self._batch[index]))
        return int(count[0])

    def _keep(self, event: Event) -> None:
        if len(self._kept) >= KEPT_EVENTS:
            del self._kept[next(iter(self._kept))]
        self._kept[event.handle if event.type in ENDS and event.handle is not None else event] = event

    def _deal(self, event: Any) -> Event:
        kind = EventType(event.type)
        error = exception_from(event.status, event.error) if event.status or event.error != ffi.NULL else None
        if kind in (EventType.PEER_UP, EventType.PEER_DOWN):
            return Event(kind, peer=self._peer_of(event.peer), error=error)
        ended = kind in ENDS
        room = self._rooms.pop(event.user_tag, None) if ended else self._rooms.get(event.user_tag)
        result = Result.of_event(event)
        if ended and room is not None:
            room.end(result, error)
        return Event(kind, room=int(event.room), handle=room, result=result, error=error)

    def _peer_of(self, pointer: Any) -> Optional[Peer]:
        if pointer == ffi.NULL:
            return None
        if pointer not in self._peers:
            self._peers[pointer] = Peer(self, pointer, False)
        return self._peers[pointer]
