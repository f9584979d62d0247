"""A whole method under Lightning's Trainer: the hooks of an objective are hooks of a LightningModule.

    python examples/lightning_module.py

The objective is a submodule, so that Lightning moves it to the device and saves its memory in every
checkpoint. The script prints the number of pseudo-negatives that EM+APL has inferred after each epoch.
"""

import lightning
import torch
from torch.utils.data import DataLoader, TensorDataset

from spml import ObservedLabels
from spml.methods import Batch, Facts, Objective, Outputs, Progress, create

SAMPLES, CLASSES, WIDTH, EPOCHS = 400, 10, 16, 5


class SinglePositive(lightning.LightningModule):
    """Trains a model by an objective that needs neither further views nor another forward pass."""

    def __init__(self, model: torch.nn.Module, objective: Objective, features: torch.Tensor, facts: Facts):
        super().__init__()
        self.model, self.objective, self.features, self.facts = model, objective, features, facts
        objective.on_fit_start(facts)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)

    def on_train_epoch_start(self):
        self.objective.on_epoch_start(self.progress())

    def training_step(self, batch, batch_idx):
        features, index = batch
        target = self.facts.observed.target(index.cpu()).to(self.device)
        self.last = Outputs(self.model(features), features), Batch(target, index)
        return sum(self.objective(*self.last).values())

    @torch.no_grad()
    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.objective.after_step(*self.last)

    @torch.no_grad()
    def on_train_epoch_end(self):
        features = self.features.to(self.device)
        self.objective.on_epoch_end(self.progress(), lambda: self.model(features))
        count = int((self.objective.memory.labels.inferred >= 0).sum())
        print(f"epoch {self.current_epoch + 1}: {count:,} pseudo-negatives")

    def progress(self) -> Progress:
        return Progress(self.current_epoch, self.trainer.max_epochs)


def main() -> SinglePositive:
    """Train EM+APL on random data with one observed label per sample."""
    torch.manual_seed(0)
    observed = ObservedLabels.from_index(torch.randint(CLASSES, (SAMPLES,)), CLASSES)
    features = torch.randn(CLASSES, WIDTH)[observed.target(range(SAMPLES))] + torch.randn(SAMPLES, WIDTH)
    names = tuple(f"sample {row}" for row in range(SAMPLES)), tuple(f"class {c}" for c in range(CLASSES))
    module = SinglePositive(
        torch.nn.Linear(WIDTH, CLASSES), create("em_apl", {"warmup": 2}), features, Facts(observed, *names)
    )
    samples = TensorDataset(features, torch.arange(SAMPLES))
    quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
    trainer = lightning.Trainer(max_epochs=EPOCHS, accelerator="cpu", enable_model_summary=False, **quiet)
    trainer.fit(module, DataLoader(samples, batch_size=64, shuffle=True))
    return module


if __name__ == "__main__":
    main()
