"""The losses as modules: the same value and gradient as the functions."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from spml import losses
from spml.losses import GRLoss, LLLoss, LossModule, SHOWLoss, gr_loss, show_loss
from tests.helpers.domains import choices_of, domains_of
from tests.helpers.losses import FUNCTIONS, parameters_of

MODULES = [
    each
    for each in vars(losses).values()
    if isinstance(each, type) and issubclass(each, LossModule) and each is not LossModule
]
REQUIRED = {"mean_labels": 1.5, "rate": 0.2, "prior": torch.tensor([0.4, 0.2, 0.5, 0.1])}


def test_every_loss_is_a_module():
    assert sorted(module.function.__name__ for module in MODULES) == sorted(FUNCTIONS)
    assert all(module.__name__ in losses.__all__ for module in MODULES)
    for module in MODULES:
        words = module.function.__name__.split("_")
        assert module.__name__.lower() == "".join(words)


def arguments_of(name):
    """Tensors and required hyper-parameters of a loss."""
    generator = torch.Generator().manual_seed(0)
    parameters = parameters_of(name)
    positional = [each.name for each in parameters if each.kind is not each.KEYWORD_ONLY]
    tensors = {each: torch.rand(6, 4, generator=generator, dtype=torch.float64) for each in positional}
    tensors |= {"target": torch.tensor([0, 1, 2, 3, 1, 2]), "pseudo": torch.eye(4, dtype=torch.int8)[[1] * 6]}
    required = {each.name: REQUIRED[each.name] for each in parameters if each.name in REQUIRED}
    return [tensors[each] for each in positional], required


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_value_and_gradient_are_those_of_the_function(module):
    tensors, hyper = arguments_of(module.function.__name__)
    values, gradients = [], []
    for loss in (module(**hyper), lambda *tensors: module.function(*tensors, **hyper)):
        given = [tensor.clone() for tensor in tensors]
        floats = [tensor.requires_grad_() for tensor in given if tensor.is_floating_point()]
        value = loss(*given)
        value.sum().backward()
        values.append(value)
        gradients.append([tensor.grad for tensor in floats if tensor.grad is not None])
    assert torch.equal(*values)
    assert gradients[0]
    assert all(map(torch.equal, *gradients))
    assert all(gradient.abs().sum() > 0 for gradient in gradients[0])


def test_hyper_parameters_are_attributes():
    logits, target = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([1])
    criterion = GRLoss(q2=0.5, reduction="sum")
    assert repr(criterion) == "GRLoss(q2=0.5, reduction='sum')"
    assert torch.equal(criterion(logits, target), gr_loss(logits, target, q2=0.5, reduction="sum"))
    criterion.q2 = 0.25
    assert torch.equal(criterion(logits, target), gr_loss(logits, target, q2=0.25, reduction="sum"))
    assert torch.equal(copy.deepcopy(criterion)(logits, target), criterion(logits, target))


def test_a_parameter_is_learned_and_a_tensor_is_a_buffer():
    logits, target = torch.tensor([[0.5, -1.0, 2.0]]), torch.tensor([1])
    criterion = GRLoss(w=nn.Parameter(torch.tensor(2.0)))
    criterion(logits, target).backward()
    assert [*dict(criterion.named_parameters())] == ["w"]
    assert criterion.w.grad != 0
    running = torch.full((3,), 0.2)
    show = SHOWLoss(mean_labels=1.5, running=running, momentum=0.9)
    assert [*dict(show.named_buffers())] == ["running"]
    expected = show_loss(logits, target, mean_labels=1.5, running=running, momentum=0.9)
    assert torch.equal(show(logits, target), expected)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GRLoss(q4=1.0), "got an unexpected keyword argument 'q4'"),
        (LLLoss, "missing a required"),
        (lambda: GRLoss(0.5), "takes 1 positional argument"),
    ],
)
def test_wrong_hyper_parameters(make, message):
    with pytest.raises(TypeError, match=message):
        make()


DOMAINS = [(name, *domain) for name in FUNCTIONS for domain in domains_of(getattr(losses, name))]
CHOICES = [(name, hp) for name in FUNCTIONS for hp in choices_of(getattr(losses, name))]
FORMS = {"a": "scar", "degree": "polynomial", "share": "constant", "tau": "step"}
"""Form of k of GR that has a hyper-parameter."""


@pytest.mark.parametrize(("name", "hp", "held", "beside"), DOMAINS)
def test_a_number_lies_in_the_stated_domain(name, hp, held, beside):
    tensors, given = arguments_of(name)
    if name == "gr_loss" and hp in FORMS:
        given["k"] = FORMS[hp]
    for value in held:
        getattr(losses, name)(*tensors, **given | {hp: value})
    for value in beside:
        with pytest.raises((ValueError, TypeError), match=f"^{hp} must|indices must be integers"):
            getattr(losses, name)(*tensors, **given | {hp: value})


@pytest.mark.parametrize(("name", "hp"), CHOICES)
def test_a_word_is_one_of_the_choices(name, hp):
    tensors, given = arguments_of(name)
    with pytest.raises(ValueError, match=f"^{hp} must be"):
        getattr(losses, name)(*tensors, **given | {hp: "another"})


def test_domains_and_choices_are_found():
    assert len(DOMAINS) > 75
    assert ("plc_loss", "tau", [0.5, 1.0]) in [domain[:3] for domain in DOMAINS]
    assert len(CHOICES) > 30
