"""Errors as they are shown."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from spml.common.errors import LONGEST, InputError, SpmlError, escaped, memory_asked_for, one_line, visible


def test_control_characters_are_escaped_but_line_breaks_are_not():
    assert escaped("a\x1b[31m\x07\x00\x7f\x9b") == r"a\x1b[31m\x07\x00\x7f\x9b"
    assert escaped("Straße\n\tb") == "Straße\n\tb"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("photo\u202egpj.exe", r"photo\u202egpj.exe"),
        ("ca\u200bt", r"ca\u200bt"),
        ("cat\u200d", r"cat\u200d"),
        ("\u200ccat", r"\u200ccat"),
        ("\ufeffcat\u2066", r"\ufeffcat\u2066"),
        ("cat\U000e0041", r"cat\U000e0041"),
        ("\u0645\u06cc\u200c\u0634\u0648\u062f", None),  # Persian, with a zero-width non-joiner
        ("\u0915\u094d\u200d\u0937", None),  # Hindi, with a zero-width joiner
        ("\U0001f468\u200d\U0001f469\u200d\U0001f467", None),  # a family
        ("\u0645\u200c\u200c\u06cc", "\u0645\u200c\\u200c\u06cc"),
        ("Stra\u00dfe \u65e5\u672c", None),
    ],
)
def test_hidden_characters_are_shown_but_words_are_left_alone(name, shown):
    expected = name if shown is None else shown
    assert visible(name) == escaped(name) == one_line(name) == str(InputError(name)) == expected


@pytest.mark.parametrize(
    ("error", "amount"),
    [
        (MemoryError(), ""),
        (RuntimeError("CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has 1 GiB"), "2.50 GiB"),
        (RuntimeError("the shapes do not match"), None),
        (ValueError("out of range"), None),
    ],
)
def test_memory_that_could_not_be_had(error, amount):
    assert memory_asked_for(error) == amount


def test_memory_that_torch_and_numpy_could_not_have():
    with pytest.raises(RuntimeError) as caught:
        torch.empty(1 << 58)
    assert memory_asked_for(caught.value) == f"{4 << 58} bytes"
    with pytest.raises(MemoryError) as of_numpy:
        np.empty(1 << 58)
    assert memory_asked_for(of_numpy.value) == "2.00 EiB"


def test_a_message_is_one_line_of_limited_length():
    assert str(InputError("a\x1b[31m\nb\u2028\ud800\té")) == "a\\x1b[31m\\nb\\u2028\\ud800\\té"
    message = str(SpmlError("x.csv: " + "a" * 5000 + ". Correct it."))
    assert len(message) == LONGEST
    assert message.startswith("x.csv: aaa")
    assert " ... " in message
    assert message.endswith("aaa. Correct it.")
    assert one_line("b" * LONGEST) == "b" * LONGEST
