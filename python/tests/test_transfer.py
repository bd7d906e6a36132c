"""Rooms between real engines, in this process and in others."""
import asyncio
import gc
import os
import threading
import time

import numpy as np
import pytest

import kvferry
from rank import PAGE_TOKENS, TIMEOUT, Rank, start


@pytest.fixture
def pair():
    sender, receiver = Rank(label="sender"), Rank(label="receiver")
    receiver.peer = receiver.engine.connect(sender.engine.address)[0]
    yield sender, receiver
    receiver.engine.close()
    sender.engine.close()


def move(sender, receiver, room, tokens=10, source=(5, 0, 3), target=(7, 1, 2)):
    sender.fill(room, source, tokens)
    receive = receiver.engine.receive(room, [receiver.peer], tokens=(0, tokens), pages=target)
    send = sender.engine.send(room)
    send.post((0, tokens), source, final=True, aux=b"first token")
    return send, receive


@pytest.mark.parametrize("fabrics", ["shm", "tcp"])
def test_unequal_ranks_in_processes(fabrics):
    tokens, rooms = 30, 5
    ranks = [start(rank, 4, rooms, tokens, fabrics) for rank in range(4)]
    receivers = [Rank(rank, 2, label=f"decode-{rank}", fabrics=fabrics) for rank in range(2)]
    try:
        pages = np.array([31, 2, 17, 4, 9, 0, 25, 11], np.int32)
        receives = []
        for receiver in receivers:
            peers = receiver.engine.connect(*(address for _, address in ranks))
            receives.append([receiver.engine.receive(room, peers, tokens=(0, tokens), pages=pages) for room in range(1, rooms + 1)])
        for receiver, rooms_of_it in zip(receivers, receives):
            assert all(receive.wait(TIMEOUT).bytes == receiver.expected(7, tokens).nbytes for receive in rooms_of_it)
            assert np.array_equal(receiver.received(pages, tokens), receiver.expected(7, tokens))
            assert rooms_of_it[0].aux.startswith(b"token ")
            assert receiver.engine.stats()["rooms_done"] == rooms
    finally:
        for receiver in receivers:
            receiver.engine.close()
    assert [process.wait(TIMEOUT) for process, _ in ranks] == [0] * 4


def test_wait_gives_the_result_on_both_sides(pair):
    sender, receiver = pair
    send, receive = move(*pair, room=42)
    result = receive.wait(TIMEOUT)
    assert send.wait(TIMEOUT).bytes == result.bytes == sender.expected(0, 10).nbytes
    assert result.pieces >= 1 and result.elapsed_ns > 0
    assert receive.aux == b"first token"
    assert np.array_equal(receiver.received((7, 1, 2), 10), receiver.expected(42, 10))
    assert not receiver.pool[:, :, 0].any()


def test_await(pair):
    async def both():
        send, receive = move(*pair, room=1)
        return await asyncio.wait_for(asyncio.gather(send, receive), TIMEOUT)
    sent, received = asyncio.run(both())
    assert sent.bytes == received.bytes > 0
    asyncio.run(both_again(pair))


async def both_again(pair):
    """A second event loop, after the first was closed."""
    send, receive = move(*pair, room=2)
    await asyncio.wait_for(receive, TIMEOUT)
    await send


def test_cancelled_room_raises_in_every_way_of_waiting(pair):
    sender, receiver = pair
    receive = receiver.engine.receive(9, [receiver.peer], tokens=(0, 4), pages=[0])
    receive.cancel()
    with pytest.raises(kvferry.Cancelled) as caught:
        receive.wait(TIMEOUT)
    assert not caught.value.retry

    async def wait():
        await receive
    with pytest.raises(kvferry.Cancelled):
        asyncio.run(wait())


def test_poll_tells_peers_and_ends(pair):
    sender, receiver = pair
    send, receive = move(*pair, room=5)
    receive.tag = "mine"
    send.wait(TIMEOUT)
    receiver.engine.wait_until(lambda: receive.ended, TIMEOUT, "the end")
    events = receiver.engine.poll()
    assert [event.type for event in events] == [kvferry.EventType.PEER_UP, kvferry.EventType.RECV_END]
    assert events[0].peer is receiver.peer and events[1].handle is receive and events[1].handle.tag == "mine"
    (up,) = sender.engine.poll()  # the end was told by waiting
    accepted = up.peer
    assert accepted.state.label == "receiver" and receiver.peer.wait_up(TIMEOUT).label == "sender"
    assert accepted.state.health is kvferry.Health.OK


def test_waiting_lets_other_threads_run(pair):
    receiver = pair[1]
    receive = receiver.engine.receive(1, [receiver.peer], tokens=(0, 4), pages=[0])
    counted, stop = [0], threading.Event()

    def count():
        while not stop.is_set():
            counted[0] += 1
    thread = threading.Thread(target=count)
    thread.start()
    began = time.thread_time()
    with pytest.raises(kvferry.Timeout, match="room 1"):
        receive.wait(0.5)
    spent = time.thread_time() - began
    stop.set()
    thread.join()
    assert counted[0] > 1000 and spent < 0.25


def test_many_threads_wait_for_their_own_rooms(pair):
    rooms = [move(*pair, room=room) for room in range(1, 25)]
    failures = []

    def wait(handle):
        try:
            handle.wait(TIMEOUT)
        except BaseException as fault:  # noqa: BLE001 - told below
            failures.append(fault)
    threads = [threading.Thread(target=wait, args=(handle,)) for room in rooms for handle in room]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT)
    assert not failures and not any(thread.is_alive() for thread in threads)


def test_a_cuda_stream_needs_cuda_memory(pair):
    with pair[0].engine.send(8) as send, pytest.raises(kvferry.Invalid, match="CUDA|cuda"):
        send.post((0, 4), [0], cuda_stream=0)


def test_closing_the_engine_ends_what_waits(pair):
    receiver = pair[1]
    receive = receiver.engine.receive(3, [receiver.peer], tokens=(0, 4), pages=[0])
    threading.Timer(0.2, receiver.engine.close).start()
    with pytest.raises(kvferry.Closed):
        receive.wait(TIMEOUT)
    receive.close()
    with pytest.raises(kvferry.Closed):
        receiver.engine.stats()


def test_a_lost_peer_is_told_with_its_cause():
    process, address = start(0, 1, 1, 8, "tcp")
    receiver = Rank(label="receiver", fabrics="tcp", progress_seconds=5)
    peer = receiver.engine.connect(address)[0]
    peer.wait_up(TIMEOUT)
    receive = receiver.engine.receive(77, [peer], tokens=(0, 8), pages=[0, 1])
    process.kill()
    process.wait()
    with pytest.raises(kvferry.Error) as caught:
        receive.wait(TIMEOUT)
    assert any(isinstance(link, kvferry.PeerLost) for link in caught.value.chain()), caught.value.chain()
    receiver.engine.close()


def test_nothing_grows_over_many_rooms(pair):
    def memory():
        gc.collect()
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def rounds(first, count):
        for room in range(first, first + count):
            send, receive = move(*pair, room=room, tokens=PAGE_TOKENS)
            receive.wait(TIMEOUT)
            send.wait(TIMEOUT)
    rounds(1, 300)
    before, descriptors = memory(), len(os.listdir("/proc/self/fd"))
    rounds(1000, 1500)
    assert memory() - before < 2 << 20
    assert len(os.listdir("/proc/self/fd")) == descriptors
