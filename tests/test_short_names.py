"""Short names of settings stand for the same settings everywhere."""

from __future__ import annotations

import pytest

from spml.cli.main import make_parser
from spml.cli.train import _COMMON
from spml.config import from_dict
from spml.errors import InputError
from spml.short_names import SHORT_NAMES, from_arguments


def test_every_short_name_is_one_of_a_setting_and_of_an_option():
    values = {"head": "mlp", "backbone": "resnet18", "weights": "random", "frozen": "no", "lr": 0.5}
    assert values.keys() == SHORT_NAMES.keys()
    config = from_dict(from_arguments(values))
    assert (config.model.head, config.model.backbone, config.optim.lr) == ("mlp", "resnet18", 0.5)
    options = [f"--{name}={value}" for name, value in values.items()]
    parsed = make_parser().parse_args(["train", *options]).train
    assert vars(parsed.model) == vars(config.model)
    assert vars(parsed.optim) == vars(config.optim)
    assert {f"--{name}" for name in values} <= {option.name for option in _COMMON}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"head": "mlp"}, "head": "mlp"}, "model.head is stated twice"),
        ({"head": "mlp", "model": {"head": "mlp"}}, "model.head is stated twice"),
        ({"lr": 1.0, "optim": 3}, "optim.lr is part of optim, which is stated as a whole as well"),
        ({"optim.lr": 1.0}, "unknown setting 'optim.lr'. Did you mean optim?"),
        ({"clases": 1}, "unknown setting 'clases'. Did you mean classes?"),
    ],
)
def test_a_setting_is_stated_once_and_known(settings, message):
    with pytest.raises(InputError) as error:
        from_arguments(settings, ["classes"])
    assert str(error.value) == message
