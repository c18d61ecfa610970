"""Writes the few messages of ONNX that a graph needs (https://onnx.ai/onnx/repo-docs/IR.html).

Numbers of fields are those of onnx.proto3, which never change. The package `onnx` writes them as well, but
importing it takes longer than a search.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

FLOAT, INT64 = 1, 7
"""Types of a tensor's elements."""

_IR_VERSION = 9
_EXTERNAL = 1
_ATTRIBUTE_FLOAT, _ATTRIBUTE_INT, _ATTRIBUTE_INTS = 1, 2, 7
_LENGTH_DELIMITED, _FIXED_32_BITS = 2, 5  # wire types of protocol buffers; 0 is a varint

AttributeValue = int | float | Sequence[int]
_Field = tuple[int, int | float | str | bytes]  # its number, and its value: of an inner message, the bytes


def write_node(
    kind: str, inputs: Sequence[str], output: str, attributes: Mapping[str, AttributeValue]
) -> bytes:
    """One operation with one output."""
    written = [(5, _write_attribute(name, value)) for name, value in attributes.items()]
    return _encode(*((1, name) for name in inputs), (2, output), (4, kind), *written)


def write_external_tensor(
    name: str, element_type: int, shape: Sequence[int], *, file: str, offset: int, length: int
) -> bytes:
    """A constant whose bytes lie in another file."""
    location = {"location": file, "offset": str(offset), "length": str(length)}
    entries = [(13, _encode((1, key), (2, value))) for key, value in location.items()]
    return _encode(*((1, size) for size in shape), (2, element_type), (8, name), *entries, (14, _EXTERNAL))


def write_tensor(name: str, element_type: int, shape: Sequence[int], content: bytes) -> bytes:
    """A constant with its bytes, little-endian."""
    return _encode(*((1, size) for size in shape), (2, element_type), (8, name), (9, content))


def write_value(name: str, element_type: int, shape: Sequence[int | str]) -> bytes:
    """An input or output of the graph; a dimension that varies has a name."""
    dimensions = [(1, _encode((1 if isinstance(size, int) else 2, size))) for size in shape]
    tensor = _encode((1, element_type), (2, _encode(*dimensions)))
    return _encode((1, name), (2, _encode((1, tensor))))


def write_model(
    nodes: Sequence[bytes], constants: Sequence[bytes], model_input: bytes, output: bytes, *, opset: int
) -> bytes:
    """A whole model with one input and one output."""
    inner = [*((1, node) for node in nodes), (2, "encoder"), *((5, constant) for constant in constants)]
    graph = _encode(*inner, (11, model_input), (12, output))
    return _encode((1, _IR_VERSION), (7, graph), (8, _encode((1, ""), (2, opset))))


def _write_attribute(name: str, value: AttributeValue) -> bytes:
    if isinstance(value, int):
        return _encode((1, name), (3, value), (20, _ATTRIBUTE_INT))
    if isinstance(value, float):
        return _encode((1, name), (2, value), (20, _ATTRIBUTE_FLOAT))
    return _encode((1, name), *((8, number) for number in value), (20, _ATTRIBUTE_INTS))


def _encode(*fields: _Field) -> bytes:
    """A message."""
    return b"".join(_encode_field(*field) for field in fields)


def _encode_field(number: int, value: int | float | str | bytes) -> bytes:
    if isinstance(value, int):
        return _encode_varint(number << 3) + _encode_varint(value & (1 << 64) - 1)
    if isinstance(value, float):
        return _encode_varint(number << 3 | _FIXED_32_BITS) + struct.pack("<f", value)
    content = value.encode() if isinstance(value, str) else value
    return _encode_varint(number << 3 | _LENGTH_DELIMITED) + _encode_varint(len(content)) + content


def _encode_varint(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])
