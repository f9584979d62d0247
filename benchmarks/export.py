"""Compare exported models with `predict`: their numbers, mAP, speed and size.

    python benchmarks/export.py VOC2012_ANIMALS WEIGHTS WORK_FOLDER

VOC2012_ANIMALS is a folder with `labels.csv`, WEIGHTS the .safetensors file of a MobileNetV2 (timm's
`mobilenetv2_100`) whose batch normalisation can be trained. One label per photograph is observed. Three
models are trained in WORK_FOLDER, unless they are there: the auto head and an MLP head on the frozen network,
and a fine-tuned network with a linear head, one epoch each where epochs are trained.

Numbers: the first 500 test photographs, decoded, one at a time through the ONNX file, against `Run.predict`
of their files. mAP: all test photographs, whose true labels nothing else has seen.

Speed: one thread on each side. The two sides take turns, batch by batch, and the ratio is the median over
these pairs, so that other load on the machine matters little. `prepared`: images of the size of the network.
`decoded`: photographs as they were decoded; torch's side resizes them with Pillow. A batch has photographs
of one size.

Writes benchmarks/results/export.json and export.md.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import onnxruntime
import PIL
import torch
from PIL import Image
from shared import markdown, read_photographs, save_results, table, timed, today

import spml
from spml.metrics import mean_average_precision

COMPARED, PAIRS, SECONDS = 500, 40, 8
TRAINED = {
    "auto head, frozen network": {"method": "auto", "frozen": "yes"},
    "MLP head, frozen network": {"method": "an", "frozen": "yes", "head": "mlp", "epochs": 10},
    "linear head, fine-tuned": {"method": "an", "frozen": "no", "epochs": 1},
}


def trained(photos, weights, work):
    """The three runs, each by its title."""
    runs = {}
    for number, (title, settings) in enumerate(TRAINED.items()):
        folder = work / f"run{number}"
        if not (folder / "summary.json").exists():
            spml.train(
                str(photos / "labels.csv"),
                data={"separator": " ", "unlisted": "negative", "observe": "single", "workers": 0},
                weights=str(weights),
                mean_labels=1.4,
                threads=1,
                quiet=True,
                output=str(folder),
                **settings,
            )
        runs[title] = spml.load(folder)
    return runs


def session_of(path):
    """A session of onnxruntime with one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def differences(run, session, paths, decoded):
    """Largest differences from `predict`, and photographs with other labels."""
    names = ["scores", "probabilities", "logits", "labels"]
    parts = [session.run(names, {"images": image[None]}) for image in decoded]
    scores, probabilities, logits, labels = (np.concatenate(values) for values in zip(*parts, strict=True))
    predicted = run.predict([str(path) for path in paths], workers=0, cache="none")
    prepared = torch.stack([run.transform(Image.fromarray(image)) for image in decoded])
    with torch.inference_mode():
        expected = np.concatenate([run.model(part).numpy() for part in prepared.split(64)])
    named = [{run.classes[column] for column in np.flatnonzero(row)} for row in labels]
    return {
        "logits": float(np.abs(logits - expected).max()),
        "scores": float(np.abs(scores - predicted.scores).max()),
        "probabilities": float(np.abs(probabilities - predicted.probabilities).max()),
        "photographs with other labels": sum(
            own != set(other) for own, other in zip(named, predicted.labels, strict=True)
        ),
    }


def mean_ap(session, prepared, truth):
    """mAP of the logits on prepared images, in percent."""
    parts = [
        session.run(["logits"], {"images": prepared[start : start + 32]})[0]
        for start in range(0, len(prepared), 32)
    ]
    return 100 * mean_average_precision(np.concatenate(parts), truth, "zero")


def pairs(torch_side, onnx_side, batches):
    """Images per second of both sides, and the ratio of their times: medians over pairs."""
    times, started = [], time.perf_counter()
    for turn in range(PAIRS):
        batch = batches[turn % len(batches)]
        if turn == 0:  # the first call of each side allocates memory
            torch_side(batch)
            onnx_side(batch)
        sides = [(0, torch_side), (1, onnx_side)]
        pair = [0.0, 0.0]
        for side, function in sides if turn % 2 else sides[::-1]:
            pair[side] = timed(lambda function=function, batch=batch: function(batch))
        times.append(pair)
        if time.perf_counter() - started > SECONDS:
            break
    size = len(batches[0])
    return {
        "torch": round(size / statistics.median(pair[0] for pair in times), 1),
        "onnxruntime": round(size / statistics.median(pair[1] for pair in times), 1),
        "ratio": round(statistics.median(pair[0] / pair[1] for pair in times), 2),
        "pairs": len(times),
    }


def of_one_size(decoded, size):
    """Batches of photographs of the most frequent size, and single photographs."""
    if size == 1:
        return [image[None] for image in decoded[:PAIRS]]
    groups = defaultdict(list)
    for image in decoded:
        groups[image.shape].append(image)
    largest = max(groups.values(), key=len)
    return [np.stack(largest[start : start + size]) for start in range(0, len(largest) - size + 1, size)]


def speeds(run, session, decoded):
    """Speed of both sides on prepared and on decoded images, in batches of 1 and 32."""

    @torch.inference_mode()
    def network(batch):
        run.model(torch.from_numpy(batch).permute(0, 3, 1, 2))

    @torch.inference_mode()
    def with_pillow(batch):
        run.model(torch.stack([run.transform(Image.fromarray(image)) for image in batch]))

    def graph(batch):
        session.run(None, {"images": batch})

    prepared = np.stack([run.transform(Image.fromarray(image)).permute(1, 2, 0) for image in decoded[:64]])
    found = {}
    for size in (1, 32):
        ready = [prepared[start : start + size] for start in range(0, len(prepared) - size + 1, size)]
        found[f"prepared, {size}"] = pairs(network, graph, ready)
        found[f"decoded, {size}"] = pairs(with_pillow, graph, of_one_size(decoded, size))
    return found


def measure(run, paths, truth, decoded):
    """Everything about one run."""
    session = session_of(run.export(overwrite=True))
    prepared = np.stack([run.transform(Image.fromarray(image)).permute(1, 2, 0) for image in decoded])
    return {
        "differences": differences(run, session, paths[:COMPARED], decoded[:COMPARED]),
        "megabytes": round((run.folder / "export" / "model.onnx").stat().st_size / 1e6, 1),
        "mAP": round(mean_ap(session, prepared, truth), 2),
        "speed": speeds(run, session, decoded),
    }


def page(results):
    """The results as Markdown."""
    models, keys = results["models"], ("logits", "scores", "probabilities")
    columns = list(next(iter(models.values()))["speed"])
    different, sizes, speed = [], [], []
    for title, result in models.items():
        found = result["differences"]
        cells = [f"{found[key]:.1e}" for key in keys]
        different.append((title, *cells, found["photographs with other labels"]))
        sizes.append((title, f"{result['mAP']:.2f}", f"{result['megabytes']:.1f}"))
        cells = [
            f"{cell['torch']:.0f}, {cell['onnxruntime']:.0f} ({cell['ratio']:.2f})"
            for cell in result["speed"].values()
        ]
        speed.append((title, *cells))
    return markdown(
        "# Exported models",
        f"`python benchmarks/export.py`, {results['date']}, {results['machine']}, "
        f"{results['versions']['machine']}, one thread; torch {results['versions']['torch']}, onnxruntime "
        f"{results['versions']['onnxruntime']}, Pillow {results['versions']['pillow']}. MobileNetV2 at 224 "
        "pixels, trained on one label per photograph. Ratios of speeds are medians over pairs that took "
        "turns, so they are more reliable than images per second.",
        f"## Largest difference from `predict` on {COMPARED} photographs",
        table(("model", *keys, "photographs with other labels"), different, right=True),
        f"## mAP on {results['test']} test photographs, all labels known, and size",
        table(("model", "mAP", "MB"), sizes, right=True),
        "## Images per second: torch, onnxruntime, and how many times as fast it is",
        table(("model", *columns), speed, right=True),
    )


def main(*paths):
    """Train, export, measure and write."""
    photos, weights, work = (Path(path).absolute() for path in paths)
    torch.set_num_threads(1)
    runs = trained(photos, weights, work)
    files, truth, split, _ = read_photographs(photos, list(next(iter(runs.values())).classes))
    paths = [file for file, part in zip(files, split, strict=True) if part == "test"]
    truth = np.where(truth[split == "test"], 1, -1).astype(np.int8)
    decoded = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    results = {
        **today(onnxruntime=onnxruntime.__version__, pillow=PIL.__version__),
        "test": len(paths),
        "models": {},
    }
    for title, run in runs.items():
        results["models"][title] = measure(run, paths, truth, decoded)
        print(title, json.dumps(results["models"][title]), flush=True)
    save_results("export", results, page(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
