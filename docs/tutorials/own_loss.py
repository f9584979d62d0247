# %% [markdown]
# # Tutorial: a loss of your own
#
# You have an idea for a loss, and want to know whether it is better than others. We write it as a function, train with
# it in a plain loop of PyTorch, make it a method with two more lines, and compare it with others under one protocol.
#
# The idea: treat unknown labels as absent, as *assume negative* does, but let each count less the more the model
# believes in it. With p the probability of a label, an unknown one has the loss `-(1 - p)^gamma log(1 - p)`.

# %%
import subprocess
import sys
from pathlib import Path

import torch
from torch.nn.functional import one_hot

import spml
from spml.losses import an_loss, gr_loss
from spml.metrics import mean_average_precision


def doubtful_loss(logits, target, *, gamma=1.0):
    """Assume negative with doubts.

    Args:
        logits: (B, C).
        target: Index of the known class of each sample (B,), or a matrix (B, C) of +1 (known positive),
            -1 (known negative) and 0 (unknown).
        gamma: How quickly an unknown label counts less as the model believes in it, at least 0.
    """
    if target.ndim == 1:
        target = one_hot(target, logits.shape[1])
    elements = an_loss(logits, target, reduction="none")
    doubt = (1 - logits.detach().float().sigmoid()) ** gamma  # a weight: no gradient passes through it
    elements = torch.where(target == 0, doubt * elements, elements)
    return elements.sum() / max(1, elements.numel())


# %% [markdown]
# ## In your own loop
#
# Random data with twelve classes, of which about three are there and one is known. A loss takes logits and targets,
# nothing else; the loop is yours.

# %%
random = torch.Generator().manual_seed(0)
truth = torch.rand(1500, 12, generator=random) < 0.2
truth[torch.arange(1500), torch.randint(12, (1500,), generator=random)] = True
directions = torch.randn(12, 24, generator=random)
features = truth.float() @ directions + torch.randn(1500, 24, generator=random)
known = torch.multinomial(truth.float(), 1, generator=random)[:, 0]


def train(loss_function):
    torch.manual_seed(0)
    model = torch.nn.Linear(24, 12)
    optimiser = torch.optim.AdamW(model.parameters(), lr=0.02)
    for _ in range(60):
        for rows in torch.randperm(1000).split(64):
            loss = loss_function(model(features[rows]), known[rows])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        return 100 * float(mean_average_precision(model(features[1000:]), truth[1000:]))


for loss_function in (an_loss, gr_loss, doubtful_loss):
    print(f"{loss_function.__name__:14} mAP {train(loss_function):.1f}")

# %% [markdown]
# One seed, one learning rate, random data: this says that the loss works, and not that it is good.
#
# ## As a method
#
# A method is a class with the loss in `forward`, and a card that says what it is. `check_objective` runs the suite
# that every method here passes. It found two mistakes in the first version of this loss: half precision overflowed,
# and an empty batch gave NaN.


# %%
class Doubtful(spml.Objective):
    """Assume negative with doubts.

    Args:
        gamma: How quickly an unknown label counts less as the model believes in it, at least 0.
    """

    card = spml.Card(
        title="Assume negative with doubts",
        paper="none: a tutorial",
        year=2026,
        equations="none",
        formula="L = mean over B C of [l+ on P, (1 - p)^gamma l- on U]",
    )

    def __init__(self, *, gamma: float = 1.0) -> None:
        super().__init__()
        self.gamma = gamma

    def forward(self, outputs: spml.Outputs, batch: spml.Batch) -> dict[str, torch.Tensor]:
        return {"doubtful": doubtful_loss(outputs.logits, batch.target, gamma=self.gamma)}


# %%
spml.check_objective(Doubtful)

# %% [markdown]
# ## In a file
#
# The method goes to a file, and wherever a method is named, `file.py:Class` names it. Code is imported only if the words
# of a command (or an argument in Python) name it, never because a file does.

# %%
Path("doubtful.py").write_text(In[1] + "\n\n" + In[3])  # the cells that define the loss and the method


def spml_command(*words):
    done = subprocess.run([sys.executable, "-m", "spml", *words], capture_output=True, text=True)
    print(done.stdout, done.stderr, sep="")


spml_command("methods", "doubtful.py:Doubtful")

# %% [markdown]
# ## Compared with others
#
# `spml bench` gives all candidates the same data, hidden labels, seeds and number of trials, selects each one's trial
# and epoch in the same way, and says which differences are significant. The data are scenes of handwritten digits that
# are part of the package; two seeds and two learning rates keep this short.

# %%
Path("mine.yaml").write_text("""
title: Is doubt worth anything?
data:
  digits: {path: digits, mean_labels: 2.34}
hiding:
  uniform: {observe: single}
candidates:
  - an
  - gr
  - {name: doubtful, method: "doubtful.py:Doubtful"}
  - {name: full labels, method: bce, labels: full}
baseline: an
ceiling: full labels
modes: [oracle, observed]
seeds: 2
search:
  sampler: random
  trials: 2
  space:
    optim.lr: {low: 1e-3, high: 1e-2, log: true}
train: {epochs: 3, batch_size: 64}
""")
spml_command("bench", "run", "mine.yaml", "--method", "doubtful.py:Doubtful", "--output", "bench")

# %% [markdown]
# `bench/report.html` is the page to look at; the tables on it are files, too, such as `bench/summary.csv`. The source of
# the method is a part of what identifies its runs: after an edit, the same command makes them again.
#
# Next: [compare methods](../bench.md) with more data, more seeds and a wider search; [a method with a memory or a
# schedule](../own-loop.md); [how to add a method to the package](../../CONTRIBUTING.md#add-a-method).
