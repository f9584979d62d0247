"""The registry of readers: readers of other packages, their order, and readers that fail."""

from __future__ import annotations

from pathlib import Path

import pytest

import spml.data.readers as registry
from spml.common import plugins
from spml.common.errors import InputError
from spml.config import DataConfig
from spml.data import open_dataset
from spml.data.readers import Records, readers, register_reader
from spml.labels import ObservedLabels
from tests.helpers.records import names_of, observed_of, opened

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


BY_FILE = {"a.png": ["beach", "dog"], "b.png": ["dog"], "c.png": ["beach", "sea"], "d.png": ["sea"]}


def test_a_reader_of_another_package_is_found_by_its_entry_point(tmp_path, tags, registered, monkeypatch):
    install(tmp_path, "tags_reader", example())
    install(tmp_path, "broken_reader", "raise RuntimeError('boom')\n")
    monkeypatch.syspath_prepend(tmp_path)
    plugins.import_plugins.cache_clear()
    with pytest.warns(UserWarning, match=r"spml\.readers: broken_reader can't be imported \(boom\)"):
        data = open_dataset(DataConfig(path=str(tags)), size=8)
    assert observed_of(data) == BY_FILE
    assert "photos.tags was read as a tags file." in data.notes


def test_a_reader_of_a_script(registered, tags):
    exec(compile(example(), "example", "exec"), {"__name__": "example"})
    assert readers()["tags"].title == "a tags file"
    assert names_of(opened(tags)) == BY_FILE
    tags.write_text("a.png: dog\n../b.png: sea")
    with pytest.raises(InputError, match=r"photos\.tags: line 2: '\.\./b\.png' lies outside the folder"):
        opened(tags)


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
    assert opened(path).classes == ("cat", "dog")
    register("fallback", ".csv", "low", priority=-2)
    assert opened(path).classes == ("cat", "dog")
    register("special", ".csv", "high", priority=3)
    assert opened(path).classes == ("high",)
    names = list(readers())
    assert (names[0], names[-1]) == ("special", "fallback")
    priorities = [reader.priority for reader in readers().values()]
    assert priorities == sorted(priorities, reverse=True)
    assert {"folder", "table"} == {name for name, reader in readers().items() if reader.priority == -1}


def test_a_reader_that_fails_to_recognise_is_left_out(registered, table):
    def fail(source):
        raise KeyError(source.suffix)

    def refuse(source):
        raise InputError(f"{source.path}: damaged.")

    register_reader("failing", "a failing reader", recognises=fail, priority=9)(lambda path, config: None)
    path = table("file,label", "a.png,cat", "b.png,dog")
    with pytest.warns(UserWarning, match=r"reader 'failing' is left out: it raised KeyError\('\.csv'\)"):
        assert opened(path).classes == ("cat", "dog")
    register_reader("strict", "a strict reader", recognises=refuse, priority=10)(lambda path, config: None)
    with pytest.raises(InputError, match=r"data\.csv: damaged\."):
        opened(path)
