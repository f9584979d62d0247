"""Head with one learned query per class that attends to the positions of a feature map."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.errors import InputError
from .code import DRAWS, LEAST, draw, soft_statistics, statistics, with_labels

_BASE = 10_000.0  # of the wavelengths of the position code
_TURN = 2 * math.pi
_POSITIONS = 256  # positions that are scored by themselves at a time
_Size = Annotated[int, msgspec.Meta(ge=1)]
_SizeOrNone = Annotated[int, msgspec.Meta(ge=0)]


class QuerySettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Sizes of a `QueryHead`, as in model.json. MIME, SMILE and LAC have ffn = 8192.

    Attributes:
        width: Width W of positions, queries and class vectors; 0 = that of the feature map.
        attention_heads: Heads of each attention.
        encoder_layers: Layers in which the positions attend to each other.
        decoder_layers: Layers in which the queries attend to the positions.
        ffn: Hidden units of the two-layer network at the end of each layer.
        code: Elements Z of the random code of each class; 0 = no code. 256 in MIME.
        codes_in_evaluation: Draws of the code that are averaged in evaluation; 0 = the mean code. 10 in MIME.
        embedding: Elements of the embedding of each class; 0 = none. 128 in LAC.
        posterior: Whether each label has a Beta distribution, as in SMILE. Then the code is not drawn and
            feeds nothing.
    """

    width: _SizeOrNone = 0
    attention_heads: _Size = 4
    encoder_layers: Annotated[int, msgspec.Meta(ge=0, le=100)] = 1
    decoder_layers: Annotated[int, msgspec.Meta(ge=1, le=100)] = 2
    ffn: _Size = 512
    code: _SizeOrNone = 0
    codes_in_evaluation: _SizeOrNone = 0
    embedding: _SizeOrNone = 0
    posterior: bool = False

    def width_on(self, num_features: int) -> int:
        """Return the width W on a feature map of `num_features` channels.

        Raises:
            InputError: W is not a multiple of the attention heads, or is odd.
        """
        width = self.width or num_features
        if width % self.attention_heads or width % 2:
            source = "" if self.width else ", that of the feature map"
            raise InputError(
                f"the head 'queries' needs an even width that is a multiple of its {self.attention_heads} "
                f"attention heads, got {width}{source}: change --model.width or --model.attention_heads."
            )
        return width


class QueryOutputs(NamedTuple):
    """Outputs of a `QueryHead`; None where it has no such part.

    Attributes:
        logits: Logits (B, C).
        latent: Mean and deviation of the code, each (B, C, Z).
        posterior: Parameters alpha and beta of the Beta distribution of each label and, in training, a draw
            from it, otherwise its mean, each (B, C).
        embeddings: Embeddings (B, C, elements), in training only.
    """

    logits: Tensor
    latent: tuple[Tensor, Tensor] | None = None
    posterior: tuple[Tensor, Tensor, Tensor] | None = None
    embeddings: Tensor | None = None


class QueryHead(nn.Module):
    """Transformer that turns a feature map into one vector per class, and each vector into a logit.

    The positions x of the map, of which each has a fixed code (see `sine_code`), pass through encoder layers:
    a = LN(x + A(x + code, x + code, x)), x' = LN(a + F(a)), with the attention A(query, key, value) of
    several heads, LN = layer normalisation and F(a) = W2 relu(W1 a + b1) + b2. The classes start as y = 0 and
    pass through decoder layers: a = LN(y + A(y + Q, x + code, x)), y' = LN(a + F(a)), with a learned query
    Q_c per class. Queries do not attend to each other. Then v = LN(y) and logit_c = w_c . v_c + b_c.

    With a random code, a network of two layers maps v_c to mean and deviation of a Gaussian code (see
    `code.statistics`), and logit_c = w_c . code_c + b_c: of the mean of 10 draws in training, of the mean
    code in evaluation unless `codes_in_evaluation`. With embeddings, another network of two layers maps v_c
    to an embedding of length 1. Each of these networks is the same for all classes.

    With a distribution Beta(alpha_c, beta_c) of each label, alpha_c = softplus(w_c . v_c + b_c) + 1e-6 with
    weights of its own, and so has beta_c. The code then has the deviation of `code.soft_statistics`, is not
    drawn, and feeds nothing: logit_c = w_c . v_c + b_c.

    In training, attention weights, hidden units of F, and the outputs of A and F are dropped.

    All matrices of the layers, those of query, key and value as one of (3 W, W), start Xavier uniform and the
    biases of attention at 0; queries start standard normal; other parameters as torch's layers do.

    Args:
        num_features: Channels D of the feature map.
        num_classes: Number of classes C.
        settings: Sizes. Where the width W is not D, a linear layer maps each position to it.
        dropout: Share that is dropped.

    Raises:
        InputError: The width is not a multiple of the attention heads, or is odd.

    Source:
        The network of the released code of Xie, Xiao, Huang. Label-Aware Global Consistency for Multi-Label
        Learning with Single Positive Labels. NeurIPS 2022, and of Liu, Xu, Lv, Geng. Revisiting Pseudo-Label
        for Single-Positive Multi-Label Learning. ICML 2023, which also holds the form with distributions.
    """

    def __init__(
        self, num_features: int, num_classes: int, settings: QuerySettings, dropout: float = 0.0
    ) -> None:
        super().__init__()
        width = settings.width_on(num_features)
        sizes = (width, settings.attention_heads, settings.ffn, dropout)
        self.settings, self.codes_in_evaluation = settings, settings.codes_in_evaluation
        self.project = nn.Identity() if width == num_features else nn.Linear(num_features, width)
        self.encoder = nn.ModuleList(_Layer(*sizes) for _ in range(settings.encoder_layers))
        self.decoder = nn.ModuleList(_Layer(*sizes) for _ in range(settings.decoder_layers))
        self.norm = nn.LayerNorm(width)
        self.queries = nn.Parameter(torch.randn(num_classes, width))
        self.code = _two_layers(width, 2 * settings.code) if settings.code else None
        self.last = ClassWiseLinear((not settings.posterior and settings.code) or width, num_classes)
        self.alpha, self.beta = (
            ClassWiseLinear(width, num_classes) if settings.posterior else None for _ in range(2)
        )
        self.embed = _two_layers(width, settings.embedding) if settings.embedding else None

    def set_embedding(self, elements: int) -> None:
        """Give the head new embeddings of so many elements, unless it has such; 0 = none."""
        if elements != self.settings.embedding:
            self.settings = msgspec.structs.replace(self.settings, embedding=elements)
            self.embed = _two_layers(self.queries.shape[1], elements) if elements else None

    def decode(self, positions: Tensor, code: Tensor) -> Tensor:
        """Return the class vectors (B, C, W) of positions (B, T, W) with a code (T, W)."""
        for layer in self.encoder:
            coded = positions + code
            positions = layer(positions, coded, coded, positions)
        coded = positions + code
        vectors = torch.zeros_like(self.queries).expand(positions.shape[0], -1, -1)
        for layer in self.decoder:
            vectors = layer(vectors, vectors + self.queries, coded, positions)
        normalised: Tensor = self.norm(vectors)
        return normalised

    def class_vectors(self, maps: Tensor) -> Tensor:
        """Return one vector per class, (B, C, W), of maps (B, D, h, w)."""
        positions = self.project(maps.flatten(2).transpose(1, 2))
        code = sine_code(maps.shape[2], maps.shape[3], positions.shape[2], maps.device)
        return self.decode(positions, code.to(positions.dtype))

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of positions with features (..., D), each as a map of its own."""
        parts = torch.split(features.flatten(0, -2)[..., None, None], _POSITIONS)
        vectors = (self.class_vectors(part) for part in parts)
        if self.code is not None and not self.settings.posterior:
            code = self.code
            vectors = (statistics(code(part))[0] for part in vectors)
        scores = torch.cat([self.last(part) for part in vectors])
        return scores.view(*features.shape[:-1], self.last.out_features)

    def forward(self, maps: Tensor) -> QueryOutputs:
        """Compute the outputs of maps (B, D, h, w)."""
        code = vectors = self.class_vectors(maps)
        latent = posterior = embeddings = None
        if self.alpha is not None and self.beta is not None:
            alpha, beta = (functional.softplus(part(vectors)) + LEAST for part in (self.alpha, self.beta))
            posterior = with_labels(alpha, beta, random=self.training)
            latent = None if self.code is None else soft_statistics(self.code(vectors))
        elif self.code is not None:
            latent = statistics(self.code(vectors))
            code = draw(*latent, DRAWS if self.training else self.codes_in_evaluation)
        if self.embed is not None and self.training:
            embeddings = functional.normalize(self.embed(vectors), dim=-1)
        return QueryOutputs(self.last(code), latent, posterior, embeddings)


def _two_layers(width: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, outputs))


class ClassWiseLinear(nn.Linear):
    """Linear layer from one vector per class to one logit per class: logit_c = w_c . v_c + b_c.

    Its parameters are those of a linear layer, with the same start: uniform, +- 1 / sqrt(W).
    """

    def forward(self, vectors: Tensor) -> Tensor:
        """Return the logits (..., C) of vectors (..., C, W)."""
        return (vectors * self.weight).sum(-1) + self.bias


class _Layer(nn.Module):
    """Attention and a two-layer network, each added to its input and then normalised."""

    def __init__(self, width: int, heads: int, ffn: int, dropout: float) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(width, heads, dropout, batch_first=True)
        self.widen, self.narrow = nn.Linear(width, ffn), nn.Linear(ffn, width)
        self.after_attention, self.after_ffn = nn.LayerNorm(width), nn.LayerNorm(width)
        self.dropout = nn.Dropout(dropout)
        for layer in (self.attention.out_proj, self.widen, self.narrow):
            nn.init.xavier_uniform_(layer.weight)

    def forward(self, start: Tensor, query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        """Return (B, n, W) for `start` and `query` (B, n, W), `key` and `value` (B, T, W)."""
        attended, _ = self.attention(query, key, value, need_weights=False)
        middle = self.after_attention(start + self.dropout(attended))
        hidden = self.dropout(functional.relu(self.widen(middle)))
        result: Tensor = self.after_ffn(middle + self.dropout(self.narrow(hidden)))
        return result


def sine_code(height: int, width: int, channels: int, device: torch.device | None = None) -> Tensor:
    """Return the fixed code of the positions of a map, float32 of shape (height * width, channels).

    The first half of the channels is about rows, the other about columns. Of coordinate c = 1 ... n, channel
    i of K = channels / 2 is the sine, for odd i the cosine, of 2 pi c / (n + 1e-6) / 10000^(2 floor(i/2) /
    K).

    Source:
        Carion et al. End-to-End Object Detection with Transformers. ECCV 2020, with normalised coordinates.
    """
    half = channels // 2
    channel = torch.arange(half, device=device)
    period = _BASE ** (2 * (channel // 2) / half)

    def code(side: int) -> Tensor:
        coordinates = torch.arange(1, side + 1, device=device)[:, None] / (side + 1e-6)
        angles = coordinates * _TURN / period
        return torch.where(channel % 2 == 0, angles.sin(), angles.cos())

    rows, columns = code(height)[:, None], code(width)[None]
    shape = (height, width, half)
    return torch.cat([rows.expand(shape), columns.expand(shape)], 2).flatten(0, 1)
