"""Losses in your own loop: plain functions of logits and one known label per sample.

    python examples/losses_in_your_loop.py

Trains the same linear model with five losses on random data of which only one label per sample is observed,
and prints mAP against all true labels. `spml.losses` imports torch and nothing else from spml.
"""

import torch

from spml.losses import an_loss, em_loss, epr_loss, gr_loss, softmax_loss
from spml.metrics import mean_average_precision

SAMPLES, CLASSES, WIDTH, EPOCHS = 1200, 12, 24, 60


def make_data() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Features (N, D), true labels bool (N, C), and the one observed class of each sample (N,)."""
    generator = torch.Generator().manual_seed(0)
    truth = torch.rand(SAMPLES, CLASSES, generator=generator) < 0.15
    truth[torch.arange(SAMPLES), torch.randint(CLASSES, (SAMPLES,), generator=generator)] = True
    directions = torch.randn(CLASSES, WIDTH, generator=generator)
    features = truth.float() @ directions + torch.randn(SAMPLES, WIDTH, generator=generator)
    observed = torch.multinomial(truth.float(), 1, generator=generator)[:, 0]
    return features, truth, observed


def main() -> dict[str, float]:
    """Train with each loss; test mAP by loss."""
    features, truth, observed = make_data()
    train, test = slice(0, 800), slice(800, None)
    losses = {
        "an": an_loss,
        "em": em_loss,
        "gr": gr_loss,
        "softmax": softmax_loss,
        "epr": lambda logits, target: epr_loss(logits, target, mean_labels=2.6),  # K, stated by the user
    }
    scores = {}
    for name, loss_function in losses.items():
        torch.manual_seed(0)
        model = torch.nn.Linear(WIDTH, CLASSES)
        optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
        for _ in range(EPOCHS):
            for rows in torch.randperm(800).split(64):
                loss = loss_function(model(features[train][rows]), observed[train][rows])
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
        with torch.no_grad():
            scores[name] = float(mean_average_precision(model(features[test]), truth[test]))
        print(f"{name:8} test mAP {100 * scores[name]:.1f}")
    return scores


if __name__ == "__main__":
    main()
