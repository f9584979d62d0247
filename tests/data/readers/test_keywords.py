"""Keywords of photos: as exiftool, Lightroom and others write them into files and next to them."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from spml.cli.main import main
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.runs.predict.sidecars import packet
from tests.helpers.records import names_of, opened


def iptc(*keywords, utf8=False):
    """An IPTC record in an application segment of a JPEG, byte for byte as the standard has it."""
    fields = b"\x1c\x01\x5a\x00\x03\x1b%G" if utf8 else b""
    for keyword in keywords:
        fields += b"\x1c\x02\x19" + len(keyword).to_bytes(2, "big") + keyword
    block = b"8BIM\x04\x04\x00\x00" + len(fields).to_bytes(4, "big") + fields + b"\0" * (len(fields) % 2)
    content = b"Photoshop 3.0\0" + block
    return b"\xff\xed" + (len(content) + 2).to_bytes(2, "big") + content


def save(path, *, keywords=(), **options):
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(len(path.name)).integers(0, 255, (8, 8, 3), np.uint8)
    Image.fromarray(pixels).save(path, **options)
    if keywords:
        data = path.read_bytes()
        path.write_bytes(data[:2] + iptc(*keywords) + data[2:])


def by_other(*labels):
    """A packet that another program has written."""
    return packet(labels).replace('x:xmptk="spml"', 'x:xmptk="XMP Core 6.0"')


def test_keywords_in_files_and_next_to_them(tmp_path):
    save(tmp_path / "trip" / "iptc.jpg", keywords=[b"Strand", "Möwe".encode("latin-1")])
    save(tmp_path / "trip" / "xmp.jpg", xmp=by_other("dog", "beach").encode())
    save(tmp_path / "xmp.tif", tiffinfo={700: by_other("cat").encode()})
    save(tmp_path / "both.jpg", keywords=[b"dog"], xmp=by_other("dog", "ball & chain").encode())
    save(tmp_path / "beside.png")
    (tmp_path / "beside.png.xmp").write_text(by_other("cat"))
    save(tmp_path / "raw.jpg")
    (tmp_path / "raw.xmp").write_text(by_other("dog"))
    save(tmp_path / "none.jpg")
    (tmp_path / "none.jpg.xmp").write_text(by_other())
    records = opened(tmp_path, keywords=True)
    assert names_of(records) == {
        "trip/iptc.jpg": ["Möwe", "Strand"],
        "trip/xmp.jpg": ["beach", "dog"],
        "xmp.tif": ["cat"],
        "both.jpg": ["ball & chain", "dog"],
        "beside.png": ["cat"],
        "raw.jpg": ["dog"],
        "none.jpg": [],
    }
    assert "6 of 7 photos have keywords, 6 different ones." in " ".join(records.notes)
    assert "4 keywords are in one photo only, such as Möwe, Strand, ball & chain" in " ".join(records.notes)
    data = open_dataset(DataConfig(path=str(tmp_path), keywords=True, val_share=0.3, workers=0))
    assert ("none.jpg", "no label") in data.skipped


def test_predictions_are_no_labels_until_another_program_has_saved_them(tmp_path):
    for name in ("a.jpg", "b.jpg"):
        save(tmp_path / name, xmp=by_other("dog").encode())
        (tmp_path / f"{name}.xmp").write_text(packet(["cat"]))
    records = opened(tmp_path, keywords=True)
    assert records.classes == ("dog",)
    assert "2 sidecars hold predictions of spml, which are not read as labels." in records.notes
    (tmp_path / "a.jpg.xmp").write_text(by_other("cat"))
    assert names_of(opened(tmp_path, keywords=True))["a.jpg"] == ["cat", "dog"]


def test_photos_without_keywords_and_files_are_refused(tmp_path):
    save(tmp_path / "a.jpg")
    with pytest.raises(InputError, match="none of 1 photo has a keyword"):
        opened(tmp_path, keywords=True)
    with pytest.raises(InputError, match="name a folder of them"):
        opened(tmp_path / "a.jpg", keywords=True)


def test_entities_are_refused_and_damaged_photos_have_no_keywords(tmp_path):
    save(tmp_path / "a.jpg", keywords=[b"dog"])
    (tmp_path / "b.jpg").write_bytes(b"\xff\xd8 no photo")
    assert names_of(opened(tmp_path, keywords=True)) == {"a.jpg": ["dog"], "b.jpg": []}
    (tmp_path / "a.jpg.xmp").write_text('<!DOCTYPE x [<!ENTITY e "ee">]><x>&e;</x>')
    with pytest.raises(InputError, match=r"a\.jpg\.xmp: has a document type or entities"):
        opened(tmp_path, keywords=True)


def test_a_sidecar_that_leads_out_of_the_folder_is_refused(tmp_path):
    save(tmp_path / "photos" / "a.jpg", keywords=[b"dog"])
    (tmp_path / "other.xmp").write_text(by_other("secret"))
    (tmp_path / "photos" / "a.jpg.xmp").symlink_to(tmp_path / "other.xmp")
    with pytest.raises(InputError, match=r"a\.jpg\.xmp"):
        opened(tmp_path / "photos", keywords=True)


@pytest.mark.parametrize("words", [["--data.keywords"], ["--data.keywords", "true"], ["data.keywords=true"]])
def test_the_option_needs_no_value(words, tmp_path, capsys):
    for number in range(4):
        save(tmp_path / "photos" / f"{number}.jpg", keywords=[b"dog" if number % 2 else b"cat"])
    main(["data", "inspect", str(tmp_path / "photos"), *words, "--data.workers", "0"])
    assert "4 of 4 photos have keywords, 2 different ones" in capsys.readouterr().out
