"""A whole method under the Trainer of Hugging Face's transformers: its hooks are a callback.

    python examples/hf_trainer.py

The Trainer calls a module that returns the loss, as its own models do. The objective is a part of the module,
so that its memory is saved with the weights. The script prints the number of pseudo-negatives that EM+APL has
inferred after each epoch. It needs more than spml itself: pip install transformers accelerate.
"""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainerCallback, TrainingArguments

from spml import ObservedLabels
from spml.methods import Batch, Facts, Objective, Outputs, Progress, create

SAMPLES, CLASSES, WIDTH, EPOCHS = 400, 10, 16, 5


class WithObjective(torch.nn.Module):
    """A model whose forward pass returns the loss of an objective, too."""

    def __init__(self, model: torch.nn.Module, objective: Objective, facts: Facts):
        super().__init__()
        self.model, self.objective, self.facts = model, objective, facts
        objective.on_fit_start(facts)

    def forward(self, features: torch.Tensor, index: torch.Tensor) -> dict[str, torch.Tensor]:
        target = self.facts.observed.target(index.cpu()).to(features.device)
        self.last = Outputs(self.model(features), features), Batch(target, index)
        return {"loss": sum(self.objective(*self.last).values()), "logits": self.last[0].logits}


class Hooks(TrainerCallback):
    """Calls the hooks of the objective."""

    def __init__(self, features: torch.Tensor):
        self.features = features

    def on_epoch_begin(self, args, state, control, model, **rest):
        model.objective.on_epoch_start(progress(args, state))

    @torch.no_grad()
    def on_step_end(self, args, state, control, model, **rest):
        model.objective.after_step(*model.last)

    @torch.no_grad()
    def on_epoch_end(self, args, state, control, model, **rest):
        epoch, objective = progress(args, state, ended=1), model.objective
        objective.on_epoch_end(epoch, lambda: model.model(self.features.to(args.device)))
        count = int((objective.memory.labels.inferred >= 0).sum())
        print(f"epoch {epoch.epoch + 1}: {count:,} pseudo-negatives")


def progress(args, state, ended=0) -> Progress:
    """Number of the epoch; the Trainer counts those that have ended."""
    return Progress(round(state.epoch) - ended, int(args.num_train_epochs))


class Samples(Dataset):
    """Features, and the positions of the samples in the training set."""

    def __init__(self, features: torch.Tensor):
        self.features = features

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"features": self.features[index], "index": torch.tensor(index)}


def main() -> WithObjective:
    """Train EM+APL on random data with one observed label per sample."""
    torch.manual_seed(0)
    observed = ObservedLabels.from_index(torch.randint(CLASSES, (SAMPLES,)), CLASSES)
    features = torch.randn(CLASSES, WIDTH)[observed.target(range(SAMPLES))] + torch.randn(SAMPLES, WIDTH)
    names = tuple(f"sample {row}" for row in range(SAMPLES)), tuple(f"class {c}" for c in range(CLASSES))
    objective = create("em_apl", {"warmup": 2})
    model = WithObjective(torch.nn.Linear(WIDTH, CLASSES), objective, Facts(observed, *names))
    with tempfile.TemporaryDirectory() as folder:
        settings = TrainingArguments(
            folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=64,
            learning_rate=0.01,
            use_cpu=True,
            save_strategy="no",
            logging_strategy="no",
            report_to=[],
            disable_tqdm=True,
            remove_unused_columns=False,
        )
        Trainer(model, settings, train_dataset=Samples(features), callbacks=[Hooks(features)]).train()
    return model


if __name__ == "__main__":
    main()
