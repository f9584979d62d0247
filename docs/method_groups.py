"""When to take each method, by what one has, and where its paper is: for the pages by `make_methods.py`."""

from __future__ import annotations

GROUPS: dict[str, tuple[str, dict[str, str]]] = {
    "One label per sample and nothing else": (
        "For precomputed features, use the default (auto head): it was better than all of these. These "
        "methods are for training a network and for studying losses.",
        {
            "gr": "You train a network: the default for networks that are trained end to end",
            "em": "You train a network and want one simple term: unknown labels are kept uncertain",
            "em_apl": "As EM, in long trainings: after its warm-up it marks likely negatives",
            "ll_r": "You want to drop the unlabelled positives that have the largest losses",
            "ll_ct": "As LL-R, but they count as positives in this batch",
            "ll_cp": "As LL-R, but they count as positives from then on",
            "hill": "Samples have some of their labels, and confident unknown labels should be let go",
            "splc": "As Hill, but confident unknown labels become positives",
            "csl": "Unknown labels of frequent classes should count as unknown, those of rare ones as absent",
            "smile": "Features are fixed, and similar samples have similar labels; elsewhere it averages "
            "predictions",
            "smile_image": "You compare with SMILE on images; its weights are not published",
            "mime": "You compare with MIME; with `--head queries` it has the network of its released code",
            "pumlc": "You want a loss of positive and unlabelled learning, with mixed samples",
            "crisp": "As nnPU, but the share of each class is estimated during training; mostly too high",
            "softmax": "Samples seldom have a second label; solve it on features (`--optim.name lbfgs`)",
        },
    ),
    "K is known, the mean number of labels per sample": (
        "[Fifty samples labelled in full](../audit-sample.md) measure it.",
        {
            "lasd": "You want the best trained loss on features, and can pay for further views of photos",
            "en": "Classes are frequent enough that the expected number of negatives of each means something",
            "epr": "You want the mean number of predicted labels to be K, and nothing else",
            "role": "As EPR, but with an estimate of every label that is learned beside the network",
            "nnpu": "You want a loss of positive and unlabelled learning that assumes no negatives",
            "upu": "You compare with nnPU; without its correction, networks overfit",
            "show": "Each label was equally likely to be the known one; solve it on features",
        },
    ),
    "Photographs, and time for more than one pass": (
        "",
        {
            "plc": "Strong augmentation suits your images: two views of a photo have to agree",
            "lac": "As PLC, with a transformer on the feature map whose embeddings of classes are contrasted",
            "scl": "You study SCL, of which there is a reading only: heat maps of every training photo",
            "ignore": "Regions that speak for a class can tell whether it was left out: uses class maps",
            "boostlu": "As LL-R, with scores of class maps that are raised where they are confident",
        },
    ),
    "Some known negatives": (
        "",
        {
            "iu": "Most labels that matter were checked: unknown ones are left out of the loss",
        },
    ),
    "Pseudo-labels of another model, in a file": (
        "",
        {
            "gpr": "You have them from a vision-language model, and some are wrong",
            "vlpl": "You have them from a vision-language model, and trust its confident ones",
        },
    ),
    "Rankings": (
        "Only the order of the classes of one sample matters to these.",
        {
            "pr": "You compare with pairwise ranking",
            "zlpr": "You want one term per sample in which 0 is the threshold of every class",
            "opml": "You compare with OPML; at its default constants it is ZLPR",
            "opml_sp": "You compare with OPML for single positives, of which there is a reading only",
        },
    ),
    "Baselines, and full labels": (
        "",
        {
            "an": "Always, as the baseline: unknown labels are absent",
            "an_ls": "You compare with label smoothing of all labels",
            "n_ls": "You compare with label smoothing of unknown labels",
            "wan": "You want the simplest repair of AN: absent, with a small weight",
            "focal": "You compare with losses for few positives",
            "asl": "You compare with losses for few positives, stronger than focal",
            "entmin": "You want to see a method collapse, as published",
            "bce": "All labels are known: the ceiling",
            "iun": "You want the ceiling of one known positive and all negatives",
            "combine": "You put terms of methods together",
        },
    ),
}
"""For each group a sentence and, by name, when to take a method: "Take it when" stands above the column."""

PAPERS = {
    "Multi-Label Learning from Single Positive Labels": "2106.09708",
    "Acknowledging the Unknown for Multi-label Learning with Single Positive Labels": "2203.16219",
    "Large Loss Matters in Weakly Supervised Multi-Label Classification": "2206.03740",
    "Bridging the Gap between Model Explanations in Partially Annotated Multi-label Classification": "2304.01804",  # noqa: E501
    "Multi-label Classification with Partial Annotations using Class-aware Selective Loss": "2110.10955",
    "Asymmetric Loss For Multi-Label Classification": "2009.14119",
    "Focal Loss for Dense Object Detection": "1708.02002",
    "Boosting Single Positive Multi-label Classification with Generalized Robust Loss": "2405.03501",
    "Simple and Robust Loss Design for Multi-Label Learning with Missing Labels": "2112.07368",
    "One Positive Label is Sufficient: Single-Positive Multi-Label Learning with Label Enhancement": "2206.00517",  # noqa: E501
    "Vision-Language Pseudo-Labels for Single-Positive Multi-Label Learning": "2310.15985",
    "Positive Label Is All You Need for Multi-Label Classification": "2306.16016",
    "Pushing One Pair of Labels Apart Each Time in Multi-Label Learning: From Single Positive to Full Labels": "2302.14695",  # noqa: E501
    "ZLPR: A Novel Loss for Multi-label Classification": "2208.02955",
    "Positive-Unlabeled Learning with Non-Negative Risk Estimator": "1703.00593",
    "Can Class-Priors Help Single-Positive Multi-Label Learning?": "2309.13886",
}
"""Number on arXiv of each paper that is there, by its title as cards have it."""
