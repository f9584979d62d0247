"""Heads: networks that map features, or the positions of a feature map, to logits."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..common.errors import InputError
from .code import DRAWS, LEAST, CodeSettings, draw, soft_statistics, statistics, with_labels
from .queries import QueryHead, QuerySettings

HEADS = LINEAR, MLP, BOOSTED_CAM, GAUSSIAN, GAUSSIAN_PER_CLASS, BETA, CORRELATED, QUERIES = (
    "linear", "mlp", "boosted_cam", "gaussian", "gaussian_per_class", "beta", "correlated", "queries"
)  # fmt: skip
MAP_HEADS = BOOSTED_CAM, QUERIES
"""Heads that take feature maps instead of features."""
_BOOST = 5.0
_MOST_PARAMETERS = 1 << 30  # of a network per class; training takes 16 bytes for each, 17 GB
_HIDDEN_UNITS = 1 << 24  # of all classes that are computed at a time for positions: 64 MiB


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

    def forward(self, features: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the logits (B, C) of features (B, D), and mean and standard deviation of the code."""
        mean, std = self.latent(features)
        # The last layer is linear: the mean of the logits of 10 codes equals the logits of their mean.
        return self.last(draw(mean, std, DRAWS if self.training else 0)), (mean, std)


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
                f"which training needs {16 * num_classes * each / 1e9:,.0f} GB: decrease --model.hidden or "
                f"--model.code, or pass --model.head {GAUSSIAN}, with one code for all classes."
            )
        self.hidden = nn.Linear(num_features, num_classes * hidden)
        self.code = _PerClass(num_classes, hidden, 2 * settings.code)
        self.last = nn.Linear(settings.code, 1)

    def latent(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return mean and standard deviation of the codes, both (B, C, Z), for features (B, D)."""
        return statistics(self.code(functional.relu(self.hidden(features))))

    def scores_by_position(self, features: Tensor) -> Tensor:
        """Return the logits (..., C) of the mean codes of positions with features (..., D)."""
        rows = features.flatten(0, -2)
        whole = torch.compiler.is_compiling()  # an exported batch has any size
        parts = [rows] if whole else torch.split(rows, max(1, _HIDDEN_UNITS // self.hidden.out_features))
        scores = torch.cat([self.last(self.latent(part)[0])[..., 0] for part in parts])
        return scores.view(*features.shape[:-1], self.code.num_classes)

    def forward(self, features: Tensor) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Return the logits (B, C) of features (B, D), and mean and standard deviation of the codes."""
        mean, std = self.latent(features)
        code = draw(mean, std, 1 if self.training else self.codes_in_evaluation)
        return self.last(code)[..., 0], (mean, std)


class _PerClass(nn.Linear):
    """A linear layer for each class, on hidden units of its own, with the start of torch's layers."""

    def __init__(self, num_classes: int, inputs: int, outputs: int) -> None:
        super().__init__(inputs, num_classes * outputs)
        self.num_classes = num_classes

    def forward(self, hidden: Tensor) -> Tensor:
        """Return (B, C, outputs) for hidden units (B, C * inputs), those of one class next to each other."""
        own = hidden.view(-1, self.num_classes, self.in_features)
        weight = self.weight.view(self.num_classes, -1, self.in_features)
        return torch.einsum("bch,coh->bco", own, weight) + self.bias.view(self.num_classes, -1)


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

    def forward(
        self, features: Tensor
    ) -> tuple[Tensor, tuple[Tensor, Tensor], tuple[Tensor, Tensor, Tensor]]:
        """Return logits (B, C) of features (B, D), mean and deviation of the code, and alpha, beta and d."""
        mean, std = self.latent(features)
        code = draw(mean, std, 1 if self.training else 0)
        alpha, beta = functional.softplus(self.labels(code)).clamp(min=LEAST).chunk(2, -1)
        return self.last(code), (mean, std), with_labels(alpha, beta, random=self.training)


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


def make_head(
    kind: str,
    num_features: int,
    num_classes: int,
    *,
    hidden: int = 512,
    codes: CodeSettings | None = None,
    queries: QuerySettings | None = None,
    dropout: float = 0.0,
) -> nn.Module:
    """Create a head with random weights, drawn from torch's global random state.

    Args:
        kind: Kind of head: `linear`, `mlp` (one hidden layer, ReLU), `boosted_cam`, `gaussian`,
            `gaussian_per_class`, `beta`, `correlated` or `queries`.
        num_features: Number of features D.
        num_classes: Number of classes C.
        hidden: Width of the hidden layer of `mlp`, of that of each class of `gaussian_per_class`, and of the
            code of `gaussian` and `beta`.
        codes: Code of each class of `gaussian_per_class`; None = its defaults.
        queries: Sizes of `queries`; None = its defaults.
        dropout: Share that is dropped inside of `queries`.
    """
    if kind == GAUSSIAN_PER_CLASS:
        return GaussianPerClassHead(num_features, num_classes, hidden, codes or CodeSettings())
    if kind == QUERIES:
        return QueryHead(num_features, num_classes, queries or QuerySettings(), dropout)
    if kind == MLP:
        return nn.Sequential(nn.Linear(num_features, hidden), nn.ReLU(), nn.Linear(hidden, num_classes))
    if kind in (GAUSSIAN, BETA):
        coded = GaussianHead if kind == GAUSSIAN else BetaHead
        return coded(num_features, num_classes, hidden)
    simple: dict[str, type[nn.Module]] = {
        LINEAR: nn.Linear,
        BOOSTED_CAM: BoostedCAM,
        CORRELATED: CorrelatedHead,
    }
    if kind not in simple:
        raise ValueError(f"head must be one of {', '.join(HEADS)}, got {kind!r}")
    return simple[kind](num_features, num_classes)


def last_layer(head: nn.Module) -> nn.Linear:
    """Return the linear layer of a head that computes the logits, one for all or one for each class, or those
    that others correct."""
    last = head[-1] if isinstance(head, nn.Sequential) else getattr(head, "last", head)
    assert isinstance(last, nn.Linear)
    return last
