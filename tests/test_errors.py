"""Messages for users."""

from __future__ import annotations

from spml.errors import LONGEST, InputError, SpmlError, one_line


def test_a_message_is_one_line_of_limited_length():
    assert str(InputError("a\x1b[31m\nb\u2028\ud800\té")) == "a\\x1b[31m\\nb\\u2028\\ud800\\té"
    message = str(SpmlError("x.csv: " + "a" * 5000 + ". Correct it."))
    assert len(message) == LONGEST
    assert message.startswith("x.csv: aaa")
    assert " ... " in message
    assert message.endswith("aaa. Correct it.")
    assert one_line("b" * LONGEST) == "b" * LONGEST
