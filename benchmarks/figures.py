"""What several benchmarks measure by, and how they print it."""

from __future__ import annotations

import os
import platform
import re
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def describe_machine() -> str:
    """What this runs on, in words."""
    return f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"


def time_work(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds of the clock, and of the processor in this process."""
    started, worked = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - worked


def measure_processor(pid: int) -> float:
    """Seconds of the processor that a process has used."""
    values = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(values[11]) + int(values[12])) / os.sysconf("SC_CLK_TCK")


def measure_memory(pid: int) -> float:
    """What a process holds in memory now, in millions of bytes."""
    return _read_status(str(pid), "VmRSS")


def measure_peak_memory(process: int | str = "self") -> float:
    """The most memory that a process ever held, in millions of bytes; 0 of one that has ended."""
    return _read_status(str(process), "VmHWM")


def _read_status(process: str, name: str) -> float:
    found = re.search(rf"{name}:\s+(\d+)", Path(f"/proc/{process}/status").read_text())
    return round(int(found[1]) * 1024 / 1e6, 1) if found else 0.0


def print_rows(title: str, rows: Sequence[Mapping[str, Any]], *, width: int | None = None) -> None:
    """Print rows with the same keys as a table; columns that hold no numbers are aligned to the left."""
    table = Table(title=title)
    for heading, value in rows[0].items():
        table.add_column(heading, justify="left" if isinstance(value, str) else "right")
    for row in rows:
        table.add_row(*(f"{value:,}" if isinstance(value, int) else str(value) for value in row.values()))
    Console(width=width).print(table)
