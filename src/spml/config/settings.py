"""Every setting of a run, its default and its meaning."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from ..common.errors import InputError, quoted

# -- domains, with what a message calls them -------------------------------------------------------------


Positive = Annotated[int, Meta(ge=1, description="at least 1")]
Count = Annotated[int, Meta(ge=0, description="at least 0")]
Amount = Annotated[float, Meta(ge=0, description="at least 0")]
Rate = Annotated[float, Meta(gt=0, description="greater than 0")]
Fraction = Annotated[float, Meta(ge=0, lt=1, description="in [0, 1)")]


# -- data ------------------------------------------------------------------------------------------------


_LARGEST, _MOST_SIZES = 8192, 3


@dataclass
class DataConfig:
    """Settings of the data: what to read, what to hide, how to split.

    Attributes:
        path: Folder (of class folders, PASCAL VOC, COCO, YOLO, Hugging Face), table (CSV, TSV,
            Parquet), JSON of COCO or Label Studio, features (.npz, .arff), or `digits`.
        images: Folder of the images that a data file names, if it is neither the folder of the file nor one
            next to it. For an image folder: a further folder that links in it may point to.
        classes: Text file with the name of a class per line, for photos of which no label is known: a folder
            of them at any depth, or a table that names them. `model.names` then scores them by these names.
        keywords: The labels of photos in a folder are their keywords, as photo programs write them: in the
            photo (IPTC, XMP) or in an XMP file next to it. Names of folders are not read.
        unlisted: Meaning of a label that the data does not list: `unknown`; or `negative`, all absent, so
            that the data is fully labelled.
        rename: CSV or TSV file with two columns, given and wanted class names, or in Python such a mapping.
            An empty wanted name leaves the class out; names with the same wanted name are merged.
        observe: Hide labels of fully labelled data; hidden labels serve evaluation only. Keep one positive
            per sample, drawn uniformly: `single`; by the frequency of its class: `frequency`; by a random
            salience of its class: `salience`; by the area of its largest box: `size`; by how close a box is
            to the centre of the image: `position`. Or keep some labels of both signs per sample: `counts`; a
            share of all labels: `fraction`; the answers to questions about one class after another, up to
            the first yes: `questions`; the labels that the publication of a benchmark observed, or the array
            `observed` of a .npz file: `protocol`.
        observe_seed: Seed of the draw of `observe`.
        observe_positives: Number of positives that `counts` keeps of each sample, or all if there are fewer.
        observe_negatives: Number of negatives that `counts` keeps of each sample, or all if there are fewer.
        observe_share: Share of all labels, positive and negative, that `fraction` keeps.
        observe_power: Strength of the preference of `frequency`, `size` and `position`: the chance is
            proportional to measure ^ power; 0 is `single`, and below 0 rare, small, outer ones are preferred.
            For `salience` the standard deviation of its logarithm.
        observe_all_negatives: Also keep every true negative where a rule keeps one positive per sample; the
            other positives stay hidden.
        observe_noise: Share of the observed positives that are replaced by a label that is absent, where a
            rule keeps one positive per sample; true labels stay as they are.
        missing: Files that the data names and that do not exist: `stop` with their number and the first
            ones, or `skip` them and list them in skipped.csv.
        unlabelled: Samples about which the data says nothing, such as rows with an empty label: `skip` or
            `stop`, likewise. With `unlisted` negative, an empty list of labels says that none applies.
        same_content: Equal files in class folders: `merge` those of a split, with all labels, or `keep` each.
        split: Use the split that the data has (`given`), or split all samples again by the shares (`ignore`).
        val_share: Share of the training samples held out for validation where the data has no split,
            stratified by class; the last training sample of a class is never held out.
        test_share: Share of all samples set aside for the test where the data has no split, likewise; 0 = no
            test.
        stratify: Draw both splits such that every class has the same share in them, as far as labels are
            observed, and keep the last sample of a class for training. A comparison (`spml bench`) draws them
            whatever the labels, so that ways of hiding and candidates share them.
        split_seed: Seed of both splits.
        sample_rows: Use this many samples only, drawn at random; 0 = all.
        sample_seed: Seed of this draw.
        label_columns: Attributes of an ARFF file that are labels: N for the first N, -N for the last N; 0 =
            as its .xml file or @relation says.
        text: Columns of a table whose text is the sample, after commas, such as `title,abstract`: each row is
            a text instead of an image.
        file_column: Column of a table that names the images; default: `file`, `image`, `path`, `id` or a
            similar name. For a Hugging Face data set the column that holds them. Of texts, a column that
            names them; default: `id`, otherwise the number of the row.
        label_column: Column of a table that holds the labels; default: `label`, `tag`, `category`, `class`, a
            plural or the like. `CAT,DOG`: columns that stand for one class each, or, if they hold words, that
            hold the labels together.
        split_column: Column of a table that holds the split; default: `split`, or one with names of splits.
        group: Column of a table, or array of a feature file, that says which samples belong together, such as
            those of a patient, a recording, an author or a burst. Splits and folds never separate a group,
            and intervals are those of a bootstrap over groups. A blank cell is a group of its own.
        separator: Separator of labels in one cell of a table; default: that of the rules in `docs/data.md`.
            Empty: every cell is one label.
        marks: Marks at names in cells: `read` that `-dog` and `no dog` are absent and `dog?` is unknown, and
            refuse scores and counts such as `dog:0.82`; `cut` scores and counts off; or `keep` every name as
            it is.
        present_above: A number above this says that a class is present, and another one that it is absent, in
            columns that stand for a class each; default: such columns hold marks, not numbers.
        one_hot: Names of the places of lists such as `[1, 0, 1]` in the column of labels, after commas.
        size: Side in pixels to which images are resized: a number; several after commas, such as `224,320`,
            whose scores the auto head averages; 0, the size that the backbone was trained with; or `auto`:
            for an auto head on a frozen network of timm, the best one or two of that size and up to two
            larger ones that suit the photographs, else 0.
        flip: Mirror training images at random (never done for digits and feature files).
        crop: Train on a random part of each image, another one in each epoch, with at least this share of its
            area; 1 = the whole images. For image files whose backbone is trained.
        max_unreadable: Share of unreadable images above which reading stops.
        max_pixels: An image with more pixels is not opened.
        draft: Decode a JPEG at 1/2, 1/4 or 1/8 of its size if twice `size` is left on both sides. Faster for
            photos of several megapixels; pixels differ by about 1 of 255 from those of plain resizing.
        decoder: What decodes and resizes images: `pillow`; or `torchvision`, which is faster and rounds
            differently when it resizes. `spml predict`, `evaluate` and `serve` load images with the `decoder`
            and `draft` of the run; exported files resize as Pillow does.
        workers: Number of processes that decode images; -1 = one per core, at most 8.
        cache: Folder for computed features; default: `features` in the folder of the run.
    """

    path: str = ""
    images: str | None = None
    classes: str = ""
    keywords: bool = False
    unlisted: str = "unknown"
    rename: str | dict[str, str] = ""
    observe: Literal[
        "none", "single", "counts", "fraction", "frequency", "salience", "size", "position", "questions",
        "protocol",
    ] = "none"  # fmt: skip
    observe_seed: int = 0
    observe_positives: int = 1
    observe_negatives: int = 0
    observe_share: float = 0.1
    observe_power: float = 1.0
    observe_all_negatives: bool = False
    observe_noise: float = 0.0
    missing: Literal["stop", "skip"] = "stop"
    unlabelled: Literal["skip", "stop"] = "skip"
    same_content: Literal["merge", "keep"] = "merge"
    split: Literal["given", "ignore"] = "given"
    val_share: Annotated[float, Meta(gt=0, lt=1, description="between 0 and 1")] = 0.2
    test_share: Fraction = 0.0
    split_seed: int = 0
    stratify: bool = True
    sample_rows: Count = 0
    sample_seed: int = 0
    label_columns: int = 0
    text: str = ""
    file_column: str = ""
    label_column: str = ""
    split_column: str = ""
    group: str = ""
    separator: str | None = None
    marks: Literal["read", "cut", "keep"] = "read"
    present_above: float | None = None
    one_hot: str = ""
    size: str | int = "auto"
    flip: bool = True
    crop: Annotated[float, Meta(ge=0.01, le=1, description="from 0.01 to 1")] = 1.0
    max_unreadable: Annotated[float, Meta(ge=0, le=1, description="in [0, 1]")] = 0.01
    max_pixels: Positive = 100_000_000
    draft: bool = False
    decoder: Literal["pillow", "torchvision"] = "pillow"
    workers: int = -1
    cache: str | None = None

    def __post_init__(self) -> None:
        """Check `unlisted`."""
        if self.unlisted not in ("unknown", "negative"):
            raise InputError(
                f"data.unlisted must be unknown or negative, got {quoted(self.unlisted)}. For single "
                "classes, write a column per class with -1 where it was looked for and is absent"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Sizes of images that are stated, ascending; none for `auto` and 0.

        Raises:
            InputError: `size` is neither `auto` nor numbers from 0 to 8192, or states more than three.
        """
        if self.size == "auto":
            return ()
        texts = str(self.size).replace(" ", "").split(",")
        if not all(re.fullmatch("[0-9]{1,4}", text) and int(text) <= _LARGEST for text in texts):
            raise InputError(
                f"data.size must be auto, or numbers from 0 to {_LARGEST} such as 320 or 224,320, got "
                f"{quoted(self.size)}"
            )
        sizes = {int(text) for text in texts}
        if len(texts) > 1 and (0 in sizes or len(sizes) < len(texts) or len(sizes) > _MOST_SIZES):
            raise InputError(
                f"data.size={self.size}: state one size, or two or three different ones above 0."
            )
        return tuple(sorted(sizes - {0}))

    @property
    def side(self) -> int:
        """Side in pixels with which images are loaded: the largest stated size; 0 if none is stated."""
        return max(self.sizes, default=0)

    @property
    def default_label(self) -> Literal["unknown", "negative"]:
        """`unlisted` with its type."""
        return "negative" if self.unlisted == "negative" else "unknown"


# -- model -----------------------------------------------------------------------------------------------


@dataclass
class ModelConfig:
    """Settings of the model, which maps a sample to one logit per class.

    Attributes:
        backbone: Any timm model, `hf/FOLDER` (image encoders of transformers), `module:callable` for a
            network of your own or of torchvision (on the command line only), `small_cnn`, or `none` for
            feature files; for texts `tfidf`, words and their weights, or `sentence-transformers:NAME`, an
            embedding from a folder or of the Hugging Face hub; `auto` picks by the data.
        weights: `pretrained` (downloaded by timm; in the folder of `hf/`; as a network of your own has them),
            `random`, or a .safetensors file; a JSON file of the same name next to it may say how images are
            prepared. `small_cnn` always starts from random weights.
        frozen: Compute the features of the backbone once and train the head only; `auto` = yes for a
            pretrained backbone, unless head or method needs its feature map.
        frozen_parts: Parts of a backbone that is trained which stay as they are: `norms`, the statistics and
            constants of every batch normalisation, and names of modules, after commas. MIME and LAC freeze
            `norms,conv1,layer1` of a ResNet.
        head: `linear`; `mlp` with one hidden layer; `boosted_cam`, a linear layer at every position of the
            feature map with positive values times 5 (images only); `gaussian`, a random code and a linear
            layer; `gaussian_per_class`, a random code of each class from a network of its own; `beta`, a
            random code and a distribution of every label, for the method that needs it; `correlated`, a
            linear layer whose logits are corrected by the probabilities of the other classes with a learned
            matrix, which starts at 0, or from co-occurrence in the predictions of a run with a linear head
            (init_from); `queries`, a transformer decoder with a learned query per class on the feature map
            (images only); `auto` = as the card of the method says. Three heads are solved in seconds instead
            of trained, on features of a pretrained, frozen backbone or of a file, without a method; epochs
            and `optim` then have no effect: `ridge`, regression of the observed labels (unknown = 0) with the
            best of 13 penalties by the validation score; `lda`, linear discriminant analysis with the best of
            12; and `mean_difference`, the mean of the samples with a label minus that of all. Short on the
            command line: --head.
        hidden: Width of the hidden layer of `mlp`, of that of each class of `gaussian_per_class`, and of the
            code of `gaussian` and `beta`.
        width: Width of `queries`, even and a multiple of `attention_heads`; 0 = that of the feature map, as
            in the papers.
        attention_heads: Heads of each attention of `queries`; 4 in the papers.
        encoder_layers: Layers of `queries` in which the positions of the map attend to each other; 1 in the
            papers.
        decoder_layers: Layers of `queries` in which the classes attend to the positions; 2 in the papers.
        ffn: Hidden units of each layer of `queries`; 8192 in the papers, with 151 million parameters on
            ResNet-50.
        code: Elements of the random code of each class of `gaussian_per_class`, and of `queries` for methods
            that need one (`mime`, where the paper has 256).
        codes_in_evaluation: Draws of this code that are averaged in evaluation, which makes predictions
            random; 0 = the mean code. 10 in the released code of MIME.
        dropout: Share of features dropped before the head; of `queries`, share dropped in its layers instead,
            0.1 in the papers.
        scores: Output of the model: the `logits` of the head, or their `log_softmax`, log-probabilities over
            the classes of a sample. The latter is for losses that only compare classes of the same sample,
            and so leave the logits of different samples incomparable. `auto` = as the card of the method
            says.
        head_bias: Bias that a new head starts with: `zero`, or `prior` = logit(K / C); `auto` = as the card
            of the method says.
        scaling: Map of the features in front of the head, fitted on the training set (feature files and
            frozen backbones): `standard` = each feature to mean 0 and deviation 1; `sqrtl2` = the square root
            of each, with its sign, then each sample to length 1; `unit` = each sample to length 1; `tfidf`
            for bags of words; `raw` = none. `auto` = `sqrtl2` for features like those of a convolutional
            network (at least 384, none negative, at least a fifth not 0, judged by some training samples),
            `standard` for others and for `mean_difference`, and `raw` where the backbone is trained.
        local: Apply the head to windows of the feature map, too, where the highest score of a class counts:
            `on`; `off`; or `auto`, where the backbone is frozen and the whole image is not clearly better.
            `crops` = to 2 x 2 and 3 x 3 crops that go through the network by themselves, for networks
            without a map: 14 times the work. Short on the command line: --local.
        names: CLIP or SigLIP model of transformers, whose image tower is the backbone, and whose text tower
            reads the names of the classes as further evidence. Short on the command line: --names.
        names_file: CSV file of class names and what the text tower reads in their place; empty = nothing.
        prompts: Text file of sentences with `{}` in place of the name; default: eight about photos.
        names_lda: Of photos without labels, let LDA on those that names are surest of take the place of the
            names. An auto head tries this by itself.
    """

    backbone: str = "auto"
    weights: str = "pretrained"
    frozen: Literal["auto", "yes", "no"] = "auto"
    frozen_parts: str = ""
    head: Literal[
        "auto", "linear", "mlp", "boosted_cam", "gaussian", "gaussian_per_class", "beta", "correlated",
        "queries",
        "ridge", "lda", "mean_difference",
    ] = "auto"  # fmt: skip
    hidden: Positive = 512
    width: Count = 0
    attention_heads: Positive = 4
    encoder_layers: Annotated[int, Meta(ge=0, le=100, description="from 0 to 100")] = 1
    decoder_layers: Annotated[int, Meta(ge=1, le=100, description="from 1 to 100")] = 2
    ffn: Positive = 512
    code: Count = 64
    codes_in_evaluation: Count = 0
    dropout: Fraction = 0.0
    scores: Literal["auto", "logits", "log_softmax"] = "auto"
    head_bias: Literal["auto", "zero", "prior"] = "auto"
    scaling: Literal["auto", "raw", "standard", "sqrtl2", "unit", "tfidf"] = "auto"
    local: Literal["auto", "on", "off", "crops"] = "auto"
    names: str = ""
    names_file: str = ""
    prompts: str = ""
    names_lda: bool = False


# -- training --------------------------------------------------------------------------------------------


AUTO = "auto"
"""The method that solves an ensemble of heads in closed form."""

LBFGS = "lbfgs"
"""The optimiser that solves a head instead of training it."""


@dataclass
class OptimConfig:
    """Settings of the optimiser.

    Attributes:
        name: `adamw`, `adam`, `adamax` or `sgd` (momentum .9). `lbfgs` solves a linear head instead of
            training it, on features of a pretrained, frozen backbone or of a file: to the minimum of the loss
            of the method on the whole training set with an L2 penalty, for 13 penalties, of which the best by
            the validation score is kept. `epochs` says where a schedule ends; the other settings here have no
            effect. For methods without a memory, views or parameters of their own.
        lr: Learning rate; default 1e-4 when a pretrained backbone is fine-tuned, 1e-2 on features whose
            samples have length 1 (`model.scaling` is `sqrtl2`, `unit` or `tfidf`), else 1e-3.
        weight_decay: Weight decay, decoupled for adamw, added to the gradient for the others.
        l1: Adds l1 * sum |w| over the weights of the model (without biases and norms) to the loss.
        l2: Adds l2 * sum w^2 over the same weights. The optimiser sees the gradient of both, so that the
            minimum is that of the penalised loss, unlike with `weight_decay` and adamw, which can be set to
            0.
        head_lr_factor: Learning rate of the head relative to `lr`; default 10 when a pretrained backbone is
            fine-tuned with a new head, else 1.
        warmup_epochs: Number of epochs over which the learning rate rises linearly from zero.
        schedule: `constant`; `cosine` down to zero at the last step; or `one_cycle`, from lr / 25 up to lr in
            the first fifth of the steps, then down to lr / 250,000, both along a cosine.
        clip: Largest norm of the gradient; 0 = no clipping.
        ema: Decay per step of a moving average of the weights, used for validation and prediction; 0 = none.
    """

    name: Literal["adamw", "adam", "adamax", "sgd", "lbfgs"] = "adamw"
    lr: Rate | None = None
    weight_decay: Amount = 1e-4
    l1: Amount = 0.0
    l2: Amount = 0.0
    head_lr_factor: Rate | None = None
    warmup_epochs: Amount = 0.0
    schedule: Literal["constant", "cosine", "one_cycle"] = "constant"
    clip: Amount = 0.0
    ema: Fraction = 0.0


@dataclass
class Config:
    """Settings of one training run.

    Attributes:
        data: Settings of the data.
        model: Settings of the model.
        optim: Settings of the optimiser.
        method: Registered method; `spml methods` lists them. `auto` solves ridge regression and LDA on
            several spaces of features and averages the best by the validation score, without training; it is
            the default on the features of a file or of a frozen backbone. With --model.frozen no, the network
            is then fine-tuned, and kept if it scores clearly higher. Left empty for a head in closed form.
        hp: Hyper-parameters of the method; `spml methods NAME` lists them.
        epochs: Number of passes over the training set.
        batch_size: Samples per step, over all devices.
        seed: Seed of everything random in training.
        select: How the best epoch is chosen: `observed` (SP-score, needs no full labels), `oracle` (mAP on
            fully labelled validation samples); `auto` = `oracle` only if the given validation labels are
            full.
        mean_labels: Mean number of labels per sample K, if known; where it is needed and not stated, it is 2,
            or half the number of classes if there are fewer than 4.
        minutes: Time limit of the training, from its start on; 0 = none. An auto head leaves out parts of
            photos, further spaces of features and the forest; a network that is trained, its last epochs. A
            line says what is left out. What has begun is finished, so a training may take somewhat longer,
            and the result depends on the speed of the machine.
        patience: Stop after this many epochs without a better validation score; 0 = never.
        devices: Number of processes or accelerators to train on, those of all machines together. Under
            torchrun, `spml train` takes as many as were started.
        accelerator: `auto`, `cpu`, `cuda`, `mps`.
        precision: Precision of training and of the features of a frozen backbone: `32-true`, `bf16-mixed`,
            `16-mixed`. Predictions of a finished run are computed in full precision.
        compile: Compile the network that is trained with `torch.compile`. The first steps can take minutes,
            and results differ by rounding. On CPU this needs a C++ compiler.
        checkpoint_steps: Also write a checkpoint every so many steps; 0 = after each epoch only.
        threads: Number of torch threads per process; 0 = as torch decides.
        init_from: Folder of a finished run to start from: its whole model, whose settings are taken over,
            and, for the same method on the same training labels, what the method had inferred. A run with
            a frozen backbone, then one from it with --model.frozen no, is linear initialisation.
        record: Also keep, for the figures of `spml analyse`, the `scores` of the samples in `record_samples`
            before the first and after every epoch; `none` keeps nothing.
        record_samples: Samples that `record` is about: names of splits, such as `val` or `val,test`.
            Those of `val` take no time to compute.
        output: Folder of the run.
    """

    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    optim: OptimConfig = field(default_factory=OptimConfig)
    method: str = ""
    hp: dict[str, Any] = field(default_factory=dict)
    epochs: Positive = 20
    batch_size: Positive = 64
    seed: Annotated[int, Meta(ge=0, lt=2**32, description="from 0 to 2^32 - 1")] = 0
    select: Literal["auto", "observed", "oracle"] = "auto"
    mean_labels: Rate | None = None
    minutes: Amount = 0.0
    patience: Count = 0
    devices: Positive = 1
    accelerator: str = "auto"
    precision: Literal["32-true", "bf16-mixed", "16-mixed"] = "32-true"
    compile: bool = False
    checkpoint_steps: Count = 0
    threads: Annotated[int, Meta(ge=0, le=1024, description="from 0 to 1024")] = 0
    init_from: str = ""
    record: Literal["none", "scores"] = "none"
    record_samples: str = "val"
    output: str = ""

    @property
    def objective(self) -> str:
        """Name of the method whose loss is minimised; empty where heads are solved in closed form."""
        return "" if self.method == AUTO else self.method
