"""Runs and figures of the page "The papers, figure by figure": commands, and what is to be seen."""

from __future__ import annotations

from typing import NamedTuple

_DIGITS = "spml train digits --data.observe single --mean_labels 2.34 --optim.lr 6e-3 --batch_size 32"
DIGITS = {
    **{
        name: f"{_DIGITS} --epochs 20 --record scores --method {name}"
        for name in ("an", "em", "gr", "splc", "lasd")
    },
    **{
        f"test-{name}": f"{_DIGITS} --epochs 6 --record scores --record_samples test --method {name}"
        for name in ("opml", "an")
    },
    **{f"long-{name}": f"{_DIGITS} --epochs 40 --method {name}" for name in ("an", "zlpr", "opml_sp")},
    "long-high-rank": f"{_DIGITS} --epochs 40 --method opml_sp --hp.smoothing none --hp.correction 0",
}
"""Trainings on scenes of digits, by the name of the folder of the run."""

_ANIMALS = (
    "spml train root/images/voc2012_animals/labels.csv --data.separator ' ' --data.unlisted negative "
    "--data.observe single --data.size 96 --mean_labels 1.4 "
    "--model.weights root/models/mobilenetv2_100_tf_bncal.safetensors "
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
        "spml analyse gradients an em:alpha=1 hill:margin=0,gamma=0 "
        "gr:v=one,w=[0,10],b=[-2,-8],timing=paper",
        "The paper's curves: EM with weight 1, plain Hill, GR without v at the first and the last epoch, and "
        "AN, which pushes every unknown label down, and most where the model is confident. A value below 0 "
        "pushes the probability up: EM pushes towards 1/2, GR begins by pushing the lowest probabilities up, "
        "and ends by pushing up those above .78. The gradient on a known positive is p - 1 for all four. The "
        "defaults of the methods differ: EM has the weight .1, Hill a margin, and GR multiplies by v.",
    ),
    Drawn(
        "gradient-regimes",
        _LOSSES,
        "Gradient on an unknown label and on a known positive over the logit",
        "EM poster, gradient regimes",
        "spml analyse gradients an em:alpha=1 em --over z --positives true",
        "The regimes of the poster. With AN an unknown label that the model is sure of is pushed down as "
        "hard as a known positive that it has missed is pushed up. With EM the gradient on an unknown label "
        "vanishes at both ends, and with the default weight, .1, it is hardly to be seen.",
    ),
    Drawn(
        "gr-tau", _STUDIES, "Threshold of the soft pseudo-label", "GR, Fig. 2a",
        "spml analyse sensitivity sensitivity --x tau --references [an,em]",
        "The schedules end at the stated values (`timing: paper`), so that k has the threshold of the "
        "axis in the last epoch. In the paper the best threshold is always 1, and GR is always above AN. "
        "Here 1 and .85 are level for b = -2. For b = -5 the best is .7, for b = -8 .55 and .7 are level, "
        "and both are better than 1. At .4 a steep k (b = -5 and -8) makes positives of "
        "unknown labels that are negative, and GR falls far behind AN; what is drawn there is the best "
        "epoch, which is an early one, before k has its end.",
    ),
    Drawn(
        "gr-mu-sigma", _STUDIES, "Mean and width of the instance weight", "GR, Fig. 2b",
        "spml analyse sensitivity sensitivity --x hp.mu --references [an,em]",
        "Lines as in the paper, one per sigma. All pairs are above EM and AN, and closer to each other "
        "than the two seeds are: mean and width hardly matter on these scenes. The paper's peak at mu = "
        ".8 is not seen for any sigma.",
    ),
    Drawn(
        "gr-q2", _STUDIES, "Exponent of the loss on pseudo-positives, per epoch", "GR, Fig. 2c",
        "spml analyse sensitivity sensitivity --x hp.q2 --epochs [1,2,4] --references [an,em]",
        "An exponent of .01, near the log loss, is best in every epoch, as in the paper. The panels are "
        "epochs of the same trainings, each with its own axis; an arrow stands for a value below it.",
    ),
    Drawn(
        "gr-q3", _STUDIES, "Exponent of the loss on pseudo-negatives, per epoch", "GR, Fig. 2c",
        "spml analyse sensitivity sensitivity --x hp.q3 --epochs [1,2,4] --references [an,em]",
        "1, the absolute error, is best in every epoch, as in the paper. Towards the log loss mAP falls, "
        "and 1.5 ends at about the mAP of AN.",
    ),
    Drawn(
        "lasd-lambda", _STUDIES, "Weight of pseudo-positives", "LASD, Fig. 1a",
        "spml analyse sensitivity sensitivity --x hp.weight_pos --references [an,em]",
        "In the paper the best value is .10. Here .01 to .1 cannot be told apart, and are above EM, "
        "within the spread of two seeds; 1 is no better than EM. At the threshold .9 hardly any label is "
        "a pseudo-positive, so that lambda+ acts through lambda-, which is derived from it.",
    ),
    Drawn(
        "lasd-tau", _STUDIES, "Threshold of the disambiguation", "LASD, Fig. 1b",
        "spml analyse sensitivity sensitivity --x hp.tau --references [an,em]",
        "From .8 to .99 the threshold makes no difference beyond the spread of two seeds, since few "
        "labels exceed it: in the run of 20 epochs below, at most 3 % exceed .8, and .2 % exceed .9. At "
        ".6 training collapses: too many false positives are learned from the first epoch on. The paper's "
        "best threshold is a little smaller than one.",
    ),
    Drawn(
        "lasd-alpha", _STUDIES, "Weight of the consistency", "LASD, Fig. 1c",
        "spml analyse sensitivity sensitivity --x hp.consistency --references [an,em]",
        "Values from .2 to .8 are higher than none by less than the spread of two seeds, and 1.6 harms. "
        "In the paper every value from .2 to .8 helps, and larger ones harm.",
    ),
    Drawn(
        "opml-alpha", _STUDIES, "First constant of OPML", "OPML, Fig. 5",
        "spml analyse sensitivity sensitivity --x hp.alpha --references [an,em]",
        "Both constants are 1 in ZLPR, which is as good as AN here. A smaller one is worse, and so is 4. "
        "The axis is the constant itself, because the paper's transformation to (0, 1) is lost; the other "
        "constant is 1.",
    ),
    Drawn(
        "opml-beta", _STUDIES, "Second constant of OPML", "OPML, Fig. 5",
        "spml analyse sensitivity sensitivity --x hp.beta --references [an,em]",
        "The same for the constant of the negatives: below 1 it is worse, above 1 about the same. In the "
        "paper other constants than those of ZLPR are best.",
    ),
    Drawn(
        "opml-rank", _STUDIES, "Weight of the high-rank term", "OPML, Fig. 6",
        "spml analyse sensitivity sensitivity --x hp.rank_weight --references [an,em]",
        "Level up to .1, and a collapse at 1: the shape of the paper's figure. The values cannot be "
        "compared, since the formula of the term is one reading of a lost one.",
    ),
    Drawn(
        "mlml", _STUDIES, "More known labels", "EM poster, MLML",
        "spml analyse sensitivity mlml-digits --x hiding",
        "With one positive per scene, GR and EM are ahead of AN. A tenth of all labels is one "
        "label per scene, too, but in three of four cases a negative one, which teaches less. These are two "
        "kinds of supervision, which no line joins. With nine tenths of the labels known the methods are "
        "alike. With few labels the two draws differ much, as the error bars tell.",
    ),
    Drawn(
        "separation", _SCORES, "Distance between positives and negatives", "GR, Fig. 3a; EM poster",
        "spml analyse separation an em gr",
        "From the second epoch on GR keeps hidden positives and true negatives further apart than EM, and "
        "EM further than AN, as in the papers. Test mAP does not follow: of these runs EM has 96.3, GR "
        "95.0 and AN 90.5. Epoch 0 is before training.",
    ),
    Drawn(
        "densities", _SCORES, "Densities of the probabilities, each method at its best epoch",
        "GR, Fig. 3b (AN) and 3c (GR)",
        "spml analyse densities an em gr --epochs best",
        "The epochs are those with the highest validation mAP, as in the paper. AN gives half of the "
        "hidden positives a probability below .2, where 99 % of the negatives are. With GR 72 % of the "
        "negatives are below .2, most of them around .1 (the paper: around .2), and the density of "
        "positives rises towards 1. EM draws negatives to 1/2, and gives 75 % of the hidden positives "
        "more than .9. The density has a logarithmic axis, because most labels are negative.",
    ),
    Drawn(
        "densities-test", _SCORES, "Probabilities of the positives of two methods", "OPML, Fig. 3",
        "spml analyse densities test-opml test-an --known true --together true --log false --bins 20",
        "Positives of the test set, as in the paper, after 6 epochs, about where both are best. OPML gives "
        "fewer of them a probability below .1 than AN, which is binary cross-entropy, and more from .35 to "
        ".75: the shift of the paper, but smaller; above .9 the two are alike. Both constants of OPML are 1, "
        "the best ones of its figure above, where it is ZLPR.",
    ),
    Drawn(
        "densities-class", _SCORES, "Densities of one class", "EM poster, densities of an example class",
        "spml analyse densities an em gr --epochs best --label three",
        "The same for the class `three` alone, which is harder than most: AN has 95 of its 114 hidden "
        "positives below 1/2, GR 66, and EM 6.",
    ),
    Drawn("posterior", _SCORES, "Posterior of unknown labels", "GR, Fig. 5", "spml analyse posterior gr",
        "Before training all labels have nearly the probability of the bias, which says nothing. "
        "After it the share of hidden positives rises with p, as the paper assumes; in "
        "the paper it follows Eq. 6 closely, here it is steeper."),
    Drawn(
        "pseudo-labels", _SCORES, "Predictive values of pseudo-labels", "LASD, Fig. 2",
        "spml analyse pseudo-labels splc lasd --tau 0.6",
        "At .6, with which SPLC was trained, 94 % of its positives are right in the end, and 80 % of "
        "those of LASD; LASD has more labels above it, so fewer positives are left among its negatives. "
        "Dashed: the share of unknown labels that are truly positive.",
    ),
    Drawn(
        "pseudo-labels-9", _SCORES, "Predictive values at the threshold of LASD", "LASD, Fig. 2",
        "spml analyse pseudo-labels splc lasd --tau 0.9",
        "At .9, with which LASD was trained, its few positives are all right. But at most .2 % of the "
        "unknown labels exceed it in any epoch, where 15.5 % are positive: on digits the disambiguation "
        "does next to nothing, and the negative value is no more than the share of true negatives. The "
        "paper shows LASD at its threshold on VOC and COCO, where both values are above 90 %.",
    ),
    Drawn(
        "observed-only", _SCORES, "What can be seen without true labels", "for practitioners",
        "spml analyse observed-only gr",
        "Nothing here needs true labels: the scores of observed positives against those of unknown "
        "labels, and the number of labels per class that the model expects. It expects 3.5 labels per "
        "scene where 2.3 are true: the probabilities of GR are not calibrated.",
    ),
    Drawn(
        "epochs", _SCORES, "mAP over a long training", "OPML, Fig. 4",
        "spml analyse epochs long-an long-zlpr long-high-rank long-opml_sp",
        "All methods reach their best mAP within a few epochs and then learn by heart what is wrong "
        "in their labels. In the paper the high-rank term alone makes OPML stable; here it makes no "
        "difference (its formula is one reading of a lost one), and only all three parts of OPML-SP "
        "slow the decline down. With its constants at 1, as here, OPML is ZLPR, whose name the line has.",
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
        "The poster compares how methods generalise by the loss along one random direction, scaled filter "
        "by filter. Here all runs have one loss, binary cross-entropy on full labels of training samples, so "
        "that heights and widths compare: GR is the lowest and the widest, AN follows, and EM is higher and "
        "narrower, because it leaves negatives near 1/2. All three are smooth. `--loss own` draws the loss "
        "of each method.",
    ),
    Drawn(
        "landscape-2d", _MODELS, "Loss along two random directions", "EM poster",
        "spml analyse landscape an em gr --dimensions 2",
        "The same along two directions, on a grid of 15 x 15 points, with the same levels for all. White: "
        "the trained weights.",
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
        "spml analyse counts root/images/voc2012_animals/labels.csv --data.separator ' ' "
        "--data.unlisted negative --data.observe single",
        "A part of PASCAL VOC 2012 that was chosen for its animals. Half of the persons are hidden, "
        "and few of the cats: what is hidden depends on how often a class comes with others, as in "
        "the paper's figure of whole VOC.", True,
    ),
    Drawn(
        "animals-separation", _PHOTOGRAPHS, "Distance between positives and negatives", "GR, Fig. 3a",
        "spml analyse separation animals-an animals-gr",
        "GR separates hidden positives better than AN from the first epoch on, as in the paper, though "
        "its test mAP is hardly higher on these photographs (37.3 and 37.1). Epoch 0 is the pretrained "
        "network with a new head.", True,
    ),
    Drawn(
        "animals-densities", _PHOTOGRAPHS, "Densities of the probabilities",
        "GR, Fig. 3b (AN) and 3c (GR)",
        "spml analyse densities animals-an animals-gr",
        "At the end of training AN has 86 % of the hidden positives below 1/2; with GR 55 % lie above. "
        "There are only some two hundred hidden positives, so the blue lines are rough.", True,
    ),
    Drawn(
        "animals-posterior", _PHOTOGRAPHS, "Posterior of unknown labels", "GR, Fig. 5",
        "spml analyse posterior animals-gr",
        "Unlike in the paper, the share of hidden positives stays below the curve of Eq. 6: after "
        "four epochs at 96 pixels, GR is too confident. With 13 classes, 1.4 labels per photograph "
        "and few hidden positives, most labels with a high p are mistakes.", True,
    ),
)  # fmt: skip
