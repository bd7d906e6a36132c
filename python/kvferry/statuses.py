"""One exception class for each status of the library.

Written by `make errors-doc` from src/base/errors.def. Change the table, not this file.
"""
from .errors import Error, register

__all__ = [
    "Invalid",
    "NoMemory",
    "System",
    "Internal",
    "Closed",
    "Timeout",
    "Cancelled",
    "Backpressure",
    "TooLarge",
    "Incompatible",
    "Unreachable",
    "PeerLost",
    "Draining",
    "WrongPeer",
    "AuthFailed",
    "Protocol",
    "NotRegistered",
    "KeyRevoked",
    "Stale",
    "OutOfRange",
    "GrantOverrun",
    "Fabric",
    "StagedWriteFailed",
    "DirectWriteFailed",
    "PeerFailed",
    "NotCovered",
    "Incomplete",
    "Unsupported",
    "Unavailable",
    "Corrupt",
    "ResourceLimit",
    "BadAddress",
    "Overlap",
    "NotReady",
    "UnknownRoom",
]


@register
class Invalid(Error, ValueError):
    """The call itself is wrong."""

    status = 1
    name = "INVALID"
    retry = False
    meaning = "The call itself is wrong."
    remedy = "Correct the call. Nothing was changed by it."


@register
class NoMemory(Error, MemoryError):
    """An allocation failed."""

    status = 2
    name = "NO_MEMORY"
    retry = True
    meaning = "An allocation failed."
    remedy = "Free memory or raise the limit, then try again."


@register
class System(Error):
    """The operating system refused a call."""

    status = 3
    name = "SYSTEM"
    retry = True
    meaning = "The operating system refused a call."
    remedy = "Do what the errno asks for (limits, permissions, address in use), then try again."


@register
class Internal(Error):
    """kvferry met a state that its own rules exclude."""

    status = 4
    name = "INTERNAL"
    retry = False
    meaning = "kvferry met a state that its own rules exclude."
    remedy = "Report it with the whole chain. The room has failed; other rooms go on."


@register
class Closed(Error):
    """The object has been closed."""

    status = 5
    name = "CLOSED"
    retry = False
    meaning = "The object has been closed."
    remedy = "Open it again if it is still needed."


@register
class Timeout(Error, TimeoutError):
    """A deadline passed."""

    status = 6
    name = "TIMEOUT"
    retry = True
    meaning = "A deadline passed."
    remedy = "See whether the other side is alive and has opened the room; raise the deadline only if it was progressing."


@register
class Cancelled(Error):
    """The room was cancelled."""

    status = 7
    name = "CANCELLED"
    retry = False
    meaning = "The room was cancelled."
    remedy = "Nothing; open a new room to send again."


@register
class Backpressure(Error):
    """A local queue or pool is full for now."""

    status = 8
    name = "BACKPRESSURE"
    retry = True
    meaning = "A local queue or pool is full for now."
    remedy = "Poll for events, then post again. The peer and its connection are healthy."


@register
class TooLarge(Error):
    """The request can never fit."""

    status = 9
    name = "TOO_LARGE"
    retry = False
    meaning = "The request can never fit."
    remedy = "Raise the limit (arena_bytes, piece_bytes) or make the request smaller."


@register
class Incompatible(Error):
    """The two sides describe different things."""

    status = 10
    name = "INCOMPATIBLE"
    retry = False
    meaning = "The two sides describe different things."
    remedy = "Start both sides with matching models and settings."


@register
class Unreachable(Error):
    """No connection to the peer could be made."""

    status = 11
    name = "UNREACHABLE"
    retry = True
    meaning = "No connection to the peer could be made."
    remedy = "Start the peer or correct the address. kvferry keeps trying with backoff while the peer object lives."


@register
class PeerLost(Error):
    """An established peer went away."""

    status = 12
    name = "PEER_LOST"
    retry = True
    meaning = "An established peer went away."
    remedy = "Nothing: kvferry reconnects by itself and takes a restarted peer as a new incarnation. Send the room again."


@register
class Draining(Error):
    """The other side is shutting down and takes no new rooms."""

    status = 13
    name = "DRAINING"
    retry = True
    meaning = "The other side is shutting down and takes no new rooms."
    remedy = "Route the request to another instance."


@register
class WrongPeer(Error):
    """Another process answers at this address."""

    status = 14
    name = "WRONG_PEER"
    retry = True
    meaning = "Another process answers at this address."
    remedy = "Refresh the address of the peer."


@register
class AuthFailed(Error):
    """The shared secret does not match."""

    status = 15
    name = "AUTH_FAILED"
    retry = False
    meaning = "The shared secret does not match."
    remedy = "Configure the same secret everywhere."


@register
class Protocol(Error):
    """A message could not be understood."""

    status = 16
    name = "PROTOCOL"
    retry = False
    meaning = "A message could not be understood."
    remedy = "Correct the address. The connection was closed; other peers are unaffected."


@register
class NotRegistered(Error):
    """An address is not inside a registered region."""

    status = 17
    name = "NOT_REGISTERED"
    retry = False
    meaning = "An address is not inside a registered region."
    remedy = "Register the memory before creating the cache; keep it registered while rooms use it."


@register
class KeyRevoked(Error):
    """The peer's memory is no longer registered under the key that we hold."""

    status = 18
    name = "KEY_REVOKED"
    retry = True
    meaning = "The peer's memory is no longer registered under the key that we hold."
    remedy = "Nothing: the key is refreshed and the piece sent again. If it persists, see why the peer keeps revoking."


@register
class Stale(Error):
    """A message or key is of an older generation."""

    status = 19
    name = "STALE"
    retry = True
    meaning = "A message or key is of an older generation."
    remedy = "Nothing: the sender refreshes and retries."


@register
class OutOfRange(Error, IndexError):
    """An address range leaves its region."""

    status = 20
    name = "OUT_OF_RANGE"
    retry = False
    meaning = "An address range leaves its region."
    remedy = "Correct the page list: it counts pages, not tokens."


@register
class GrantOverrun(Error):
    """A piece is larger than the extent it was granted."""

    status = 21
    name = "GRANT_OVERRUN"
    retry = False
    meaning = "A piece is larger than the extent it was granted."
    remedy = "Report it: the library cuts pieces to their grants."


@register
class Fabric(Error):
    """The data fabric returned an error."""

    status = 22
    name = "FABRIC"
    retry = True
    meaning = "The data fabric returned an error."
    remedy = "kvferry retries by itself; try `--fabric tcp` to see whether the provider is at fault."


@register
class StagedWriteFailed(Error):
    """A bulk write from staging could not be delivered."""

    status = 23
    name = "STAGED_WRITE_FAILED"
    retry = True
    meaning = "A bulk write from staging could not be delivered."
    remedy = "Follow the innermost cause. Only this room failed; send it again."


@register
class DirectWriteFailed(Error):
    """A write from pages into pages could not be delivered."""

    status = 24
    name = "DIRECT_WRITE_FAILED"
    retry = True
    meaning = "A write from pages into pages could not be delivered."
    remedy = "Follow the innermost cause; `--way staged` avoids the direct way."


@register
class PeerFailed(Error):
    """The other side failed this room."""

    status = 25
    name = "PEER_FAILED"
    retry = True
    meaning = "The other side failed this room."
    remedy = "Follow the cause on the rank named in origin."


@register
class NotCovered(Error):
    """The sending ranks do not cover what the receiver holds exactly once."""

    status = 26
    name = "NOT_COVERED"
    retry = False
    meaning = "The sending ranks do not cover what the receiver holds exactly once."
    remedy = "Give the receiver all ranks of the sending instance, with the right layers and heads."


@register
class Incomplete(Error):
    """Less arrived than was declared."""

    status = 27
    name = "INCOMPLETE"
    retry = True
    meaning = "Less arrived than was declared."
    remedy = "See why the sender ended early (preemption, abort)."


@register
class Unsupported(Error):
    """This combination is not supported."""

    status = 28
    name = "UNSUPPORTED"
    retry = False
    meaning = "This combination is not supported."
    remedy = "Choose another way or fabric."


@register
class Unavailable(Error):
    """An optional part is not on this machine."""

    status = 29
    name = "UNAVAILABLE"
    retry = False
    meaning = "An optional part is not on this machine."
    remedy = "Install it, or use another fabric."


@register
class Corrupt(Error):
    """Bytes arrived damaged."""

    status = 30
    name = "CORRUPT"
    retry = True
    meaning = "Bytes arrived damaged."
    remedy = "Take the host out of service if it repeats."


@register
class ResourceLimit(Error):
    """A limit of the system is too low."""

    status = 31
    name = "RESOURCE_LIMIT"
    retry = False
    meaning = "A limit of the system is too low."
    remedy = "Raise the limit that the message names."


@register
class BadAddress(Error):
    """The text is not a host and port."""

    status = 32
    name = "BAD_ADDRESS"
    retry = False
    meaning = "The text is not a host and port."
    remedy = "Correct the address."


@register
class Overlap(Error):
    """The memory overlaps a registered region."""

    status = 33
    name = "OVERLAP"
    retry = False
    meaning = "The memory overlaps a registered region."
    remedy = "Register each range once; an identical registration is counted."


@register
class NotReady(Error):
    """Something needed is not there yet."""

    status = 34
    name = "NOT_READY"
    retry = True
    meaning = "Something needed is not there yet."
    remedy = "Wait for the event, or retry."


@register
class UnknownRoom(Error):
    """The other side does not know this room."""

    status = 35
    name = "UNKNOWN_ROOM"
    retry = False
    meaning = "The other side does not know this room."
    remedy = "Open the room on both sides under the same id."
