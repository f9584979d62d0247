"""Settings of the model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from msgspec import Meta

from .domains import Count, Fraction, Positive


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
            `on`; `off`; or `auto`, where the backbone is frozen and held-out samples say that it is better.
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
