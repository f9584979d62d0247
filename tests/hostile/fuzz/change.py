"""Changes of valid inputs: of bytes, and of JSON, YAML, safetensors, .npz and PNG with their structure.

Every function takes a random generator and valid inputs (the seeds), and returns a changed one. Nothing but
the generator decides, so that an input is known by its number.
"""

from __future__ import annotations

import functools
import io
import json
import random
import re
import struct
import zipfile
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import yaml

Change = Callable[[random.Random, Sequence[bytes]], bytes]

NUMBERS = (
    b"-1", b"0", b"1", b"2", b"0.5", b"-0.0", b"1e999", b"-1e999", b"1e-999", b"NaN", b"Infinity", b"nan",
    b"255", b"65536", b"2147483648", b"4294967296", b"9223372036854775807", b"9223372036854775808",
    b"-9223372036854775809", b"1" + b"0" * 30, b"9" * 400, b"1e308", b"0x10", b"1_0", "\u0663".encode(),
)  # fmt: skip
WORDS = (
    b"", b" ", b"\0", b"\x1b[31m", b"\xff", b"\xed\xa0\x80", b"\r", b"\n", b"\t", b'"', b"'", b"\\", b",",
    b";", b"..", b"/", b"../x", b"a" * 3000, b"[", b"{", b"}", b"]", b"%s", "\u202e".encode(),
    "\u2028".encode(), "\u00e9".encode(), b"\xef\xbb\xbf", b"null", b"true", b"-",
)  # fmt: skip
VALUES = (
    "null", "true", "false", "NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1", "2", "0.5", "1.5",
    "1e308", "1e-308", "2147483648", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "1" + "0" * 30, "9" * 400, "9" * 5000, '""', '" "', '"x"', '"1"', '"\\u0000"', '"\\u001b[31m"',
    '"\\ud800"', '"\\n"', '"\\u202e"', '"\\u2028"', '"..\\/..\\/x"', '"' + "a" * 3000 + '"', "[]", "{}",
    "[[]]", "[null]", "[1, 2]", '["a", "a"]', '{"a": 1}', '{"": null}', "[" * 200 + "]" * 200,
    '{"a":' * 50 + "1" + "}" * 50, "[" + ", ".join(["0"] * 300) + "]",
)  # fmt: skip
YAML_VALUES = (
    *VALUES, ".nan", ".inf", "1:1:1", "1e-4", "2001-99-99", "2001-01-01", "~", "0o17", "0x1F", "no", "yes",
    "!!int x", "!!binary x", "!!set {a}", "!!python/object/apply:os.getcwd []", "&a [*a]", "*a", "!!float []",
    "!!timestamp x", "!!omap [a]", "!!pairs [a]", "{<<: 1}", "{<<: [1]}", "{[1]: 2}", "{? {a: 1} : 2}",
    "!!str 1", "!x y", "'\\x00'", '"\\x00"', '"\\ud800"', "0" * 5000, "1" * 2999, "-", "=", "<<",
)  # fmt: skip
YAML_WORDS = (
    *WORDS, b":", b": ", b"- ", b"#", b"|", b">", b"&a", b"*a", b"!!int ", b"---", b"...", b"? ",
    b"%YAML 9.9\n",
    b"<<: ", b"  ", b"\n  - ",
)  # fmt: skip

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_EXTREMES = [
    (number % (1 << 8 * size)).to_bytes(size, "little")
    for size in (1, 2, 4, 8)
    for number in (-1, 0, 1, 127, 255, 1 << 15, 1 << 30, 1 << 31, 1 << 62, 1 << 63)
]


# -- bytes -----------------------------------------------------------------------------------------------


def of_bytes(words: Sequence[bytes] = WORDS) -> Change:
    """Changes of bytes: one to four operations at random positions; `words` are inserted sometimes."""

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        data = draw.choice(seeds)
        for _ in range(draw.choice((1, 1, 1, 2, 3, 4))):
            data = _change_bytes(draw, data, seeds, words)
        return data

    return change


def _change_bytes(draw: random.Random, data: bytes, seeds: Sequence[bytes], words: Sequence[bytes]) -> bytes:
    start = draw.randrange(len(data) + 1)
    end = min(len(data), start + draw.choice((1, 1, 2, 4, 8, 16, 64)))
    match draw.randrange(11):
        case 0 if start < len(data):  # flip a bit
            return data[:start] + bytes([data[start] ^ 1 << draw.randrange(8)]) + data[start + 1 :]
        case 1:
            return data[:start] + draw.randbytes(end - start) + data[end:]
        case 2:  # the length stays, so that later parts stay at their offsets
            new = draw.choice(_EXTREMES)
            new = new if draw.random() < 0.5 else new[::-1]
            return data[:start] + new + data[start + len(new) :]
        case 3:
            return data[:start] + data[end:]
        case 4:
            return data[:end] + data[start:end] * draw.choice((1, 1, 2, 50)) + data[end:]
        case 5:
            return data[:start] + draw.randbytes(draw.choice((1, 2, 8))) + data[start:]
        case 6:
            return data[:start]
        case 7:
            other = draw.choice(seeds)
            return data[:start] + other[draw.randrange(len(other) + 1) :]
        case 8 if numbers := list(_NUMBER.finditer(data)):
            number = draw.choice(numbers)
            return data[: number.start()] + draw.choice(NUMBERS) + data[number.end() :]
        case 9:
            lines = data.splitlines(keepends=True) or [b""]
            line = draw.randrange(len(lines))
            change = draw.choice(([], [lines[line]] * 2, [draw.choice(lines)]))
            return b"".join([*lines[:line], *change, *lines[line + 1 :]])
        case _:
            return data[:start] + draw.choice(words) + data[end if draw.random() < 0.5 else start :]


def sometimes(change: Change, share: float, other: Change) -> Change:
    """Use `other` for a share of the inputs."""
    return lambda draw, seeds: (other if draw.random() < share else change)(draw, seeds)


def of_text(words: Sequence[bytes] = WORDS) -> Change:
    """Changes of bytes, most of them insertions of words and replacements of numbers by extreme ones."""
    plain = of_bytes(words)

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        if draw.random() < 0.4:
            return plain(draw, seeds)
        data = draw.choice(seeds)
        for _ in range(draw.choice((1, 1, 2, 3))):
            parts = re.split(rb"(\W)", data)
            parts[draw.randrange(len(parts))] = draw.choice((*words, *NUMBERS, draw.choice(parts)))
            data = b"".join(parts)
        return data

    return change


# -- JSON and YAML ---------------------------------------------------------------------------------------


class Raw(str):
    """Text that is put into a document as it is."""


class Pairs(list[list[Any]]):
    """An object, as a list of keys and values, so that a key can occur twice."""


def parsed(text: str | bytes) -> Any:
    """Parse JSON; objects become `Pairs`."""
    return json.loads(text, object_pairs_hook=lambda pairs: Pairs(map(list, pairs)))


def dumped(value: Any) -> str:
    """Write JSON; the inverse of `parsed`."""
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ", ".join(f"{dumped(key)}: {dumped(part)}" for key, part in value) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(dumped, value)) + "]"
    return json.dumps(value)


def _places(value: Any, places: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Containers and positions of all values; the container of a value in an object is its pair."""
    if isinstance(value, Pairs):
        for pair in value:
            places.append((pair, 1))
            _places(pair[1], places)
    elif isinstance(value, list):
        for position, part in enumerate(value):
            places.append((value, position))
            _places(part, places)
    return places


def _objects(value: Any) -> list[Any]:
    """All containers of a document that have an item."""
    if not isinstance(value, list):
        return []
    inner = [pair[1] for pair in value] if isinstance(value, Pairs) else value
    return [value] * bool(value) + [found for part in inner for found in _objects(part)]


def change_document(draw: random.Random, document: Any, values: Sequence[str] = VALUES) -> Any:
    """Change one to three values, keys or items of a parsed document, which is changed in place."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        places, objects = _places(document, []), _objects(document)
        if not places:
            return Raw(draw.choice(values))
        container, position = draw.choice(places)
        inner = draw.choice(objects)
        item = draw.randrange(len(inner))
        match draw.randrange(8):
            case 0 | 1 | 2:
                container[position] = Raw(draw.choice(values))
            case 3:  # a value of another place
                other, place = draw.choice(places)
                container[position] = parsed(dumped(other[place])) if _is_plain(other[place]) else Raw("{}")
            case 4:
                del inner[item]
            case 5:
                inner.insert(item, inner[item])
            case 6 if isinstance(inner, Pairs):
                inner[item][0] = draw.choice((inner[draw.randrange(len(inner))][0], Raw(_key(draw, values))))
            case 7 if isinstance(container[position], str):
                text = container[position]
                start = draw.randrange(len(text) + 1)
                word = draw.choice(WORDS).decode(errors="surrogateescape")
                container[position] = text[:start] + word + text[start + draw.randrange(2) :]
            case _:
                container[position] = [container[position]]
    return document


def _key(draw: random.Random, values: Sequence[str]) -> str:
    text = draw.choice(values)
    return text if text.startswith('"') else json.dumps(text[:50])


def _is_plain(value: Any) -> bool:
    """Whether there is nothing raw in a value."""
    if isinstance(value, Pairs):
        return all(_is_plain(key) and _is_plain(part) for key, part in value)
    return all(map(_is_plain, value)) if isinstance(value, list) else not isinstance(value, Raw)


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def of_json(words: Sequence[bytes] = WORDS) -> Change:
    """Changes of the values, keys and items of JSON, and sometimes of its bytes."""

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        return _encoded(dumped(change_document(draw, parsed(draw.choice(seeds)))))

    return sometimes(change, 0.2, of_text(words))


def of_json_lines() -> Change:
    """Changes of one line of JSON among several, and sometimes of bytes."""

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        lines = draw.choice(seeds).splitlines()
        position = draw.randrange(len(lines))
        lines[position] = _encoded(dumped(change_document(draw, parsed(lines[position]))))
        return b"\n".join(lines) + b"\n"

    return sometimes(change, 0.3, of_text())


@functools.lru_cache
def _json_of_yaml(seed: bytes) -> str:
    return json.dumps(yaml.safe_load(seed))


def of_yaml() -> Change:
    """Changes of the values, keys and items of YAML, which is written as JSON then, and of its text."""

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        document = parsed(_json_of_yaml(draw.choice(seeds)))
        return _encoded(dumped(change_document(draw, document, YAML_VALUES)))

    return sometimes(change, 0.4, of_text(YAML_WORDS))


# -- files of several parts ------------------------------------------------------------------------------


def of_safetensors() -> Change:
    """Changes of the header of a safetensors file, of the JSON in its metadata, and of its bytes."""

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        data = draw.choice(seeds)
        end = 8 + int.from_bytes(data[:8], "little")
        header = parsed(data[8:end])
        metadata = next((value for key, value in header if key == "__metadata__"), None)
        texts = [pair for pair in metadata or () if pair[1][:1] in "{["]
        if texts and draw.random() < 0.7:
            pair = draw.choice(texts)
            pair[1] = dumped(change_document(draw, parsed(pair[1])))
        else:
            header = change_document(draw, header)
        text = _encoded(dumped(header))
        text += b" " * (-len(text) % 8)
        return len(text).to_bytes(8, "little") + text + data[end:]

    return sometimes(change, 0.3, of_bytes())


def _arrays(draw: random.Random) -> bytes:
    """A random array as .npy."""
    array: Any = draw.choice((
        np.eye(4), np.eye(4)[0], np.zeros((4, 0)), np.zeros((0, 4)), np.array(3), np.full((4, 2), np.nan),
        np.array(["a", "b"]), np.array([4, 4]), np.array([-1, 4]), np.arange(5), np.array([2**62] * 4),
        np.array([b"\xff", b"a"]), np.array([1.5]), np.array([True] * 4), np.array("csr"), np.eye(4) == 1,
        np.array(["train", "val", "test", "x"]), np.array(["\x1b", "\ud800", "", "\n"]),
        np.eye(4, dtype=complex),
        np.array(["2001-01-01"], "datetime64[D]"), np.zeros(4, [("a", int)]), np.full((4, 4), -1, np.int8),
    ))  # fmt: skip
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array, allow_pickle=False)
    return stream.getvalue()


def of_npz(keys: Sequence[str]) -> Change:
    """Changes of the arrays of an .npz file, whose archive stays sound, and of its bytes.

    Args:
        keys: Names of arrays that are added or given to others.
    """
    plain = of_bytes()

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        with zipfile.ZipFile(io.BytesIO(draw.choice(seeds))) as archive:
            parts = [(name, archive.read(name)) for name in archive.namelist()]
        for _ in range(draw.choice((1, 1, 2))):
            position = draw.randrange(len(parts))
            name, content = parts[position]
            match draw.randrange(5):
                case 0 | 1:
                    parts[position] = name, plain(draw, [content])
                case 2:
                    parts[position] = name, _arrays(draw)
                case 3:
                    parts[position] = draw.choice(keys) + ".npy", content
                case _:
                    parts.append((draw.choice(keys) + ".npy", _arrays(draw)))
        stream = io.BytesIO()
        with zipfile.ZipFile(stream, "w", draw.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
            for name, content in parts:
                with archive.open(zipfile.ZipInfo(name), "w") as member:
                    member.write(content)
        return stream.getvalue()

    return sometimes(change, 0.3, plain)


def of_images() -> Change:
    """Changes of bytes; the checksums of a changed PNG are computed again most of the time."""
    plain = of_bytes()

    def change(draw: random.Random, seeds: Sequence[bytes]) -> bytes:
        data = plain(draw, seeds)
        return _with_checksums(data) if draw.random() < 0.7 else data

    return change


def _with_checksums(data: bytes) -> bytes:
    start, fixed = 8, bytearray(data)
    while data[1:4] == b"PNG" and start + 12 <= len(data):
        end = start + 8 + int.from_bytes(data[start : start + 4], "big")
        fixed[end : end + 4] = struct.pack(">I", zlib.crc32(data[start + 4 : end]))
        start = end + 4
    return bytes(fixed[: len(data)])
