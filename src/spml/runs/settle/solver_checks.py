"""Refuse settings that a head in closed form, method `auto` or L-BFGS can't honour."""

from __future__ import annotations

from ... import models
from ...common.errors import InputError
from ...config import AUTO, LBFGS, Config, ModelConfig
from .. import recipes


def check_has_epochs(config: Config) -> None:
    """Refuse to record the epochs of a head that is solved."""
    solver = ""
    if config.model.head in models.CLOSED_FORM:
        solver = f"--model.head {config.model.head}"
    elif config.method == AUTO:
        solver = f"--method {AUTO}"
    elif config.optim.name == LBFGS:
        solver = f"--optim.name {LBFGS}"
    if solver:
        raise InputError(
            f"--record {config.record} keeps the scores of every epoch, but {solver} solves a head without "
            "epochs: leave out one of the two."
        )


def check_closed_form(config: Config) -> None:
    """Refuse settings that contradict a head in closed form."""
    head = f"--model.head {config.model.head}"
    if config.method or config.hp:
        option = f"--method {config.method}" if config.method else "--hp"
        raise InputError(
            f"{head} is solved without a method, but {option} is given: leave out one of the two."
        )
    if config.init_from:
        raise InputError(
            f"{head} is solved from scratch, but --init_from {config.init_from} is given: leave out "
            "--model.head to train the head of that run further."
        )


def check_auto(config: Config) -> None:
    """Refuse settings that contradict method `auto`."""
    stated = {
        f"--model.head {config.model.head}": config.model.head != "auto",
        "--hp": bool(config.hp),
        f"--optim.name {LBFGS}": config.optim.name == LBFGS,
        f"--init_from {config.init_from}": bool(config.init_from),
    }
    for option, given in stated.items():
        if given:
            raise InputError(
                f"--method {AUTO} chooses and solves its heads from scratch, but {option} is given: leave "
                "out one of the two."
            )


def check_frozen(config: Config, model: ModelConfig, spec: models.BackboneSpec) -> None:
    """Refuse a backbone whose features are of no use for a head that is solved."""
    solver, instead = f"--model.head {model.head}", "--model.head linear"
    if config.method == AUTO:
        solver, instead = f"--method {AUTO}", f"--method {recipes.read('default')['trained']}"
    elif config.objective:
        solver, instead = f"--optim.name {LBFGS}", "--optim.name adamw"
    if not spec.is_pretrained:
        raise InputError(
            f"{solver} solves a head on the features of a pretrained backbone, but {spec.name} starts from "
            "random weights: choose a pretrained one (--model.backbone resnet50, or --model.weights FILE), "
            f"give a feature file, or train both ({instead})."
        )
    if model.frozen == "no" and config.method != AUTO:
        raise InputError(
            f"{solver} needs features that do not change, but --model.frozen is 'no': leave it out. To train "
            "the backbone too, start a second run from this one (--init_from RUN --model.frozen no)."
        )


def check_lbfgs(config: Config, head: str) -> None:
    """Refuse settings that L-BFGS can't honour."""
    solver = f"--optim.name {LBFGS}"
    if head != models.LINEAR:
        raise InputError(
            f"{solver} solves a linear head, but method {config.method!r} has a {head!r} head here: pass "
            "--model.head linear, or train it (--optim.name adamw)."
        )
    if config.init_from:
        raise InputError(
            f"{solver} starts from scratch, but --init_from {config.init_from} is given: leave it out, or "
            "train further (--optim.name adamw)."
        )
    penalties = {
        "optim.l1": config.optim.l1,
        "optim.l2": config.optim.l2,
        "model.dropout": config.model.dropout,
    }
    for name, value in penalties.items():
        if value:
            raise InputError(
                f"{solver} tries L2 penalties of its own and no other ones, but --{name} is {value:g}: leave "
                "it out, or train (--optim.name adamw)."
            )
