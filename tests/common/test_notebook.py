"""What a prompt and a notebook show of results."""

from __future__ import annotations

from spml.common.notebook import Listing


def test_rows_are_aligned_and_long_cells_cut():
    listing = Listing("Two rows", ("name", "labels"), [("a", "x"), ("b" * 50, "y & z")], 1_000)
    assert listing.text() == "\n".join(
        [
            "Two rows",
            "name" + " " * 38 + "labels",
            "a" + " " * 41 + "x",
            "b" * 39 + "…  y & z",
            "... and 1,000 more",
        ]
    )


def test_html_is_escaped_and_pictures_are_cards():
    listing = Listing("<b>", ("name", "labels"), [("<a>", "x & y")])
    assert "<b>" not in listing.html()
    assert "<td style='text-align:left'>&lt;a&gt;</td>" in listing.html()
    cards = listing.html(["data:image/jpeg;base64,AA"])
    assert cards.count("<img src='data:image/jpeg;base64,AA'") == 1
    assert "<br>" not in cards
    assert "x &amp; y" in cards
    assert "<a>" not in cards
