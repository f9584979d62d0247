"""Runs and figures of the page "The papers, figure by figure": commands, and what is to be seen."""

from __future__ import annotations

from typing import NamedTuple

_DIGITS = "spml train digits --data.observe single --mean_labels 2.34 --optim.lr 6e-3 --batch_size 32"
DIGITS = {
    **{
        name: f"{_DIGITS} --epochs 20 --record scores --method {name}"
        for name in ("an", "em", "gr", "hill", "splc", "lasd")
    },
    **{
        f"long-{name}": f"{_DIGITS} --epochs 40 --method {name}" for name in ("an", "zlpr", "opml", "opml_sp")
    },
}
"""Trainings on scenes of digits, by the name of the folder of the run."""

_ANIMALS = (
    "spml train root/images/voc2012_animals/labels.csv --data.unlisted negative --data.observe single "
    "--data.size 96 --mean_labels 1.4 --model.weights root/models/mobilenetv2_100_tf_bncal.safetensors "
    "--model.frozen no --optim.lr 1e-4 --optim.head_lr_factor 10 --optim.schedule cosine --batch_size 32 "
    "--epochs 4 --record scores"
)
PHOTOGRAPHS = {f"animals-{name}": f"{_ANIMALS} --method {name}" for name in ("an", "gr")}
"""Trainings on photographs; `root` is the folder that holds them."""

STORES = {"sensitivity": "spml bench run sensitivity"}
"""Comparisons."""


class Drawn(NamedTuple):
    """A figure of the page.

    Attributes:
        name: Name of its files.
        section: Section of the page.
        title: Heading.
        papers: Figures of the papers that it redraws.
        command: Command that draws it, without the place of its files.
        text: What is to be seen, and where it does not look like the paper's.
        photographs: Whether it needs the photographs.
    """

    name: str
    section: str
    title: str
    papers: str
    command: str
    text: str
    photographs: bool = False


_LOSSES, _STUDIES, _SCORES = "Losses and gradients", "Hyper-parameters", "Scores during training"
_DATA, _MODELS, _PHOTOGRAPHS = "Data", "Models", "Photographs"

FIGURES = (
    Drawn(
        "l3",
        _LOSSES,
        "Loss on a negative for several exponents",
        "GR, Fig. 1a",
        "spml analyse losses 0.001 0.25 0.5 0.75 1 1.5",
        "",
    ),
    Drawn(
        "gradients",
        _LOSSES,
        "Gradient on an unknown label over its probability",
        "GR, Fig. 1b",
        "spml analyse gradients an em hill gr:w=[0,10],b=[-2,-8]",
        "",
    ),
    Drawn(
        "gradient-regimes",
        _LOSSES,
        "Gradient on an unknown label over its logit",
        "EM poster, gradient regimes",
        "spml analyse gradients an em focal --over z",
        "",
    ),
    Drawn(
        "gr-tau", _STUDIES, "Threshold of the soft pseudo-label", "GR, Fig. 2a",
        "spml analyse sensitivity sensitivity --x tau --references [an,em]", "",
    ),
    Drawn(
        "gr-mu-sigma", _STUDIES, "Mean and width of the instance weight", "GR, Fig. 2b",
        "spml analyse sensitivity sensitivity --x hp.mu --y hp.sigma", "",
    ),
    Drawn(
        "gr-q", _STUDIES, "Exponents of the losses, per epoch", "GR, Fig. 2c",
        "spml analyse sensitivity sensitivity --x hp.q2 --y hp.q3 --epochs [1,2,4]", "",
    ),
    Drawn(
        "lasd-lambda", _STUDIES, "Weight of pseudo-positives", "LASD, Fig. 1a",
        "spml analyse sensitivity sensitivity --x hp.weight_pos --references [an,em]", "",
    ),
    Drawn(
        "lasd-tau", _STUDIES, "Threshold of the disambiguation", "LASD, Fig. 1b",
        "spml analyse sensitivity sensitivity --x hp.tau --references [an,em]", "",
    ),
    Drawn(
        "lasd-alpha", _STUDIES, "Weight of the consistency", "LASD, Fig. 1c",
        "spml analyse sensitivity sensitivity --x hp.consistency --references [an,em]", "",
    ),
    Drawn(
        "opml-alpha-beta", _STUDIES, "Constants of OPML", "OPML, Fig. 5",
        "spml analyse sensitivity sensitivity --x hp.alpha --y hp.beta", "",
    ),
    Drawn(
        "opml-rank", _STUDIES, "Weight of the high-rank term", "OPML, Fig. 6",
        "spml analyse sensitivity sensitivity --x hp.rank_weight --references [an,em]", "",
    ),
    Drawn(
        "separation", _SCORES, "Distance between positives and negatives", "GR, Fig. 3a; EM poster",
        "spml analyse separation an em gr", "",
    ),
    Drawn(
        "densities", _SCORES, "Densities of the probabilities", "GR, Fig. 3b; OPML, Fig. 3",
        "spml analyse densities an em gr", "",
    ),
    Drawn(
        "densities-class", _SCORES, "Densities of one class", "GR, Fig. 3c; EM poster",
        "spml analyse densities an em gr --label 3", "",
    ),
    Drawn("posterior", _SCORES, "Posterior of unknown labels", "GR, Fig. 5", "spml analyse posterior gr", ""),
    Drawn(
        "pseudo-labels", _SCORES, "Predictive values of pseudo-labels", "LASD, Fig. 2",
        "spml analyse pseudo-labels splc lasd --tau 0.6", "",
    ),
    Drawn(
        "observed-only", _SCORES, "What can be seen without true labels", "for practitioners",
        "spml analyse observed-only gr", "",
    ),
    Drawn(
        "epochs", _SCORES, "mAP over a long training", "OPML, Fig. 4",
        "spml analyse epochs long-an long-zlpr long-opml long-opml_sp", "",
    ),
    Drawn(
        "counts", _DATA, "Observed and hidden positives", "GR, Fig. 4 and Table 5",
        "spml analyse counts digits --data.observe single", "",
    ),
    Drawn("maps", _MODELS, "Where the network looks", "OPML, Fig. 7", "spml analyse maps gr", ""),
    Drawn(
        "landscape", _MODELS, "Loss along a random direction", "EM poster",
        "spml analyse landscape an em gr", "",
    ),
    Drawn(
        "landscape-2d", _MODELS, "Loss along two random directions", "EM poster",
        "spml analyse landscape an em gr --dimensions 2", "",
    ),
    Drawn(
        "predictions", _MODELS, "The same images, several methods", "EM poster",
        "spml analyse predictions an gr", "",
    ),
    Drawn(
        "animals-counts", _PHOTOGRAPHS, "Observed and hidden positives", "GR, Fig. 4 and Table 5",
        "spml analyse counts root/images/voc2012_animals/labels.csv --data.unlisted negative "
        "--data.observe single", "", True,
    ),
    Drawn(
        "animals-separation", _PHOTOGRAPHS, "Distance between positives and negatives", "GR, Fig. 3a",
        "spml analyse separation animals-an animals-gr", "", True,
    ),
    Drawn(
        "animals-densities", _PHOTOGRAPHS, "Densities of the probabilities", "GR, Fig. 3b",
        "spml analyse densities animals-an animals-gr", "", True,
    ),
    Drawn(
        "animals-posterior", _PHOTOGRAPHS, "Posterior of unknown labels", "GR, Fig. 5",
        "spml analyse posterior animals-gr", "", True,
    ),
    Drawn(
        "animals-maps", _PHOTOGRAPHS, "Where the network looks", "OPML, Fig. 7",
        "spml analyse maps animals-gr", "", True,
    ),
    Drawn(
        "animals-predictions", _PHOTOGRAPHS, "The same photographs, several methods", "EM poster",
        "spml analyse predictions animals-an animals-gr", "", True,
    ),
)  # fmt: skip
