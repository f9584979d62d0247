"""Measure what local evidence is worth: windows of the feature map, of which the highest score counts.

    python benchmarks/local.py maps DATA FOLDER     # feature maps of the photographs, by both backbones
    python benchmarks/local.py heads DATA FOLDER    # heads on whole images and on windows, after `maps`
    python benchmarks/local.py runs DATA FOLDER     # `spml train` as it comes

DATA holds `images/voc2012_animals` and `models`. The maps take 1.2 GB in FOLDER as float16. One known label
is drawn of each photograph, uniformly; the true labels of the test split judge, and nothing else uses them
but the rows of full labels. Each command puts its part into results/local.json, and writes results/local.md.
What no command makes is of earlier forms: runs `before` windows, scores that were weighed, other ways to take
the best windows, and the time and memory of prediction. What `spml train` does is the mean of the sizes.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from shared import load_results, markdown, read_photographs, save_results, table, today
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
PHOTOGRAPHS = "images/voc2012_animals"
K, SEEDS, RUN_SEEDS = 1.4, range(5), range(3)
EVALUATION = """
import json, sys, spml
run, told = spml.load(sys.argv[1]), {"separator": " ", "unlisted": "negative", "workers": 2}
print(json.dumps(run.evaluate(sys.argv[2], **told), default=float))
"""


@torch.inference_mode()
def write_maps(data, folder):
    """Write the last feature maps of all photographs, float16 (N, D, h, w), for each backbone."""
    files = read_photographs(Path(data, PHOTOGRAPHS))[0]
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
        _, self.truth, split, self.classes = read_photographs(Path(data, PHOTOGRAPHS))
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
    def variants(self, score, rows):
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
                found.append(scores.amax(1))
            parts.append(variants(score(torch.from_numpy(self.features[chosen])), found))
        return torch.cat(parts, 1)

    def test_map(self, scores):
        """Test mAP in percent."""
        truth = np.where(self.truth[self.test], 1, -1).astype(np.int8)
        return round(100 * mean_average_precision(np.asarray(scores, np.float32), truth), 2)


def solve(photos, *, cross_validate=True, windows=True, scaling=None):
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
    found, usual = {}, solve(photos, cross_validate=False, windows=False).head
    with torch.inference_mode():
        found["auto head, whole"] = photos.test_map(usual(torch.from_numpy(photos.features[photos.test])))
    tested = photos.variants(solve(photos).head, photos.test)
    found["head for windows, whole"] = photos.test_map(tested[0])
    for side, each in zip(photos.windows.sides, tested[1:-1], strict=True):
        found[f"windows of {side}"] = photos.test_map(each)
    found["mean of the sizes"] = photos.test_map(tested[-1])
    for scaling in ("sqrtl2", "standard"):
        head = solve(photos, scaling=scaling).head
        for number, member in enumerate(head.settings.members):
            tested = photos.variants(
                lambda rows, head=head, number=number: head.member_scores(rows)[number], photos.test
            )
            found[f"{member.head} on {scaling}, whole"] = photos.test_map(tested[0])
            found[f"{member.head} on {scaling}, mean of the sizes"] = photos.test_map(tested[-1])
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


# -- whole runs ------------------------------------------------------------------------------------------


def measure_runs(data, folder):
    """`spml train` with nothing stated but the weights and K; saved row by row."""
    rows, listed = load_results("local")["runs"], f"{data}/{PHOTOGRAPHS}/labels.csv"
    rows = [row for row in rows if row["version"] != "now"]
    for seed, (name, (_, weights, _, _)) in itertools.product(RUN_SEEDS, BACKBONES.items()):
        output = f"{folder}/runs/{weights}-{seed}"
        command = [
            sys.executable, "-m", "spml", "train", listed,
            "--weights", f"{data}/models/{weights}.safetensors", "--mean_labels", str(K),
            "--data.separator", " ", "--data.unlisted", "negative",
            "--data.observe", "single", "--data.observe_seed", str(seed), "--seed", str(seed),
            "--data.cache", f"{folder}/features", "--output", output, "--overwrite",
        ]  # fmt: skip
        started = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        seconds = round(time.perf_counter() - started, 1)
        command = [sys.executable, "-c", EVALUATION, output, listed]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        evaluated = json.loads(told.splitlines()[-1])
        kept = {f"{mean} F1": evaluated["thresholded"][mean]["f1"] for mean in ("micro", "macro")}
        rows.append({"backbone": name, "seed": seed, "version": "now", "seconds": seconds})
        rows[-1] |= {"mAP": evaluated["mAP"], **kept}
        print(json.dumps(rows[-1]), flush=True)
        save("runs", rows)


# -- results ---------------------------------------------------------------------------------------------


def save(part, value):
    """Put a part of the results into the file, and write the page."""
    found, about = load_results("local"), today()
    others = found.setdefault("other machines", {})
    others.pop(part, None)
    if found.setdefault("machine", about["machine"]) == about["machine"]:  # it stands above all parts
        found |= about
    else:
        others[part] = about
    found[part] = value
    save_results("local", found, page(found))


def page(found):
    """The results as a page."""
    tables = {name: found[f"heads, {name}"] for name in BACKBONES}
    heads, runs = [], []
    for key in dict.fromkeys(key for rows in tables.values() for row in rows for key in row):
        cells = []
        for rows in tables.values():
            values = [row[key] for row in rows if key in row]
            cells.append(f"{np.mean(values):.1f}" if values else "-")
            if len(values) > 1:
                cells[-1] += f" ({np.std(values, ddof=1):.1f})"
        heads.append((key, *cells))
    for name, version in itertools.product(BACKBONES, ("before", "now")):
        rows = [row for row in found["runs"] if (row["backbone"], row["version"]) == (name, version)]
        shares = [
            f"{100 * np.mean([row[key] for row in rows]):.1f}" for key in ("mAP", "micro F1", "macro F1")
        ]
        seconds = np.mean([row["seconds"] for row in rows])
        runs.append((name, version, len(rows), *shares, f"{seconds:.0f}"))
    times = found["speed"].values()
    speed = [(way, *(f"{each[way]:g}" for each in times)) for way in next(iter(times))]
    for way in ("torch", "ONNX"):
        ratios = [each[f"{way}, windows"] / each[f"{way}, whole"] for each in times]
        speed.append((f"{way}, windows / whole", *(f"{ratio:.2f}" for ratio in ratios)))
    return markdown(
        f"{found['date']}, {found['machine']}, 2 cores, torch {found['versions']['torch']}. "
        "`python benchmarks/local.py`.",
        "100 x test mAP on 3,576 photographs of animals (13 classes) with one known label each, mean over "
        "seeds of the known label, with the deviation between them. `whole`: the whole photograph; `windows "
        "of n`: the best window of n x n positions of the feature map; `mean of the sizes`: mean of these; "
        "`weighed variants`: these and the whole photograph, weighed by their SP-scores, which `spml train` "
        "did until 2026-11-29; `as spml train scores`: what it does since, the mean of the sizes here.",
        table(("", *tables), heads),
        "`spml train labels.csv --weights FILE --mean_labels 1.4` and nothing else, features kept from "
        "an earlier run; seconds of the command.",
        table(("backbone", "version", "seeds", "mAP", "micro F1", "macro F1", "seconds"), runs),
        "Seconds of a batch through backbone and head (64 photographs in torch, 8 in onnxruntime), "
        "median of 15 turns, and the largest memory of `spml predict` on 500 photographs. "
        "{date}, {machine}.".format_map({**found, **found["other machines"].get("speed", {})}),
        table(("", *found["speed"]), speed),
    )


def main(part, data, folder):
    """Run the part that is named."""
    torch.set_num_threads(2)
    if part == "maps":
        write_maps(data, folder)
    elif part == "runs":
        measure_runs(data, folder)
    else:
        for name in BACKBONES:
            found = []
            for seed in SEEDS:
                photos = Photographs(data, folder, name, seed)
                found.append(measure_heads(photos))
                if seed == SEEDS[0]:  # full labels do not depend on the seed
                    found[-1] |= measure_full_labels(photos)
                print(name, seed, json.dumps(found[-1]), flush=True)
            save(f"{part}, {name}", found)


if __name__ == "__main__":
    main(*sys.argv[1:])
