"""A whole method in your own loop: losses, schedule and memory of inferred labels in one module.

    python examples/objective_in_your_loop.py

EM+APL turns the lowest-scoring unknown labels into pseudo-negatives once its warm-up is over. `train` is a
complete loop: it works for every method that needs neither further views nor another forward pass. The script
prints the number of pseudo-negatives after each epoch.
"""

import torch

from spml import ObservedLabels
from spml.methods import Batch, Facts, Objective, Outputs, Progress, create

SAMPLES, CLASSES, WIDTH, EPOCHS = 400, 10, 16, 5


def train(model: torch.nn.Module, objective: Objective, features: torch.Tensor, facts: Facts) -> None:
    """Train `model` by `objective` on the observed labels in `facts`."""
    objective.on_fit_start(facts)
    optimiser = torch.optim.AdamW([*model.parameters(), *objective.parameters()], lr=0.01)
    for epoch in range(EPOCHS):
        objective.on_epoch_start(Progress(epoch, EPOCHS))
        for index in torch.randperm(len(features)).split(64):
            batch = Batch(facts.observed.target(index), index)
            outputs = Outputs(model(features[index]), features[index])
            loss = sum(objective(outputs, batch).values())
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                objective.after_step(outputs, batch)
        with torch.no_grad():
            objective.on_epoch_end(Progress(epoch, EPOCHS), lambda: model(features))
        print(f"epoch {epoch + 1}: loss {loss:.4f}, {pseudo_negatives(objective):,} pseudo-negatives")


def pseudo_negatives(objective: Objective) -> int:
    """Number of labels in the memory; -1 stands for those about which nothing is inferred."""
    return sum(int((memory >= 0).sum()) for name, memory in objective.named_buffers() if "inferred" in name)


def main() -> Objective:
    """Train EM+APL on random data with one observed label per sample."""
    torch.manual_seed(0)
    observed = ObservedLabels.from_index(torch.randint(CLASSES, (SAMPLES,)), CLASSES)
    features = torch.randn(CLASSES, WIDTH)[observed.target(range(SAMPLES))] + torch.randn(SAMPLES, WIDTH)
    names = tuple(f"sample {row}" for row in range(SAMPLES)), tuple(f"class {c}" for c in range(CLASSES))
    objective = create("em_apl", {"warmup": 2})
    train(torch.nn.Linear(WIDTH, CLASSES), objective, features, Facts(observed, *names))
    return objective


if __name__ == "__main__":
    main()
