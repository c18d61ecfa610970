"""What a process frees goes back to the system, once it has opened a table."""

from __future__ import annotations

import platform
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

OPEN_TABLE = """
    import pyarrow as pa
    from pathlib import Path
    from knowledge_pipeline.store import lance_storage

    lance_storage.create_dataset(Path("table.lance"), pa.schema({"id": pa.string()}))
"""
FREE_ALL_BUT_THE_LAST = """
    import ctypes, re

    BLOCK_BYTES = 2 << 20
    libc = ctypes.CDLL(None)
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]

    def allocate(count):
        blocks = [libc.malloc(BLOCK_BYTES) for _ in range(count)]
        for block in blocks:
            ctypes.memset(block, 1, BLOCK_BYTES)
        return blocks

    def measure_memory_mb():
        return int(re.search("VmRSS:([ 0-9\\t]+)", Path("/proc/self/status").read_text())[1]) / 1024

    libc.free(allocate(1)[0])  # by default blocks of this size are taken from a heap from now on
    before, blocks = measure_memory_mb(), allocate(50)
    held = measure_memory_mb()
    for block in blocks[:-1]:  # which the last one would keep in the heap
        libc.free(block)
    print(round(held - before), round(measure_memory_mb() - before))
"""


def run(folder: Path, *programs: str) -> str:
    """What a process prints that runs the programs one after the other."""
    command = [sys.executable, "-c", "".join(map(textwrap.dedent, programs))]
    return subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, text=True, check=True).stdout


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries have no such options")
def test_large_blocks_are_given_back(tmp_path):
    held_mb, left_mb = map(int, run(tmp_path, OPEN_TABLE, FREE_ALL_BUT_THE_LAST).split())
    assert held_mb >= 95
    assert left_mb < 20


def test_arrow_takes_memory_from_the_c_library(tmp_path):
    assert run(tmp_path, OPEN_TABLE, "print(pa.default_memory_pool().backend_name)") == "system\n"
