"""What fine-tuning with timm gets on photographs with one known label each, beside `spml train`.

    python benchmarks/fine_tuning.py DATA [--epochs 5]

DATA holds `images/voc2012_animals`, `images/coco18` and `models`. timm gets the photographs and weights of
the first seed of `sizes.py`, training and validation together, with its own transforms, optimiser and binary
cross-entropy in which unknown labels are negative. Nothing is selected: the last epoch counts. One thread;
seconds are of processor time. Results go to results/fine_tuning.json and .md, set after set.

Needs: pip install timm
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from shared import load_results, markdown, save_results, table, today
from sizes import MOBILE, SETS
from timm.data import create_transform
from timm.loss import BinaryCrossEntropy
from timm.optim import create_optimizer_v2
from timm.scheduler import CosineLRScheduler

from spml.config import DataConfig
from spml.data import open_dataset
from spml.metrics import mean_average_precision

NAME, SIZE, BATCH = "fine_tuning", 224, 16
LOOK = {"input_size": SIZE, "interpolation": "bilinear", "mean": (0.5,) * 3, "std": (0.5,) * 3}


class Photographs(torch.utils.data.Dataset):
    """Photographs and labels (C,) of `files` and `labels` (N, C), as `transform` makes them."""

    def __init__(self, files, labels, transform):
        self.files, self.labels, self.transform = files, labels, transform

    def __len__(self):
        return len(self.files)

    def __getitem__(self, row):
        return self.transform(Image.open(self.files[row]).convert("RGB")), self.labels[row]


def open_photographs(data, name):
    """Files and labels of the labelled photographs, one known positive each, and of the test photographs."""
    folder, _, _, separator = SETS[name]
    root = f"{data}/images/{folder}"
    given = DataConfig(path=f"{root}/labels.csv", separator=separator, unlisted="negative", observe="single")
    kept = open_dataset(given)
    files = {name: [f"{root}/{each}" for each in part.ids] for name, part in kept.splits.items()}
    known = [kept.splits[name].observed.to_ternary() > 0 for name in ("train", "val")]
    truth = kept.truth["test"].to_ternary() > 0
    return files["train"] + files["val"], np.concatenate(known), files["test"], truth


def fine_tune(model, loader, epochs):
    """timm's optimiser, schedule and loss in a loop of its documentation."""
    optimizer = create_optimizer_v2(model, opt="adamw", lr=3e-4, weight_decay=0.05)
    scheduler = CosineLRScheduler(optimizer, epochs * len(loader), warmup_t=100, t_in_epochs=False)
    loss_of, step = BinaryCrossEntropy(smoothing=0.0), 0
    model.train()
    for epoch in range(epochs):
        for images, labels in loader:
            scheduler.step_update(step)
            loss = loss_of(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
        print(f"epoch {epoch}: loss {loss.item():.4f}", flush=True)


def measure(data, name, epochs):
    """One row of the result."""
    files, known, test, truth = open_photographs(data, name)
    torch.manual_seed(0)
    started = time.process_time()
    model = timm.create_model("mobilenetv2_100", pretrained=False, pad_type="same")
    model.load_state_dict(load_file(f"{data}/models/{MOBILE}.safetensors"))
    model.reset_classifier(truth.shape[1])
    labelled = Photographs(files, known.astype(np.float32), create_transform(**LOOK, is_training=True))
    fine_tune(model, torch.utils.data.DataLoader(labelled, BATCH, shuffle=True, drop_last=True), epochs)
    others = Photographs(test, truth, create_transform(**LOOK, crop_pct=1.0))
    model.eval()
    with torch.inference_mode():
        scores = np.concatenate(
            [model(images).numpy() for images, _ in torch.utils.data.DataLoader(others, BATCH)]
        )
    average = float(mean_average_precision(scores.astype(np.float64), truth))
    return {"set": name, "epochs": epochs, "mAP": average, "seconds": time.process_time() - started}


def page(result):
    """The result as a page."""
    kept, lines = load_results("sizes"), []
    runs = [*kept["timed"], *kept["rows"]]
    for row in result["rows"]:
        for title, size in (("spml, sizes chosen", "auto"), (f"spml, {SIZE} pixels", "0")):
            ours = [each for each in runs if (each["set"], each["size"]) == (row["set"], size)]
            score = next(each["mAP"] for each in ours if each.get("mAP") and each["seed"] == 0)
            cold = [f"{each['seconds'] / 60:.0f}" for each in ours if not each["features kept"]]
            lines.append((row["set"], title, f"{100 * score:.1f}", *(cold or "-")[:1]))
        title = f"timm, {row['epochs']} epochs, {SIZE} pixels"
        lines.append((row["set"], title, f"{100 * row['mAP']:.1f}", f"{row['seconds'] / 60:.0f}"))
    return markdown(
        "# Photographs: fine-tuning",
        f"{result['date']}, {result['machine']}, timm {timm.__version__}, torch "
        f"{result['versions']['torch']}. `python benchmarks/fine_tuning.py`. 100 x test mAP on the "
        "photographs of one seed, one known label each, and the same weights; minutes of processor time of "
        "one thread (timm), or of a run on two cores that had no features kept ([spml](sizes.md)). timm "
        "trains with its own transforms, AdamW and binary cross-entropy, in which unknown labels are "
        "negative; nothing was tuned, and longer trainings were not tried.",
        table("photographs | | mAP | minutes", lines),
    )


def main():
    """Measure what is missing, and write the result."""
    parser = argparse.ArgumentParser()
    parser.add_argument("data")
    parser.add_argument("--epochs", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = load_results(NAME, rows=[])["rows"]
    for name in (each for each in SETS if "MobileNetV2" in each):
        if all(row["set"] != name for row in rows):
            rows.append(measure(options.data, name, options.epochs))
            result = {**today(), "rows": rows}
            save_results(NAME, result, page(result))


if __name__ == "__main__":
    main()
