"""Write docs/methods: a page and a picture for every method, from its card, its docstring and its code,
and from formulas.md and differences.md.

Run it after every change of a method:

    python docs/make_methods.py

A test compares the pages with the output of this script. The pictures contain no date, so a picture that has
not changed is the same file.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from method_groups import GROUPS, PAPERS
from method_pictures import (
    EPOCHS,
    METHODS,
    REMARKS,
    change,
    curves,
    gradient_is_slope,
    picture,
    setting,
)

import spml.losses
from spml.analysis.curves import MEAN_LABELS, SIZE, start_logits
from spml.methods.base import Objective
from spml.methods.cards import arguments, readable, summary
from spml.methods.registry import hyper_parameters
from spml.models import CLOSED_FORM

FOLDER = Path(__file__).resolve().parent / "methods"
BENCHMARK = FOLDER.parent / "benchmarks" / "methods.md"
BENCHMARKS = {"voc": "VOC 2012", "coco": "COCO 2014", "nus": "NUS-WIDE", "cub": "CUB"}
COMBINATION = "combine"
_FORMULAS = (FOLDER.parent / "formulas.md").read_text(encoding="utf-8")
NOTATION = re.findall(r"^- (\$.*)$", _FORMULAS, re.M)
FORMULAS = dict(re.findall(r"^## (\w+)\n\n(.*?)\s*(?=^## |\Z)", _FORMULAS, re.M | re.S))
_DIFFERENCES = (FOLDER.parent / "differences.md").read_text(encoding="utf-8")
DIFFERENCES = dict(re.findall(r"^## (\w+)\n\n(.*?)\s*(?=^## |\Z)", _DIFFERENCES, re.M | re.S))
_FEW_PROBABILITIES = tuple(np.linspace(0.02, 0.98, 9).tolist())
_BIAS = {"zero": "0", "prior": "logit(K / C), with K = 2 if none is stated"}
_NEEDS = {
    "known negatives": "some labels are known to be absent",
    "full labels": "every label is known",
    "K": "the mean labels per sample, stated by the user (`--mean_labels`)",
    "views": "further augmented views of each sample, each with a forward pass",
    "further pass": "a further forward pass on inputs that the method creates",
    "training pass": "predictions for the training set after each epoch",
    "whole batch": "the loss of a sample depends on the rest of the batch",
    "class maps": "the scores of each class at each position of an image; images only",
    "random code": "a head with a random code",
    "embeddings": "a head with an embedding of each class: `queries`",
}
# Path, flags, settings and remark for each kind of data in `setting`.
_DATA: dict[str, tuple[str, str, dict[str, Any], str]] = {
    "single": ("photos/", "", {}, ""),
    "negatives": ("features.npz", "", {}, "  # Y: 1 known positive, -1 known negative, 0 unknown"),
    "full": ("labelled.csv", " --data.unlisted negative", {"data": {"unlisted": "negative"}}, ""),
}

_INDEX = r"""# Methods

`spml train photos/ --method NAME` trains with any of these {count} methods; `spml methods NAME` prints its
card. Generated from the code by `python docs/make_methods.py`. Which of them to try first, and
whether to train at all, is the subject of [Which method, which backbone](../choose.md).

Two columns are 100 x test mAP, selected by one label per validation sample, in the mean over two ways of
hiding:

- features: linear heads on [ten sets of features](../benchmarks/methods.md#all-methods-on-frozen-features).
  There the auto head has {auto}, ridge regression {ridge}, full labels solved {full}.
- digits: a small network trained on [scenes of digits](../benchmarks/methods.md#scenes-of-digits-end-to-end).
  There full labels have {digits}.

They order the methods differently, and differences below 1 mean little. Memory: N x C is a number for every
label of the training set.
[Compare methods](../bench.md) on data of your own.

{groups}
## All of them

| name | method | year | paper |
|---|---|---|---|
{rows}

Needs:

{needs}

Heads that need no method: {heads}.

## The formulas

{notation}
- A brace after a sum over $`b, c`$: every label of every sample in the batch has one of these values.
- A hyper-parameter has its name: $`\alpha`$ is `alpha`, $`\gamma_{{\text{{pos}}}}`$ is `gamma_pos`,
  $`\text{{weight}}`$ is `weight`. `spml methods NAME` prints the formula in plain characters.
- Values that are constant in the derivative are detached (`detach`).

## The pictures

Effect of a method with its default hyper-parameters on one unknown label: the loss and its gradient dL/dz, as
functions of the probability p that the model predicts for the label. Where the gradient is positive, a step
lowers the score of the label; where it is negative, a step raises it. The pictures are computed by calling
the method as in training, not from its formula.

- The batch is the whole training set: {size} samples and {size} classes with one known positive per sample,
  which has p = {positive:.2f}; unknown labels have p from {low:.3f} to {high:.2f}. Only the one label is
  varied. Where a method uses the mean labels per sample, they are {mean_labels:g}, which is close to the
  model's predictions.
- Training lasts {epochs} epochs with the same predictions, so that schedules advance and memories fill. The
  curve for epoch {epochs} applies to a label that has had the probability p in all epochs.
- Some methods average over classes, others sum or divide by another number. To make them comparable, loss and
  gradient are divided by twice the magnitude of the method's gradient, in epoch 1, on the known positive of
  the same sample when that has p = 1/2. For AN this leaves -log(1 - p) and p.
- Only differences of a loss are meaningful: its lowest value is drawn as 0.
- All pictures have the same scale, so that strong and weak methods can be compared. Where the gradient is
  weaker than a quarter of the frame, it is drawn again, several times larger. A number with an arrow is the
  highest value of a gradient that leaves the frame.
- The thin grey line is AN.
"""


def main() -> None:
    """Write all pages and pictures, and remove those of methods that no longer exist."""
    torch.set_num_threads(1)
    FOLDER.mkdir(exist_ok=True)
    files = pages() | {f"{name}.svg": picture(name) for name in METHODS if name != COMBINATION}
    for name, text in files.items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    for path in FOLDER.iterdir():
        if path.name not in files:
            path.unlink()


def pages() -> dict[str, str]:
    """Return the text of all pages by file name."""
    return {"README.md": _index(), **{f"{name}.md": _page(name) for name in METHODS}}


def _index() -> str:
    rows = [
        f"| [`{name}`]({name}.md) | {cls.card.title} | {cls.card.year} | {_paper(cls.card.paper)} |"
        for name, cls in METHODS.items()
    ]
    features, digits = (_measured(part) for part in ("All methods on frozen features", "Scenes of digits"))
    p = torch.sigmoid(start_logits()).numpy()
    return _INDEX.format(
        count=len(rows),
        rows="\n".join(rows),
        groups="\n".join(_group(title, *group, features, digits) for title, group in GROUPS.items()),
        auto=features["auto"],
        ridge=features["ridge"],
        full=features["full labels, converged (reference)"],
        digits=digits["full labels (reference)"],
        heads=", ".join(f"`--model.head {head}`" for head in CLOSED_FORM),
        needs="\n".join(f"- {brief}: {full}" for brief, full in _NEEDS.items()),
        notation="\n".join(f"- {line}" for line in NOTATION),
        size=SIZE,
        epochs=EPOCHS,
        mean_labels=MEAN_LABELS,
        positive=float(p.diagonal()[0]),
        low=float(p.min()),
        high=float(p[~np.eye(SIZE, dtype=bool)].max()),
    )


def _paper(text: str) -> str:
    """A reference with its title as a link, if the paper is on arXiv."""
    for title, number in PAPERS.items():
        text = text.replace(title, f"[{title}](https://arxiv.org/abs/{number})")
    return text


def _measured(title: str) -> dict[str, str]:
    """The mAP by `observed` of every candidate, from the table over all data sets of a part of the page."""
    (part,) = re.findall(rf"^## {title}.*?(?=^## )", BENCHMARK.read_text(encoding="utf-8"), re.M | re.S)
    return {
        cells[0]: cells[5]
        for line in part.splitlines()
        if len(cells := line.strip("| ").split(" | ")) == 8 and re.fullmatch(r"[\d.]+", cells[5])
    }


def _group(title: str, sentence: str, when: Mapping[str, str], *measured: Mapping[str, str]) -> str:
    rows = [
        f"| [`{name}`]({name}.md) | {text}. | {', '.join(_needs(name)) or '-'} | {_memory(name)} | "
        + " | ".join(each.get(name, "-") for each in measured)
        + " |"
        for name, text in when.items()
    ]
    head = ["| name | take it when | needs | memory | features | digits |", "|---|---|---|---|---|---|"]
    return "\n".join([f"## {title}", "", *([sentence, ""] if sentence else []), *head, *rows, ""])


def _memory(name: str) -> str:
    state = METHODS[name].card.state
    return "N x C" if "N x C" in state else "-"


def _page(name: str) -> str:
    cls = METHODS[name]
    card = cls.card
    needs = "; ".join(f"{need} ({_NEEDS[need.split(':')[0]]})" for need in _needs(name)) or "nothing else"
    if name == COMBINATION:
        needs = "the needs of the combined methods"
    parts = [
        f"# {card.title}",
        f"- Name: `{name}`\n- Paper: {_paper(card.paper)}\n- Equations: {card.equations}",
        summary(cls),
        FORMULAS[name],
        f"{'; '.join(NOTATION[:2])} ([more](README.md#the-formulas)).",
        _picture(name),
        f"- State besides the model: {card.state}\n"
        f"- Needs: {needs}\n"
        f"- Head: {card.head}; its bias starts at {_BIAS[card.head_bias]} "
        "(choose others with `--model.head` and `--model.head_bias`)"
        + (
            ""
            if card.scores == "logits"
            else f"\n- Scores: {card.scores} (`--model.scores logits` for logits)"
        ),
        "## Hyper-parameters",
        _hyper_parameters(cls),
        *_published(cls),
        *(["## Paper, released code and this library", DIFFERENCES[name]] if name in DIFFERENCES else []),
        "## Use",
        *_use(name),
    ]
    return "\n\n".join(parts) + "\n"


def _picture(name: str) -> str:
    if name == COMBINATION:
        return "There is no picture: the effect on a label is the sum of the effects of the combined methods."
    objective = METHODS[name]()
    first, last = curves(name, _FEW_PROBABILITIES)
    label = "a known negative" if setting(name).kind == "full" else "an unknown"
    when = f"in epoch 1 and epoch {EPOCHS} of {EPOCHS}" if change(first, last) else "in all epochs"
    lines = [
        f"![Loss and gradient of {METHODS[name].card.title}]({name}.svg)",
        "",
        f"Loss and gradient on {label} label with probability p, {when}, with all else fixed. Both are",
        "scaled so that a known positive with p = 1/2 has the gradient -1/2. Grey: AN.",
        "[How the picture is made](README.md#the-pictures).",
    ]
    if not any(curve.gradient.any() for curve in (first, last)):
        lines.append("Unknown labels have no gradient.")
    if not gradient_is_slope(name):
        lines.append("Part of it is constant in the derivative: the gradient is not the slope of the loss.")
    if objective.needs.views:
        lines.append("All views have the same logits.")
    if makes_inputs(name):
        lines.append("The further forward pass has the same logits for all p.")
    if objective.needs.latent:
        lines.append("The random code has mean 0 and standard deviation 1.")
    if objective.needs.embedding:
        lines.append("All embeddings are 0.")
    lines += REMARKS.get(name, ())
    objective.on_fit_start(setting(name).facts)
    if list(objective.parameters()):
        lines.append("The method's own parameters have their initial values.")
    return "\n".join(lines)


def makes_inputs(name: str) -> bool:
    """Whether a method needs a further forward pass; a combination does where one of its methods does."""
    return name != COMBINATION and METHODS[name].extra_inputs is not Objective.extra_inputs


def _needs(name: str) -> list[str]:
    """List the needs (keys of `_NEEDS`) of a method with its default hyper-parameters."""
    needs, data = METHODS[name]().needs, setting(name)
    needed = {
        "known negatives": data.kind == "negatives",
        "full labels": data.kind == "full",
        "K": data.needs_mean_labels,
        f"views: {', '.join(needs.views)}": bool(needs.views),
        "further pass": makes_inputs(name),
        "training pass": needs.train_pass,
        "whole batch": needs.batch_coupled,
        "class maps": needs.class_maps,
        "random code": needs.latent,
        "embeddings": bool(needs.embedding),
    }
    return [need for need, applies in needed.items() if applies]


def _hyper_parameters(cls: type[Objective]) -> str:
    entries = arguments(cls)
    if not entries:
        return "None."
    rows = [
        f"| {_code(*names)} | {_code(*map(readable, defaults))} | {_cell(meaning)} |"
        for names, defaults, meaning in entries
    ]
    return "\n".join(["| name | default | meaning |", "|---|---|---|", *rows])


def _published(cls: type[Objective]) -> list[str]:
    defaults, printed = cls.card.defaults, cls.card.printed
    parts = ["## Published values"] if defaults or printed else []
    if printed:
        values = ", ".join(f"`{name}: {readable(value)}`" for name, value in printed.items())
        parts.append(f"The paper prints {values}; the default is that of the released code.")
    if not defaults:
        return parts
    names = list(dict.fromkeys(name for values in defaults.values() for name in values))
    rows = [
        f"| {BENCHMARKS.get(benchmark, benchmark)} | "
        + " | ".join(_cell(readable(values[name])) if name in values else "" for name in names)
        + " |"
        for benchmark, values in defaults.items()
    ]
    head = f"| benchmark | {' | '.join(map(_code, names))} |\n|{'---|' * (len(names) + 1)}"
    return [*parts, f"From {cls.card.source}:", "\n".join([head, *rows])]


def _use(name: str) -> list[str]:
    cls, data = METHODS[name], setting(name)
    path, flags, data_settings, note = _DATA[data.kind]
    hp = _example(cls)
    command = f"spml train {path}{flags} --method {name}"
    settings = {"method": name, **({"hp": hp} if hp else {}), **data_settings}
    if data.needs_mean_labels:
        command += f" --mean_labels {MEAN_LABELS:g}"
        settings["mean_labels"] = MEAN_LABELS
    for key, value in hp.items():
        text = readable(value)
        command += f" --hp.{key} " + (f"'{text}'" if isinstance(value, (list, tuple, Mapping)) else text)
    parts = [f"```\n{command}{note}\n```", f"```python\nimport spml\n\n{_call(path, settings)}\n```"]
    losses = _losses(cls)
    if len(losses) == 1:
        return [*parts, "The loss alone, in your own training loop:", _loss(losses[0])]
    if losses:
        names = ", ".join(f"`{loss}`" for loss in losses)
        parts.append(f"Its losses are also available separately in `spml.losses`: {names}.")
    return parts


def _losses(cls: type[Objective]) -> list[str]:
    """List the functions of `spml.losses` that `forward` calls."""
    source = ""
    for part in cls.__mro__:
        if "forward" in vars(part):
            source += inspect.getsource(part.forward)
            if "super().forward(" not in source:
                break
    return sorted(set(re.findall(r"\b(\w+)\(", source)) & set(spml.losses.__all__))


def _call(path: str, settings: Mapping[str, Any]) -> str:
    """Format a call of `spml.train`, on one line if it is short."""
    call_arguments = [repr(path), *(f"{key}={value!r}" for key, value in settings.items())]
    line = f"run = spml.train({', '.join(call_arguments)})"
    if len(line) > 100:
        line = "run = spml.train(\n" + "".join(f"    {part},\n" for part in call_arguments) + ")"
    return line.replace("'", '"')


def _example(cls: type[Objective]) -> dict[str, Any]:
    """Choose hyper-parameters for the example: those published for COCO if they differ, else a default."""
    defaults = hyper_parameters(cls)
    published = cls.card.defaults.get("coco", {})
    changed = {key: value for key, value in published.items() if readable(value) != readable(defaults[key])}
    plain = {key: value for key, value in defaults.items() if isinstance(value, (int, float, Mapping))}
    return changed or dict(list(plain.items())[:1])


def _loss(function: str) -> str:
    """Format an example with the required arguments of a loss."""
    parameters = inspect.signature(getattr(spml.losses, function)).parameters.values()
    required = [p for p in parameters if p.default is p.empty]
    call_arguments = ", ".join(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else p.name for p in required)
    return (
        f"```python\nfrom spml.losses import {function}\n\n# logits (B, C), target (B,): class indices\n"
        f"loss = {function}({call_arguments})\nloss.backward()\n```"
    )


def _code(*names: str) -> str:
    return ", ".join(f"`{_cell(name)}`" for name in names)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    main()
