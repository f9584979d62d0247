"""Runs and figures of the page "The papers, figure by figure": commands, and what is to be seen."""

from __future__ import annotations

from typing import NamedTuple

_DIGITS = "spml train digits --data.observe single --mean_labels 2.34 --optim.lr 6e-3 --batch_size 32"
DIGITS = {
    **{
        name: f"{_DIGITS} --epochs 20 --record scores --method {name}"
        for name in ("an", "em", "gr", "splc", "lasd")
    },
    **{f"long-{name}": f"{_DIGITS} --epochs 40 --method {name}" for name in ("an", "opml", "opml_sp")},
    "long-high-rank": f"{_DIGITS} --epochs 40 --method opml_sp --hp.smoothing none --hp.correction 0",
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

STORES = {name: f"spml bench run {name}" for name in ("sensitivity", "mlml-digits")}
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
        "The larger the exponent, the less a label that is taken as negative, but predicted with "
        "confidence, costs: from the log loss (q near 0) to the absolute error (q = 1), beyond which "
        "the curve even flattens. This is the paper's figure.",
    ),
    Drawn(
        "gradients",
        _LOSSES,
        "Gradient on an unknown label over its probability",
        "GR, Fig. 1b",
        "spml analyse gradients an em hill gr:w=[0,10],b=[-2,-8]",
        "AN pushes every unknown label down, and most where the model is confident. Hill and GR at "
        "the end of its schedule leave confident predictions alone; EM pushes towards 1/2. A value "
        "below 0 pushes the probability up. Curves are scaled so that the gradient on a known "
        "positive with p = 1/2 is -1/2, which the paper does not do.",
    ),
    Drawn(
        "gradient-regimes",
        _LOSSES,
        "Gradient on an unknown label over its logit",
        "EM poster, gradient regimes",
        "spml analyse gradients an em focal --over z",
        "The same over the logit, as on the poster: the gradient of EM vanishes at both ends, that of "
        "AN only on the left. The focal loss ignores easy negatives and pushes the hard ones more "
        "than AN does.",
    ),
    Drawn(
        "gr-tau", _STUDIES, "Threshold of the soft pseudo-label", "GR, Fig. 2a",
        "spml analyse sensitivity sensitivity --x tau --references [an,em]",
        "A threshold that is too low makes positives of unknown labels that are negative: at 0.4 GR "
        "falls behind AN for b = -5 and -8. Between 0.7 and 1 little changes. Here a flat k (b = -2) "
        "is best at every threshold. In the paper the best threshold is always 1, and GR is always above "
        "AN. The schedule ends before the threshold of the axis is reached (`timing: released`).",
    ),
    Drawn(
        "gr-mu-sigma", _STUDIES, "Mean and width of the instance weight", "GR, Fig. 2b",
        "spml analyse sensitivity sensitivity --x hp.mu --y hp.sigma",
        "All nine trials are within half a point of each other, which is about their spread over "
        "seeds: on these scenes mean and width hardly matter. The paper's peak at mu = 0.8 is not seen.",
    ),
    Drawn(
        "gr-q", _STUDIES, "Exponents of the losses, per epoch", "GR, Fig. 2c",
        "spml analyse sensitivity sensitivity --x hp.q2 --y hp.q3 --epochs [1,2,4]",
        "A small q2 (log loss on pseudo-positives) with a large q3 (robust on negatives) is best in "
        "every epoch, as the paper chooses. The panels are epochs of the same trainings.",
    ),
    Drawn(
        "lasd-lambda", _STUDIES, "Weight of pseudo-positives", "LASD, Fig. 1a",
        "spml analyse sensitivity sensitivity --x hp.weight_pos --references [an,em]",
        "In the paper the best value is 0.10. Here 0.01 and 0.1 cannot be told apart, and 1 is too "
        "much confidence in pseudo-positives.",
    ),
    Drawn(
        "lasd-tau", _STUDIES, "Threshold of the disambiguation", "LASD, Fig. 1b",
        "spml analyse sensitivity sensitivity --x hp.tau --references [an,em]",
        "The paper's threshold is a little smaller than one; here 0.8 is as good as 0.95. At 0.6 training "
        "collapses here: too many false positives are learned from the first epoch on, which the "
        "paper's range does not show.",
    ),
    Drawn(
        "lasd-alpha", _STUDIES, "Weight of the consistency", "LASD, Fig. 1c",
        "spml analyse sensitivity sensitivity --x hp.consistency --references [an,em]",
        "Consistency helps a little, within the spread of two seeds. In the paper every value from "
        "0.2 to 0.8 helps.",
    ),
    Drawn(
        "opml-alpha-beta", _STUDIES, "Constants of OPML", "OPML, Fig. 5",
        "spml analyse sensitivity sensitivity --x hp.alpha --y hp.beta",
        "Constants of at least 1 are best. ZLPR is the case (1, 1); (2, 2) is a little better, as another "
        "point is in the paper, though within the spread over two seeds. The axes are the constants "
        "themselves, because the paper's transformation to (0, 1) is lost.",
    ),
    Drawn(
        "opml-rank", _STUDIES, "Weight of the high-rank term", "OPML, Fig. 6",
        "spml analyse sensitivity sensitivity --x hp.rank_weight --references [an,em]",
        "Stable up to some weight, and a collapse beyond it: the shape of the paper's figure. The "
        "values cannot be compared, since the formula of the term is one reading of a lost one.",
    ),
    Drawn(
        "mlml", _STUDIES, "More known labels", "EM poster, MLML",
        "spml analyse sensitivity mlml-digits --x hiding",
        "With one positive per scene, GR and EM are ahead of AN. A tenth of all labels is one "
        "label per scene, too, but in three of four cases a negative one, which teaches less. "
        "With nine tenths of the labels known the methods are alike. With few labels the two "
        "draws differ much, as the error bars tell.",
    ),
    Drawn(
        "separation", _SCORES, "Distance between positives and negatives", "GR, Fig. 3a; EM poster",
        "spml analyse separation an em gr",
        "GR separates hidden positives from true negatives best, EM better than AN, as in the "
        "papers. The test mAP of these methods need not have this order. Epoch 0 is before training.",
    ),
    Drawn(
        "densities", _SCORES, "Densities of the probabilities", "GR, Fig. 3b; OPML, Fig. 3",
        "spml analyse densities an em gr",
        "AN predicts a probability near 0 for most hidden positives. EM draws unknown labels to "
        "1/2. With GR negatives gather around 0.2, as in the paper, while positives stay on the "
        "right. The density has a logarithmic axis, because most labels are negative.",
    ),
    Drawn(
        "densities-class", _SCORES, "Densities of one class", "GR, Fig. 3c; EM poster",
        "spml analyse densities an em gr --label three",
        "The same for the class `three` alone. The classes of these scenes are alike, so it is the "
        "picture of all classes with more noise.",
    ),
    Drawn("posterior", _SCORES, "Posterior of unknown labels", "GR, Fig. 5", "spml analyse posterior gr",
        "Before training all labels have the probability of the bias, and say nothing: k is "
        "constant. After it the share of hidden positives rises with p, as the paper assumes; in "
        "the paper it follows Eq. 6 closely, here it is steeper."),
    Drawn(
        "pseudo-labels", _SCORES, "Predictive values of pseudo-labels", "LASD, Fig. 2",
        "spml analyse pseudo-labels splc lasd --tau 0.6",
        "At this threshold SPLC's positives are right nine times in ten and those of LASD less often; "
        "LASD marks more labels as positive, so fewer positives are left among its negatives. The "
        "paper shows LASD alone at its higher threshold on VOC, where both values are above 90 %.",
    ),
    Drawn(
        "observed-only", _SCORES, "What can be seen without true labels", "for practitioners",
        "spml analyse observed-only gr",
        "Nothing here needs true labels: the scores of observed positives against those of unknown "
        "labels, and the number of labels per class that the model expects. It expects 3.4 labels per "
        "scene where 2.3 are true: the probabilities of GR are not calibrated.",
    ),
    Drawn(
        "epochs", _SCORES, "mAP over a long training", "OPML, Fig. 4",
        "spml analyse epochs long-an long-opml long-high-rank long-opml_sp",
        "All methods reach their best mAP within a few epochs and then learn by heart what is wrong "
        "in their labels. In the paper the high-rank term alone makes OPML stable; here it makes no "
        "difference (its formula is one reading of a lost one), and only all three parts of OPML-SP "
        "slow the decline down.",
    ),
    Drawn(
        "counts", _DATA, "Observed and hidden positives", "GR, Fig. 4 and Table 5",
        "spml analyse counts digits --data.observe single",
        "One positive of each scene is observed, the others are hidden. Since the digits are drawn "
        "evenly, the bars are alike, unlike in photographs.",
    ),
    Drawn("maps", _MODELS, "Where the network looks", "OPML, Fig. 7", "spml analyse maps gr",
        "Each map shows where the network looked for one predicted label. The label in blue is the "
        "one that was observed; those with a check mark are right, and nobody had told the model. On "
        "photographs (`spml analyse maps animals-gr`) the maps are coarser, 3 x 3 at 96 pixels, and "
        "lie on the animals."),
    Drawn(
        "landscape", _MODELS, "Loss along a random direction", "EM poster",
        "spml analyse landscape an em gr",
        "The loss of each method along one random direction, scaled filter by filter, which the "
        "poster uses to compare how methods generalise. The three valleys are smooth. Their "
        "widths cannot be compared, since each has its own loss; `--loss full` draws one loss for "
        "all.",
    ),
    Drawn(
        "landscape-2d", _MODELS, "Loss along two random directions", "EM poster",
        "spml analyse landscape an em gr --dimensions 2",
        "The same along two directions, on a grid of 15 x 15 points. EM has the widest valley "
        "here, in its own loss. Contours lie closer together at the bottom.",
    ),
    Drawn(
        "predictions", _MODELS, "The same images, several methods", "EM poster",
        "spml analyse predictions an gr",
        "The same scenes with the predictions of two methods above a threshold that is estimated from "
        "K. Digits that AN gives a low score, since they were never the observed label of such a "
        "scene, are found by GR. The scores tell how sure. On photographs: `spml analyse predictions "
        "animals-an animals-gr`.",
    ),
    Drawn(
        "animals-counts", _PHOTOGRAPHS, "Observed and hidden positives", "GR, Fig. 4 and Table 5",
        "spml analyse counts root/images/voc2012_animals/labels.csv --data.unlisted negative "
        "--data.observe single",
        "A part of PASCAL VOC 2012 that was chosen for its animals. Half of the persons are hidden, "
        "and few of the cats: what is hidden depends on how often a class comes with others, as in "
        "the paper's figure of whole VOC.", True,
    ),
    Drawn(
        "animals-separation", _PHOTOGRAPHS, "Distance between positives and negatives", "GR, Fig. 3a",
        "spml analyse separation animals-an animals-gr",
        "GR separates hidden positives better than AN from the first epoch on, as in the paper, though "
        "its test mAP is not higher on these photographs. Epoch 0 is the pretrained network with a new "
        "head.", True,
    ),
    Drawn(
        "animals-densities", _PHOTOGRAPHS, "Densities of the probabilities", "GR, Fig. 3b",
        "spml analyse densities animals-an animals-gr",
        "AN presses nearly all hidden positives below 1/2; with GR many lie above. There are only "
        "some two hundred hidden positives, so the blue lines are rough.", True,
    ),
    Drawn(
        "animals-posterior", _PHOTOGRAPHS, "Posterior of unknown labels", "GR, Fig. 5",
        "spml analyse posterior animals-gr",
        "Unlike in the paper, the share of hidden positives stays below the curve of Eq. 6: after "
        "four epochs at 96 pixels, GR is too confident. With 13 classes, 1.4 labels per photograph "
        "and few hidden positives, most labels with a high p are mistakes.", True,
    ),
)  # fmt: skip
