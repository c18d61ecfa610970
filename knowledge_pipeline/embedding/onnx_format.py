"""Reads and writes the few messages of ONNX that a graph needs (https://onnx.ai/onnx/repo-docs/IR.html).

Numbers of fields are those of onnx.proto3, which never change. The package `onnx` writes them as well, but
importing it takes longer than a search.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

FLOAT, INT64 = 1, 7
"""Types of a tensor's elements."""

_IR_VERSION = 9
_GRAPH, _CONSTANT, _RAW_DATA = 7, 5, 9  # fields of a model, a graph, a tensor
_LARGE_BYTES = 1 << 16
_EXTERNAL = 1
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_LENGTH_DELIMITED, _FIXED_32_BITS = 2, 5  # wire types of protocol buffers; 0 is a varint

AttributeValue = int | float | Sequence[int]


def write_node(
    kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, AttributeValue]
) -> bytes:
    """One operation with one output."""
    written = [_text(1, name) for name in inputs] + [_text(2, output), _text(4, kind)]
    return b"".join([*written, *(_message(5, _attribute(*each)) for each in attributes.items())])


def write_external_tensor(
    name: str, element_type: int, shape: Sequence[int], *, file: str, offset: int, length: int
) -> bytes:
    """A constant whose bytes lie in another file."""
    return _tensor_head(name, element_type, shape) + _refer(file, offset, length)


def write_tensor(name: str, element_type: int, shape: Sequence[int], content: bytes) -> bytes:
    """A constant with its bytes, little-endian."""
    return _tensor_head(name, element_type, shape) + _message(9, content)


def write_value(name: str, element_type: int, shape: Sequence[int | str]) -> bytes:
    """An input or output of the graph; a dimension that varies has a name."""
    dimensions = [_number(1, each) if isinstance(each, int) else _text(2, each) for each in shape]
    tensor = _number(1, element_type) + _message(2, b"".join(_message(1, each) for each in dimensions))
    return _text(1, name) + _message(2, _message(1, tensor))


def write_model(
    nodes: Sequence[bytes], constants: Sequence[bytes], given: bytes, made: bytes, *, opset: int
) -> bytes:
    """A whole model with one input and one output."""
    graph = [*(_message(1, node) for node in nodes), _text(2, "encoder")]
    graph += [*(_message(5, each) for each in constants), _message(11, given), _message(12, made)]
    versions = _message(8, _text(1, "") + _number(2, opset))
    return _number(1, _IR_VERSION) + _message(7, b"".join(graph)) + versions


def separate_weights(path: Path) -> bytes:
    """The model in a file, with references to its large constants, which stay in that file.

    onnxruntime maps what it is referred to, and copies several times what a message contains.

    Raises:
        ValueError, IndexError: it is no model.
    """
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        place = path.name

        def rewrite_tensor(start: int, end: int) -> bytes:
            parts: list[bytes] = []
            for field, at, body, stop in _iter_fields(content, start, end):
                is_large = field == _RAW_DATA and stop - body >= _LARGE_BYTES
                parts.append(_refer(place, body, stop - body) if is_large else content[at:stop])
            return b"".join(parts)

        def rewrite_graph(start: int, end: int) -> bytes:
            return b"".join(
                _message(field, rewrite_tensor(body, stop)) if field == _CONSTANT else content[at:stop]
                for field, at, body, stop in _iter_fields(content, start, end)
            )

        return b"".join(
            _message(field, rewrite_graph(body, stop)) if field == _GRAPH else content[at:stop]
            for field, at, body, stop in _iter_fields(content, 0, len(content))
        )


def _iter_fields(content: mmap.mmap, at: int, end: int) -> Iterator[tuple[int, int, int, int]]:
    """The fields of a message: number, and where each, its content, and the next one starts."""
    while at < end:
        start = at
        key, at = _read_varint(content, at)
        kind = key & 7
        if kind == _LENGTH_DELIMITED:
            size, at = _read_varint(content, at)
            body, at = at, at + size
        elif kind == 0:
            body, (_, at) = at, _read_varint(content, at)
        else:
            body, at = at, at + (4 if kind == _FIXED_32_BITS else 8)
        if at > end:
            raise ValueError("a field is longer than its message")
        yield key >> 3, start, body, at


def _read_varint(content: mmap.mmap, at: int) -> tuple[int, int]:
    """A number, and what comes after it."""
    value = shift = 0
    while True:
        byte = content[at]
        value, shift, at = value | (byte & 0x7F) << shift, shift + 7, at + 1
        if byte < 0x80:
            return value, at


def _refer(file: str, offset: int, length: int) -> bytes:
    place = {"location": file, "offset": str(offset), "length": str(length)}
    entries = [_message(13, _text(1, key) + _text(2, value)) for key, value in place.items()]
    return b"".join(entries) + _number(14, _EXTERNAL)


def _tensor_head(name: str, element_type: int, shape: Sequence[int]) -> bytes:
    return b"".join([*(_number(1, size) for size in shape), _number(2, element_type), _text(8, name)])


def _attribute(name: str, value: AttributeValue) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _ATTRIBUTE_INT)
    if isinstance(value, float):
        written = _varint(2 << 3 | _FIXED_32_BITS) + struct.pack("<f", value)
        return _text(1, name) + written + _number(20, _ATTRIBUTE_FLOAT)
    numbers = b"".join(_number(8, each) for each in value)
    return _text(1, name) + numbers + _number(20, _ATTRIBUTE_INTS)


def _text(field: int, text: str) -> bytes:
    return _message(field, text.encode())


def _message(field: int, content: bytes) -> bytes:
    return _varint(field << 3 | _LENGTH_DELIMITED) + _varint(len(content)) + content


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
