"""Registries of decorated functions and classes."""

import pytest

from spml.common.plugins import Registry
from spml.methods import Objective, find, register
from spml.methods.registry import _REGISTRY


def new_registry():
    return Registry("thing", "spml.methods", "spml.methods")


def defined_in(module):
    def mine():
        return module

    mine.__module__ = module
    mine.__qualname__ = "mine"
    return mine


def test_what_is_defined_again_replaces_the_earlier_definition():
    registry = new_registry()
    first, second = defined_in("__main__"), defined_in("__main__")
    assert registry.add("mine", lambda made: made)(first) is first
    registry.add("mine", lambda made: made)(second)
    assert registry.all()["mine"] is second


@pytest.mark.parametrize(("module", "name"), [("elsewhere", "mine"), ("__main__", "other")])
def test_a_name_of_another_module_or_function_is_refused(module, name):
    registry, other = new_registry(), defined_in(module)
    other.__qualname__ = name
    registry.add("mine", lambda made: made)(defined_in("__main__"))
    with pytest.raises(ValueError, match=r"thing 'mine' is already registered by __main__\.mine"):
        registry.add("mine", lambda made: made)(other)
    assert registry.all()["mine"]() == "__main__"


def test_a_method_is_defined_again_as_in_a_cell_of_a_notebook(monkeypatch):
    monkeypatch.setattr(_REGISTRY, "entries", dict(_REGISTRY.entries))
    cell = "@register('mine')\nclass Mine(Objective):\n    version = {}\n"
    for version in (1, 2):
        namespace = {"register": register, "Objective": Objective, "__name__": "__main__"}
        exec(cell.format(version), namespace)
        assert find("mine") is namespace["Mine"]
    assert find("mine").version == 2
