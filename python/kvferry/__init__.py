"""kvferry moves the KV cache of a request from the ranks that computed it to the ranks that will read it.

One Engine runs in each rank. It registers the rank's pool, declares the planes that lie in it, connects to the ranks of the other
instance, and opens one side of a room for each request. docs/python.md is the tutorial.
"""
from . import statuses
from ._handles import Pages, Peer, PeerState, Receive, Region, Result, Room, Send
from ._memory import Pool
from ._native import ffi as _ffi, lib as _lib
from .constants import Component, Dtype, EventType, Health, Layout, LogLevel, Memory, Role, Way
from .engine import Engine, Event
from .errors import Error, class_of
from .layout import Flow, Plane, RankPlanes, attention_planes, compare, heads_split, plan
from .statuses import *  # noqa: F403 - the exception classes

__version__: str = _ffi.string(_lib.kvf_version()).decode()

__all__ = ["Component", "Dtype", "Engine", "Error", "Event", "EventType", "Flow", "Health", "Layout", "LogLevel", "Memory", "Pages", "Peer", "PeerState", "Plane",
           "Pool", "RankPlanes", "Receive", "Region", "Result", "Role", "Room", "Send", "Way", "__version__", "attention_planes", "class_of", "compare",
           "heads_split", "plan"] + statuses.__all__
