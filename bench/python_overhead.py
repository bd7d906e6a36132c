"""What a call costs through the Python package beyond the C call itself. Needs the package installed; prints the medians of 5 rounds.

The C call is timed through cffi with its arguments already made: what Python adds is the rest of the method. Posts of an open room
are compared, with a page list of 256 pages, and opening and closing a receive.
"""
import argparse
import json
import statistics
import time

import numpy as np

import kvferry
from kvferry._handles import page_lists
from kvferry._native import ffi, lib

CALLS, ROUNDS, PAGES = 2000, 5, 256


def per_call_us(call):
    began = time.perf_counter_ns()
    for _ in range(CALLS):
        call()
    return (time.perf_counter_ns() - began) / CALLS / 1000


def prepared_post(send, pages):
    lists, count, kept = page_lists(pages)
    chunk, error = ffi.new("kvf_chunk *"), ffi.new("kvf_error **")
    chunk.struct_bytes = ffi.sizeof("kvf_chunk")
    chunk.token_count, chunk.page_lists, chunk.page_list_count = PAGES * 16, lists, count
    return lambda borrowed=(lists, kept): lib.kvf_send_post(send.live_pointer(), chunk, error)


def measure(engine):
    pages = np.random.default_rng(1).permutation(PAGES).astype(np.uint32)
    rounds = []
    for room in range(1, ROUNDS + 1):
        with engine.send(2 * room) as send:
            bare = per_call_us(prepared_post(send, pages))
        with engine.send(2 * room + 1) as send:
            full = per_call_us(lambda: send.post((0, PAGES * 16), pages))
        rounds.append((bare, full, full - bare))
    return [statistics.median(column) for column in zip(*rounds)], max(row[2] for row in rounds)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    arguments = parser.parse_args()
    planes, pool_bytes = kvferry.attention_planes(layer_count=1, heads_total=1, head_bytes=64, page_count=PAGES)
    pool = kvferry.Pool(pool_bytes)
    with kvferry.Engine() as engine:
        engine.register(pool)
        planes, _ = kvferry.attention_planes(layer_count=1, heads_total=1, head_bytes=64, page_count=PAGES, pool=pool)
        engine.open_cache(planes)
        (bare, full, added), most = measure(engine)
    if arguments.json:
        print(json.dumps({"c_call_us": bare, "python_call_us": full, "added_us": added, "added_most_us": most}))
    else:
        print(f"kvf_send_post {bare:.1f} us, Send.post {full:.1f} us: Python adds {added:.1f} us (at most {most:.1f}); the limit is 20 us")
    return added > 20


if __name__ == "__main__":
    raise SystemExit(main())
