"""Heads: networks that map features, or the positions of a feature map, to logits."""

from __future__ import annotations

import math
from typing import Annotated, NamedTuple

import msgspec
import torch
from torch import Tensor, nn
from torch.distributions import Beta
from torch.nn import functional

from ..common.errors import InputError

HEADS = LINEAR, MLP, BOOSTED_CAM, GAUSSIAN, GAUSSIAN_PER_CLASS, BETA, CORRELATED, QUERIES = (
    "linear", "mlp", "boosted_cam", "gaussian", "gaussian_per_class", "beta", "correlated", "queries"
)  # fmt: skip
MAP_HEADS = BOOSTED_CAM, QUERIES
"""Heads that take feature maps instead of features."""
_BOOST = 5.0
_MOST_PARAMETERS = 1 << 30  # of a network per class; training takes 16 bytes for each, 17 GB
_HIDDEN_UNITS = 1 << 24  # of all classes that are computed at a time for positions: 64 MiB
_BASE = 10_000.0  # of the wavelengths of the position code
_TURN = 2 * math.pi
_POSITIONS = 256  # positions that are scored by themselves at a time
_Size = Annotated[int, msgspec.Meta(ge=1)]
_SizeOrNone = Annotated[int, msgspec.Meta(ge=0)]

DRAWS = 10
"""Draws of the code that are averaged in training."""
LEAST = 1e-6
"""Least standard deviation and parameter of the heads of SMILE, which softplus would round to 0."""
_LARGEST_LOG_STD = 6.0


class CodeSettings(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """Random code of each class of a `GaussianPerClassHead`, as in model.json.

    Attributes:
        code: Elements Z. 256 in MIME.
        codes_in_evaluation: Draws of the code that are averaged in evaluation; 0 = the mean code.
    """

    code: _Size = 64
    codes_in_evaluation: _SizeOrNone = 0


def statistics(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (..., Z) of a code from numbers (..., 2 Z).

    The first half is the mean; of the second half s the deviation is exp(clamp(s / 2, -6, 6)).
    """
    mean, half = raw.chunk(2, -1)
    return mean, (half / 2).clamp(-_LARGEST_LOG_STD, _LARGEST_LOG_STD).exp()


def soft_statistics(raw: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and standard deviation (..., Z) of a code from numbers (..., 2 Z), as SMILE does.

    The first half is the mean; of the second half s the deviation is softplus(s), at least 1e-6.
    """
    mean, half = raw.chunk(2, -1)
    return mean, functional.softplus(half).clamp(min=LEAST)


def draw(mean: Tensor, std: Tensor, draws: int) -> Tensor:
    """Return the mean of `draws` draws of a code (..., Z); without any, its mean."""
    # The mean of n standard normal numbers is one with a deviation of 1 / sqrt(n).
    return mean + std * torch.randn_like(std) / math.sqrt(draws) if draws else mean


def with_labels(alpha: Tensor, beta: Tensor, *, random: bool) -> tuple[Tensor, Tensor, Tensor]:
    """Return alpha and beta of Beta distributions of labels, and labels drawn from them, or their means.

    A draw has the implicit derivative of torch.
    """
    labels = Beta(alpha, beta, validate_args=False).rsample() if random else alpha / (alpha + beta)
    return alpha, beta, labels


class HeadOutputs(NamedTuple):
    """Outputs of a head that has more than logits; None where it has no such part.

    Attributes:
        logits: Logits (B, C).
        latent: Mean and deviation of the code, each (B, Z), or (B, C, Z) where each class has a code.
        posterior: Parameters alpha and beta of the Beta distribution of each label and, in training, a draw
            from it, otherwise its mean, each (B, C).
        embeddings: Embeddings (B, C, elements), in training only.
    """

    logits: Tensor
    latent: tuple[Tensor, Tensor] | None = None
    posterior: tuple[Tensor, Tensor, Tensor] | None = None
    embeddings: Tensor | None = None


class BoostedCAM(nn.Module):
    """Linear layer at every position of a feature map, with positive values multiplied by 5, then averaged.

    score[c, p] = w_c . x_p + b_c;  logit_c = mean over p of max(score[c, p], 5 score[c, p]), both in training
    and in evaluation. Without the factor this is a linear layer on mean-pooled features. A network trained
    with present classes labelled as absent still responds at their positions, but weakly; the factor
    compensates for this.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.

    Source:
        Kim, Kim, Jeong, Schmid, Akata, Lee. Bridging the Gap between Model Explanations in Partially
        Annotated Multi-label Classification. CVPR 2023.
    """

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(num_features, num_classes)

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the boosted scores (..., C) of positions with features (..., D)."""
        scores = self.last(features)
        return torch.where(scores > 0, _BOOST * scores, scores)

    def forward(self, maps: Tensor) -> Tensor:
        """Return the logits (B, C) of maps (B, D, h, w)."""
        return self.scores_by_position(maps.permute(0, 2, 3, 1)).mean((1, 2))


class GaussianHead(nn.Module):
    """Linear layer on a random Gaussian code whose mean and standard deviation are functions of the features.

    (mean, s) = two halves of a linear layer;  std = exp(clamp(s / 2, -6, 6));  logits = linear layer of
    mean + std * eps, averaged over 10 draws of eps in training; of the mean in evaluation.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        width: Number of elements Z of the code.

    Source:
        Liu, Xu, Lv, Geng. Revisiting Pseudo-Label for Single-Positive Multi-Label Learning. ICML 2023.
    """

    def __init__(self, num_features: int, num_classes: int, width: int) -> None:
        super().__init__()
        self.code = nn.Linear(num_features, 2 * width)
        self.last = nn.Linear(width, num_classes)

    def latent(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of the code, both (..., Z), for features (..., D)."""
        return statistics(self.code(features))

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of the mean code of positions with features (..., D)."""
        logits: Tensor = self.last(self.latent(features)[0])
        return logits

    def forward(self, features: Tensor) -> HeadOutputs:
        """Return the logits of features (B, D), and mean and standard deviation of the code."""
        mean, std = self.latent(features)
        # The last layer is linear: the mean of the logits of 10 codes equals the logits of their mean.
        return HeadOutputs(self.last(draw(mean, std, DRAWS if self.training else 0)), (mean, std))


class GaussianPerClassHead(nn.Module):
    """Random Gaussian code of each class, from a network of two layers per class, and one linear layer.

    (mean_c, s_c) = two halves of linear, ReLU, linear of the features, with weights of class c;  std_c =
    exp(clamp(s_c / 2, -6, 6));  logit_c = w . (mean_c + std_c * eps) + b with the same w and b for all
    classes, and one draw of eps in training. In evaluation the code is mean_c, or the mean of several draws.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.
        hidden: Hidden units H per class; 1024 in the released code. The head has C (D H + H + 2 H Z + 2 Z) +
            Z + 1 parameters.
        settings: Elements Z of the code, and its draws in evaluation.

    Raises:
        InputError: There would be more than 2^30 parameters.

    Source:
        The network for pooled features in the code of Liu, Xu, Lv, Geng. Revisiting Pseudo-Label for
        Single-Positive Multi-Label Learning. ICML 2023, which does not use it, and draws in evaluation, too.
    """

    def __init__(self, num_features: int, num_classes: int, hidden: int, settings: CodeSettings) -> None:
        super().__init__()
        self.settings, self.codes_in_evaluation = settings, settings.codes_in_evaluation
        each = (num_features + 1) * hidden + (hidden + 1) * 2 * settings.code
        if num_classes * each > _MOST_PARAMETERS:
            raise InputError(
                f"the head {GAUSSIAN_PER_CLASS!r} has a network of {each / 1e6:,.2f} million parameters for "
                f"each of the {num_classes:,} classes, {num_classes * each / 1e9:,.2f} billion in all, for "
                f"which training needs {16 * num_classes * each / 1e9:,.0f} GB: decrease model.hidden or "
                f"model.code, or pass model.head={GAUSSIAN}, with one code for all classes."
            )
        self.num_classes = num_classes
        # The layers of all classes as one each, those of one class next to each other.
        self.hidden = nn.Linear(num_features, num_classes * hidden)
        self.code = nn.Linear(hidden, num_classes * 2 * settings.code)
        self.last = nn.Linear(settings.code, 1)

    def latent(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of the codes, both (B, C, Z), for features (B, D)."""
        classes, hidden = self.num_classes, self.code.in_features
        own = functional.relu(self.hidden(features)).view(-1, classes, hidden)
        raw = torch.einsum("bch,coh->bco", own, self.code.weight.view(classes, -1, hidden))
        return statistics(raw + self.code.bias.view(classes, -1))

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of the mean codes of positions with features (..., D)."""
        rows = features.flatten(0, -2)
        whole = torch.compiler.is_compiling()  # an exported batch has any size
        parts = [rows] if whole else torch.split(rows, max(1, _HIDDEN_UNITS // self.hidden.out_features))
        scores = torch.cat([self.last(self.latent(part)[0])[..., 0] for part in parts])
        return scores.view(*features.shape[:-1], self.num_classes)

    def forward(self, features: Tensor) -> HeadOutputs:
        """Return the logits of features (B, D), and mean and standard deviation of the codes."""
        mean, std = self.latent(features)
        code = draw(mean, std, 1 if self.training else self.codes_in_evaluation)
        return HeadOutputs(self.last(code)[..., 0], (mean, std))


class BetaHead(nn.Module):
    """Linear layer on a random Gaussian code, and a Beta distribution of each label that follows from it.

    (m, r) = two halves of linear, ReLU, linear of the features;  s = softplus(r);  code = m + s * eps with
    one draw of eps in training, m in evaluation;  logits = linear layer of the code;  alpha and beta =
    softplus of two halves of another linear layer of the code. In training a label d is drawn from each
    distribution, with the implicit derivative of torch; in evaluation d is its mean.

    Args:
        num_features: Number of features D, and of hidden units.
        num_classes: Number of classes C.
        width: Number of elements Z of the code.

    Source:
        The network for pooled features in the code of image SMILE (Xu, Qiao, Lv, Geng, Zhang. One Positive
        Label is Sufficient. NeurIPS 2022), which draws the code in evaluation, too, and has no least value of
        s, alpha and beta.
    """

    def __init__(self, num_features: int, num_classes: int, width: int) -> None:
        super().__init__()
        self.code = nn.Sequential(
            nn.Linear(num_features, num_features), nn.ReLU(), nn.Linear(num_features, 2 * width)
        )
        self.last = nn.Linear(width, num_classes)
        self.labels = nn.Linear(width, 2 * num_classes)

    def latent(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of the code, both (..., Z), for features (..., D)."""
        return soft_statistics(self.code(features))

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of the mean code of positions with features (..., D)."""
        logits: Tensor = self.last(self.latent(features)[0])
        return logits

    def forward(self, features: Tensor) -> HeadOutputs:
        """Return the logits of features (B, D), mean and deviation of the code, and alpha, beta and d."""
        mean, std = self.latent(features)
        code = draw(mean, std, 1 if self.training else 0)
        alpha, beta = functional.softplus(self.labels(code)).clamp(min=LEAST).chunk(2, -1)
        return HeadOutputs(self.last(code), (mean, std), with_labels(alpha, beta, random=self.training))


class CorrelatedHead(nn.Module):
    """Linear layer whose logits are corrected by the probabilities of the other classes.

    z = linear layer of the features;  logit_c = z_c + sum over j != c of A[c, j] (sigmoid(z_j) - m_j), with a
    learned matrix A of C x C correlations and a constant m. The sigmoid is what makes it more than a linear
    layer: a matrix applied to z itself would give another linear function of the features. A new head has A =
    0 and m = 0 and so computes what a linear layer does. The diagonal of A stays 0.

    Args:
        num_features: Number of features D.
        num_classes: Number of classes C.

    Attributes:
        correlation: A, float32 of shape (C, C); A[c, j] is what class j does to class c.
        centre: m, float32 of shape (C,).

    Source:
        A residual block on logits as in Xun, Jha, Sun, Zhang. Correlation Networks for Extreme Multi-label
        Text Classification. KDD 2020, with a full matrix in place of its bottleneck.
    """

    centre: Tensor

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.last = nn.Linear(num_features, num_classes)
        self.correlation = nn.Parameter(torch.zeros(num_classes, num_classes))
        self.register_buffer("centre", torch.zeros(num_classes))

    @torch.no_grad()
    def start_from_co_occurrence(self, logits: Tensor) -> None:
        """Set A and m from co-occurrence in predictions; no label is used.

        With the predicted probabilities p[n, c] of N samples, m is their mean and A[c, j] = P(c | j) - P(c) =
        (sum over n of p[n, c] p[n, j]) / (sum over n of p[n, j]) - m[c], so that classes predicted
        independently of each other start at 0. The conditional probabilities are those of Chen, Wei, Wang,
        Guo. Multi-Label Image Recognition with Graph Convolutional Networks. CVPR 2019, Eq. 6, of predictions
        in place of labels.

        Args:
            logits: Logits (N, C) of the linear layer, N >= 1, on CPU.
        """
        probabilities = logits.double().sigmoid()
        mean = probabilities.mean(0)
        together = probabilities.T @ probabilities / len(logits)
        # A probability that underflows to 0 in all samples conditions nothing.
        lift = together / mean.clamp_min(torch.finfo(mean.dtype).tiny) - mean[:, None]
        self.correlation.copy_(lift.fill_diagonal_(0))
        self.centre.copy_(mean)

    def forward(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of features (..., D)."""
        logits: Tensor = self.last(features)
        others = self.correlation.tril(-1) + self.correlation.triu(1)  # no gradient on the diagonal
        return logits + functional.linear(logits.sigmoid() - self.centre, others)


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
                f"attention heads, got {width}{source}: change model.width or model.attention_heads."
            )
        return width


class QueryHead(nn.Module):
    """Transformer that turns a feature map into one vector per class, and each vector into a logit.

    The positions x of the map, of which each has a fixed code (see `sine_code`), pass through encoder layers:
    a = LN(x + A(x + code, x + code, x)), x' = LN(a + F(a)), with the attention A(query, key, value) of
    several heads, LN = layer normalisation and F(a) = W2 relu(W1 a + b1) + b2. The classes start as y = 0 and
    pass through decoder layers: a = LN(y + A(y + Q, x + code, x)), y' = LN(a + F(a)), with a learned query
    Q_c per class. Queries do not attend to each other. Then v = LN(y) and logit_c = w_c . v_c + b_c.

    With a random code, a network of two layers maps v_c to mean and deviation of a Gaussian code (see
    `statistics`), and logit_c = w_c . code_c + b_c: of the mean of 10 draws in training, of the mean
    code in evaluation unless `codes_in_evaluation`. With embeddings, another network of two layers maps v_c
    to an embedding of length 1. Each of these networks is the same for all classes.

    With a distribution Beta(alpha_c, beta_c) of each label, alpha_c = softplus(w_c . v_c + b_c) + 1e-6 with
    weights of its own, and so has beta_c. The code then has the deviation of `soft_statistics`, is not
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

    def forward(self, maps: Tensor) -> HeadOutputs:
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
        return HeadOutputs(self.last(code), latent, posterior, embeddings)


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


def last_layer(head: nn.Module) -> nn.Linear:
    """Return the linear layer of a head that computes the logits, one for all or one for each class, or those
    that others correct."""
    last = head[-1] if isinstance(head, nn.Sequential) else getattr(head, "last", head)
    assert isinstance(last, nn.Linear)
    return last
