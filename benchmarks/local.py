"""Measure what local evidence is worth: windows of the feature map, of which the highest score counts.

    python benchmarks/local.py maps DATA FOLDER          # feature maps of the photographs, by both backbones
    python benchmarks/local.py heads DATA FOLDER         # heads on whole images and on windows, ablations
    python benchmarks/local_runs.py runs DATA FOLDER [SRC]   # `spml train`, and more: see there
    python benchmarks/local_page.py                      # writes results/local.md

DATA holds `images/voc2012_animals` and `models`. The maps take 1.2 GB in FOLDER as float16. One known label
is drawn of each photograph, uniformly; the true labels of the test split judge, and nothing else uses them
but the rows of full labels. Results go to results/local.json.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from shared import load_results, save_results, today
from sklearn.linear_model import LogisticRegression

from spml import models
from spml.data.dataset import Samples
from spml.data.matrix import FeatureMatrix
from spml.labels import ObservedLabels
from spml.metrics import mean_average_precision, sp_score
from spml.models.local import Windows, variants
from spml.models.scaling import make_scaling
from spml.models.solved import auto

BACKBONES = {
    "MobileNetV2, 224": ("mobilenetv2_100", "mobilenetv2_100_tf_bncal", 224, {"pad_type": "same"}),
    "EfficientNet-Lite2, 260": ("tf_efficientnet_lite2", "efficientnet_lite2", 260, {}),
}
K, SEEDS = 1.4, range(5)


def read_photographs(data):
    """Files, true labels (N, C) and split of the photographs, and the class names."""
    folder = Path(data) / "images" / "voc2012_animals"
    with open(folder / "labels.csv", newline="") as stream:
        rows = list(csv.DictReader(stream))
    classes = (folder / "classes.txt").read_text().split()
    truth = np.array([[name in row["labels"].split() for name in classes] for row in rows])
    return [folder / row["file"] for row in rows], truth, np.array([row["split"] for row in rows]), classes


@torch.inference_mode()
def write_maps(data, folder):
    """Write the last feature maps of all photographs, float16 (N, D, h, w), for each backbone."""
    files = read_photographs(data)[0]
    for name, (architecture, weights, size, options) in BACKBONES.items():
        network = timm.create_model(architecture, pretrained=False, **options)
        network.load_state_dict(load_file(Path(data) / "models" / f"{weights}.safetensors"))
        network.eval().to(memory_format=torch.channels_last)
        maps = None
        for start in range(0, len(files), 64):
            images = [
                np.asarray(Image.open(file).convert("RGB").resize((size, size), Image.Resampling.BILINEAR))
                for file in files[start : start + 64]
            ]
            pixels = torch.from_numpy(np.stack(images)).permute(0, 3, 1, 2).float() / 127.5 - 1
            found = network.forward_features(pixels)
            if maps is None:
                shape = (len(files), *found.shape[1:])
                maps = np.lib.format.open_memmap(Path(folder) / f"{weights}.npy", "w+", np.float16, shape)
            maps[start : start + len(found)] = found.half().numpy()
        print(name, shape, flush=True)


class Photographs:
    """Maps of the photographs by a backbone, and one known label each."""

    def __init__(self, data, folder, backbone, seed):
        _, self.truth, split, self.classes = read_photographs(data)
        self.maps = np.load(Path(folder) / f"{BACKBONES[backbone][1]}.npy", mmap_mode="r")
        self.features = np.stack([np.asarray(each, np.float32).mean((1, 2)) for each in self.maps])
        self.windows = Windows.of_map(*self.maps.shape[2:])
        generator = np.random.default_rng(seed)
        self.observed = np.array([generator.choice(np.flatnonzero(row)) for row in self.truth])
        self.train, self.val, self.test = (np.flatnonzero(split == name) for name in ("train", "val", "test"))
        self.labelled = np.concatenate([self.train, self.val])

    def samples(self, rows):
        """Features and known labels of some photographs."""
        labels = ObservedLabels.from_index(self.observed[rows], len(self.classes))
        return Samples(tuple(map(str, rows)), FeatureMatrix(self.features[rows]), labels)

    def score(self, scores, rows):
        """SP-score on labelled photographs."""
        known = np.zeros((len(rows), len(self.classes)), np.int8)
        known[np.arange(len(rows)), self.observed[rows]] = 1
        return sp_score(np.asarray(scores, np.float32), known, K).score

    @torch.inference_mode()
    def variants(self, score, rows, best=lambda each: each.amax(1)):
        """Scores (V, n, C) of whole images, their best windows, and the mean over sizes."""
        parts = []
        for start in range(0, len(rows), 64):
            chosen = rows[start : start + 64]
            maps = torch.from_numpy(np.asarray(self.maps[chosen])).float()
            found = []
            for side in self.windows.sides:
                means = (
                    torch.nn.functional.avg_pool2d(maps, side, self.windows.step).flatten(2).transpose(1, 2)
                )
                scores = score(means.flatten(0, 1)).view(len(chosen), -1, len(self.classes))
                found.append(best(scores))
            parts.append(variants(score(torch.from_numpy(self.features[chosen])), found))
        return torch.cat(parts, 1)

    def test_map(self, scores):
        """Test mAP in percent."""
        truth = np.where(self.truth[self.test], 1, -1).astype(np.int8)
        return round(100 * mean_average_precision(np.asarray(scores, np.float32), truth), 2)

    def local(self, held, rows, tested):
        """Test mAP of what `fit_local` makes of held-out scores of some photographs, and weights."""
        known = torch.zeros(held.shape[1:], dtype=torch.bool)
        known[torch.arange(len(rows)), torch.from_numpy(self.observed[rows])] = True
        score = lambda scores: self.score(scores.numpy(), rows)  # noqa: E731
        fit = models.fit_local(held, known, self.windows, score, mean_labels=K)
        if fit.scores is None:
            return self.test_map(tested[0])
        with torch.inference_mode():
            return self.test_map(fit.scores(tested).numpy())


def solve(photos, cross_validate, *, windows=True, scaling=None):
    """The auto head, or that for windows on a scaling of features."""

    def score(scores, rows, columns):
        del columns
        return photos.score(scores, photos.labelled[rows])

    train, val = photos.samples(photos.train), photos.samples(photos.val)
    usual = auto._scaling_for_windows
    auto._scaling_for_windows = (lambda *_: scaling) if scaling else usual
    try:
        return models.fit_auto(
            train, val, score, cross_validate=cross_validate, mean_labels=K, windows=windows
        )
    finally:
        auto._scaling_for_windows = usual


def measure_heads(photos):
    """Test mAP of heads in closed form, on whole photographs and on windows."""
    found = {}
    usual = solve(photos, False, windows=False).head
    with torch.inference_mode():
        found["auto head, whole"] = photos.test_map(usual(torch.from_numpy(photos.features[photos.test])))
    for name, cross_validate in (("", True), (", decided by validation alone", False)):
        solved = solve(photos, cross_validate)
        held = np.concatenate([photos.labelled[rows] for rows, _ in solved.parts])
        scored = [photos.variants(head, photos.labelled[rows]) for rows, head in solved.parts]
        tested = photos.variants(solved.head, photos.test)
        found[f"as `spml train` scores{name}"] = photos.local(torch.cat(scored, 1), held, tested)
        if cross_validate:
            found["head for windows, whole"] = photos.test_map(tested[0])
            for side, each in zip(photos.windows.sides, tested[1:-1], strict=True):
                found[f"windows of {side}"] = photos.test_map(each)
            found["mean of the sizes"] = photos.test_map(tested[-1])
            three = photos.variants(solved.head, photos.test, lambda each: each.topk(3, 1)[0].mean(1))
            found["mean of the sizes, mean of the best 3 windows"] = photos.test_map(three[-1])
            smooth = photos.variants(solved.head, photos.test, lambda each: each.logsumexp(1))
            found["mean of the sizes, log-sum-exp of the windows"] = photos.test_map(smooth[-1])
    share = np.bincount(photos.observed[photos.labelled], minlength=len(photos.classes)) / len(
        photos.labelled
    )
    prior = torch.from_numpy(np.log(share)).float()
    for scaling in ("sqrtl2", "standard"):
        head = solve(photos, True, scaling=scaling).head
        for number, member in enumerate(head.settings.members):
            scores = {"": lambda rows, head=head, number=number: head.member_scores(rows)[number]}
            if member.head == models.LDA and scaling == "sqrtl2":
                scores[" without the prior"] = lambda rows, head=head, number=number: torch.log_softmax(
                    head.member_scores(rows)[number] - prior, 1
                )
            for what, score in scores.items():
                tested = photos.variants(score, photos.test)
                name = f"{member.head} on {scaling}{what}"
                found[f"{name}, whole"] = photos.test_map(tested[0])
                found[f"{name}, mean of the sizes"] = photos.test_map(tested[-1])
    return found


def measure_full_labels(photos):
    """Test mAP of logistic regression on full labels, on whole photographs and on windows."""
    scaling = make_scaling("sqrtl2", photos.features.shape[1])
    with torch.inference_mode():
        features = scaling(torch.from_numpy(photos.features)).numpy()
    best = None
    for strength in (10.0, 100.0, 1000.0):
        layer = torch.nn.Linear(features.shape[1], len(photos.classes))
        with torch.no_grad():
            for column in range(len(photos.classes)):
                model = LogisticRegression(C=strength, max_iter=1000)
                model.fit(features[photos.labelled], photos.truth[photos.labelled, column])
                layer.weight[column] = torch.from_numpy(model.coef_[0])
                layer.bias[column] = float(model.intercept_[0])

        def score(rows, layer=layer):
            return torch.nn.functional.logsigmoid(layer(scaling(rows)))

        tested = photos.variants(score, photos.test)
        found = photos.test_map(tested[0]), photos.test_map(tested[-1])
        best = max(best or found, found)
    return {"full labels, whole": best[0], "full labels, mean of the sizes": best[1]}


def save(part, value):
    """Put a part of the results into the file."""
    found, about = load_results("local"), today()
    others = found.setdefault("other machines", {})
    others.pop(part, None)
    if found.setdefault("machine", about["machine"]) == about["machine"]:  # it stands above all parts
        found |= about
    else:
        others[part] = about
    found[part] = value
    save_results("local", found)


def main(words):
    """Run the part that is named."""
    what, *rest = words
    if what == "maps":
        write_maps(*rest)
    elif what == "heads":
        data, folder = rest
        for name in BACKBONES:
            found = []
            for seed in SEEDS:
                photos = Photographs(data, folder, name, seed)
                found.append(measure_heads(photos))
                if seed == SEEDS[0]:  # full labels do not depend on the seed
                    found[-1] |= measure_full_labels(photos)
                print(name, seed, json.dumps(found[-1]), flush=True)
            save(f"{what}, {name}", found)


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(sys.argv[1:])
