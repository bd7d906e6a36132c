"""The named numbers of the C headers. A test compares each class with the library."""
from enum import IntEnum

__all__ = ["Component", "Dtype", "EventType", "Health", "Layout", "LogLevel", "Memory", "Role", "Way"]


class Way(IntEnum):
    """How bytes travel. Anything but AUTO is a demand."""
    AUTO = 0
    STAGED = 1
    DIRECT = 2


class Role(IntEnum):
    """What a plane holds."""
    K = 1
    V = 2
    LATENT = 3
    INDEX = 4
    SCALE_K = 5
    SCALE_V = 6
    STATE = 7


class Dtype(IntEnum):
    """A tag that both sides must agree on."""
    BF16 = 1
    F16 = 2
    F32 = 3
    FP8_E4M3 = 4
    FP8_E5M2 = 5
    INT8 = 6
    UINT8 = 7


class Layout(IntEnum):
    """NHD: [page][token][head][dim]. HND: [page][head][token][dim]."""
    NHD = 1
    HND = 2


class Memory(IntEnum):
    """Kinds of memory. 0, the default of a region, lets the library tell."""
    HOST = 1
    SHARED = 2
    CUDA = 3


class Component(IntEnum):
    """What a side may lack as a whole, by agreement."""
    MAIN = 0
    WINDOW = 1
    INDEX = 2
    SCALE = 3
    STATE = 4
    DRAFT = 5


class EventType(IntEnum):
    """What an event tells."""
    PEER_UP = 1
    PEER_DOWN = 2
    SEND_END = 3
    RECV_END = 4
    SEND_FAILING = 5
    RECV_FAILING = 6


class Health(IntEnum):
    """Of a peer: SUSPECT has left a heartbeat unanswered, rooms go on; DOWN is lost, rooms fail."""
    DOWN = 0
    OK = 1
    SUSPECT = 2


class LogLevel(IntEnum):
    """The library's log levels; they arrive as the levels of Python's logging."""
    ERROR = 1
    WARNING = 2
    NOTICE = 3
    DEBUG = 4
