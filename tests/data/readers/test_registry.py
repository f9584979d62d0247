"""The registry of readers: readers of other packages, their order, and readers that fail."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import spml.data.readers as registry
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import Records, Source, read, readers, register_reader
from spml.labels import ObservedLabels

LINES = ("a.png: dog beach", "b.png: dog", "c.png: beach sea", "d.png: sea")


@pytest.fixture
def tags(tmp_path, picture):
    """A file of the invented format that the example of `register_reader` reads."""
    for name in "abcd":
        picture(f"{name}.png")
    path = tmp_path / "photos.tags"
    path.write_text("\n".join(LINES))
    return path


@pytest.fixture
def registered(monkeypatch):
    """Undo registrations after the test."""
    readers()  # so that all modules register before the copy is made
    monkeypatch.setattr(registry._REGISTRY, "entries", dict(registry._REGISTRY.entries))


def install(folder, module, code):
    """Put a package with a reader on a path, as pip would install it."""
    (folder / f"{module}.py").write_text(code)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{registry._REGISTRY.group}]\n{module} = {module}\n")


def example():
    """The reader in the documentation."""
    return (Path(__file__).parents[3] / "examples" / "your_own_reader.py").read_text()


def test_a_reader_of_another_package_is_found_by_its_entry_point(tmp_path, tags):
    install(tmp_path, "tags_reader", example())
    install(tmp_path, "broken_reader", "raise RuntimeError('boom')\n")
    script = f"""
        import json, sys, warnings
        sys.path.insert(0, {str(tmp_path)!r})
        from spml.config import DataConfig
        from spml.data import open_dataset
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            data = open_dataset(DataConfig(path={str(tags)!r}, val_share=0.25), size=8)
        samples = {{
            name: row
            for split in data.splits.values()
            for name, row in zip(split.ids, split.observed.to_ternary().tolist(), strict=True)
        }}
        warned = [str(warning.message) for warning in caught if "reader" in str(warning.message)]
        print(json.dumps([data.classes, samples, data.notes, warned]))
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], check=True, capture_output=True, text=True
    )
    classes, samples, notes, warned = json.loads(ran.stdout)
    assert classes == ["beach", "dog", "sea"]
    assert samples == {"a.png": [1, 1, 0], "b.png": [0, 1, 0], "c.png": [1, 0, 1], "d.png": [0, 0, 1]}
    assert "photos.tags was read as a tags file." in notes
    assert warned == ["spml.readers: broken_reader can't be imported (boom)"]


def test_a_reader_of_a_script(registered, tags):
    exec(compile(example(), "example", "exec"), {"__name__": "example"})
    assert readers()["tags"].title == "a tags file"
    data = open_dataset(DataConfig(path=str(tags), unlisted="negative"), size=8)
    assert data.classes == ("beach", "dog", "sea")
    rows = {
        name: row
        for s, t in data.truth.items()
        for name, row in zip(data.splits[s].ids, t.to_ternary().tolist(), strict=True)
    }
    assert rows == {"a.png": [1, 1, -1], "b.png": [-1, 1, -1], "c.png": [1, -1, 1], "d.png": [-1, -1, 1]}
    tags.write_text("a.png: dog\n../b.png: sea")
    with pytest.raises(InputError, match=r"photos\.tags: line 2: '\.\./b\.png' lies outside the folder"):
        read(DataConfig(path=str(tags)))


def register(name, suffix, label, **options):
    """Register a reader of one sample with the label `label`."""

    def recognises(source):
        return source.suffix == suffix

    @register_reader(name, name, recognises=recognises, **options)
    def read_one(path, config):
        labels = ObservedLabels.from_names([[label]], [label])
        return Records(str(path), path.stem, ("x",), (path,), (label,), False, labels, None)


def test_readers_are_tried_in_the_order_of_their_priority(registered, table):
    path = table("file,label", "a.png,cat", "b.png,dog")
    assert read(DataConfig(path=str(path))).classes == ("cat", "dog")
    register("fallback", ".csv", "low", priority=-2)
    assert read(DataConfig(path=str(path))).classes == ("cat", "dog")
    register("special", ".csv", "high", priority=3)
    assert read(DataConfig(path=str(path))).classes == ("high",)
    names = list(readers())
    assert (names[0], names[-1]) == ("special", "fallback")
    priorities = [reader.priority for reader in readers().values()]
    assert priorities == sorted(priorities, reverse=True)
    assert {"folder", "table"} == {name for name, reader in readers().items() if reader.priority == -1}


def test_a_name_is_registered_once(registered):
    register("coco2", ".x", "cat")
    register("coco2", ".y", "cat")  # the same module, which may be imported again
    with pytest.raises(ValueError, match=r"reader 'coco' is already registered by spml\.data\.readers\.coco"):
        register("coco", ".x", "cat")


def test_a_reader_that_fails_to_recognise_is_left_out(registered, table):
    def fail(source):
        raise KeyError(source.suffix)

    def refuse(source):
        raise InputError(f"{source.path}: damaged.")

    register_reader("failing", "a failing reader", recognises=fail, priority=9)(lambda path, config: None)
    path = table("file,label", "a.png,cat", "b.png,dog")
    with pytest.warns(UserWarning, match=r"reader 'failing' is left out: it raised KeyError\('\.csv'\)"):
        assert read(DataConfig(path=str(path))).classes == ("cat", "dog")
    register_reader("strict", "a strict reader", recognises=refuse, priority=10)(lambda path, config: None)
    with pytest.raises(InputError, match=r"data\.csv: damaged\."):
        read(DataConfig(path=str(path)))


def test_no_reader_recognises(registered, tmp_path):
    register("tags", ".tags", "cat")
    (tmp_path / "data.tgs").write_text("")
    with pytest.raises(InputError, match=r"data\.tgs: \.tgs is not a known format\. Name a folder"):
        read(DataConfig(path=f"{tmp_path}/data.tgs"))


def test_a_source_is_a_file_or_a_folder(tmp_path):
    (tmp_path / "x.CSV").write_text("")
    (tmp_path / "d.csv").mkdir()
    file, folder = Source(tmp_path / "x.CSV"), Source(tmp_path / "d.csv")
    assert (file.is_folder, file.suffix) == (False, ".csv")
    assert (folder.is_folder, folder.suffix) == (True, "")
