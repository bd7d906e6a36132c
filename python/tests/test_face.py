"""Constants, errors, logging, layout and the types, held against the library."""
import enum
import logging
import re
import subprocess
import sys
import time

import pytest

import kvferry
from kvferry import constants
from kvferry._native import ffi, lib

PREFIXES = {"Way": "KVF_WAY_", "Role": "KVF_ROLE_", "Dtype": "KVF_DTYPE_", "Layout": "KVF_LAYOUT_", "Memory": "KVF_MEMORY_",
            "Component": "KVF_COMPONENT_", "EventType": "KVF_EVENT_", "Health": "KVF_PEER_", "LogLevel": "KVF_LOG_"}
NO_MEMBERS = {"KVF_COMPONENT_LIMIT", "KVF_PEER_LOST", "KVF_PEER_FAILED"}  # a limit, and statuses


@pytest.mark.parametrize("name", constants.__all__)
def test_constants_are_the_library_s(name):
    kind = getattr(constants, name)
    assert issubclass(kind, enum.IntEnum)
    names = [one for one in dir(lib) if one.startswith(PREFIXES[name]) and one not in NO_MEMBERS]
    assert {PREFIXES[name] + member.name: int(member) for member in kind} == {one: getattr(lib, one) for one in names}


def test_every_status_has_its_exception():
    text = ffi.new("kvf_status_text *")
    status = 1
    while lib.kvf_status_query(status, text) == 0:
        kind = kvferry.class_of(status)
        assert (kind.status, kind.name) == (status, ffi.string(text.name).decode())
        assert kind.meaning == ffi.string(text.meaning).decode() and kind.retry == bool(text.retry)
        status += 1
    assert status > 30 and kvferry.class_of(status) is kvferry.Error


def test_python_kin():
    assert issubclass(kvferry.Invalid, ValueError) and issubclass(kvferry.Timeout, TimeoutError)


def test_the_whole_chain_arrives():
    with kvferry.Engine(label="chain") as engine:
        with pytest.raises(kvferry.Error) as caught:
            kvferry.Engine(listen=engine.address)
    chain = caught.value.chain()
    assert chain[0] is caught.value and chain[-1].fields.get("errno"), str(chain)
    assert caught.value.find("errno") == chain[-1].fields["errno"]
    assert chain[0].raised_at[1] > 0 and chain[0].name in str(caught.value)


@pytest.mark.parametrize("options", [{"listen": "no port"}, {"window": -1}, {"heartbeat_seconds": -1}, {"nonsense": 1}, {"arena_bytes": 1}])
def test_bad_options(options):
    with pytest.raises((kvferry.Error, AttributeError)):
        kvferry.Engine(**options)


def test_library_lines_become_records(caplog):
    with caplog.at_level(logging.DEBUG, "kvferry"), kvferry.Engine(log_level=kvferry.LogLevel.DEBUG, label="talkative") as engine:
        peer, = engine.connect("127.0.0.1:1")
        until = time.monotonic() + 5
        while not caplog.records and time.monotonic() < until:
            time.sleep(0.02)
        peer.close()
    assert caplog.records and all(record.name == "kvferry" for record in caplog.records)


def test_compare_and_plan_without_a_connection():
    def rank(number, count, head_bytes=64):
        return kvferry.RankPlanes(kvferry.attention_planes(layer_count=2, heads_total=8, head_bytes=head_bytes, page_count=8, rank=number, rank_count=count)[0])
    sources = [rank(number, 4) for number in range(4)]
    kvferry.compare(sources, rank(0, 2))
    flows = kvferry.plan(sources, rank(1, 2), target_rank=1, token_end=100)
    assert [flow.bytes for flow in flows] == [0, 0] + [2 * 2 * 100 * 2 * 64] * 2
    with pytest.raises(kvferry.NotCovered):
        kvferry.compare(sources[1:], rank(0, 2))
    with pytest.raises(kvferry.Incompatible) as caught:
        kvferry.compare(sources, rank(0, 2, head_bytes=128))
    assert any("head_bytes" in str(link) for link in caught.value.chain())


def test_metrics_and_identity():
    with kvferry.Engine() as engine:
        assert re.search(r"^kvferry_\w+ ", engine.metrics(), re.M)
        assert len(engine.incarnation) == 16 and any(engine.incarnation)
        engine.drain()


def test_an_idle_engine_that_nobody_closes_ends_with_the_process():
    code = "import kvferry; engine = kvferry.Engine(); kvferry.Engine(); print(engine.address)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert run.returncode == 0 and run.stdout and not run.stderr
