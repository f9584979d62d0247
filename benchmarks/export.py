"""Compare exported models with `predict`: their numbers, mAP, speed and size.

    python benchmarks/export.py VOC2012_ANIMALS WEIGHTS WORK_FOLDER

VOC2012_ANIMALS is a folder with `labels.csv`, WEIGHTS the .safetensors file of a MobileNetV2 (timm's
`mobilenetv2_100`) whose batch normalisation can be trained. One label per photograph is observed. Three
models are trained in WORK_FOLDER, unless they are there: the auto head and an MLP head on the frozen network,
and a fine-tuned network with a linear head, one epoch each where epochs are trained.

Numbers: the first 500 test photographs, decoded, one at a time through the ONNX file, against `Run.predict`
of their files; and, for comparison, `Run.predict` in batches of 64 against one at a time. mAP: all test
photographs, whose true labels nothing else has seen; of the first model also with int8 in depthwise
convolutions, which an export leaves out. Memory: a photograph of 12 megapixels in a process of its own.

Speed: one thread on each side. The two sides take turns, batch by batch, and the ratio is the median over
these pairs, so that other load on the machine matters little. `prepared`: images of the size of the network.
`decoded`: photographs as they were decoded; torch's side resizes them with Pillow. A batch has photographs
of one size.

Writes benchmarks/results/export.json and export.md.
"""

from __future__ import annotations

import csv
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from unittest import mock

import numpy as np
import onnxruntime
import PIL
import torch
from PIL import Image
from shared import save_results, table_row, today

import spml
from spml.export.formats import onnx_file
from spml.metrics import mean_average_precision

VARIANTS = ("float32", "float16", "int8")
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


def test_photographs(photos, classes):
    """Paths of the test photographs, and their labels, int8 (N, C)."""
    with open(photos / "labels.csv", newline="") as stream:
        rows = [row for row in csv.DictReader(stream) if row["split"] == "test"]
    truth = np.full((len(rows), len(classes)), -1, np.int8)
    for row, record in enumerate(rows):
        truth[row, [classes.index(name) for name in record["labels"].split()]] = 1
    return [photos / row["file"] for row in rows], truth


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
    files = [str(path) for path in paths]
    predicted = run.predict(files, workers=0, cache="none")
    alone = run.predict(files, workers=0, cache="none", batch_size=1)
    prepared = torch.stack([run.transform(Image.fromarray(image)) for image in decoded])
    with torch.inference_mode():
        expected = np.concatenate([run.model(part).numpy() for part in prepared.split(64)])
        singly = np.concatenate([run.model(part).numpy() for part in prepared.split(1)])
    named = [{run.classes[column] for column in np.flatnonzero(row)} for row in labels]
    return {
        "logits": float(np.abs(logits - expected).max()),
        "scores": float(np.abs(scores - predicted.scores).max()),
        "probabilities": float(np.abs(probabilities - predicted.probabilities).max()),
        "photographs with other labels": sum(
            own != set(other) for own, other in zip(named, predicted.labels, strict=True)
        ),
        "predict itself": {
            "logits": float(np.abs(singly - expected).max()),
            "scores": float(np.abs(alone.scores - predicted.scores).max()),
            "probabilities": float(np.abs(alone.probabilities - predicted.probabilities).max()),
            "photographs with other labels": sum(
                own != other for own, other in zip(alone.labels, predicted.labels, strict=True)
            ),
        },
    }


def with_depthwise_int8(run, prepared, truth):
    """mAP if all convolutions are quantised, in percent."""
    with mock.patch.object(onnx_file, "_groups_of", return_value=1):
        path = run.export(run.folder / "export" / "all-int8.onnx", variant="int8", overwrite=True)
    return mean_ap(session_of(path), prepared, truth)


def large_photograph(run):
    """Seconds and further peak memory for a photograph of 12 megapixels."""
    program = (
        "import json, resource, sys, time; import numpy as np; from export import session_of\n"
        "session, peak = session_of(sys.argv[1]), []\n"
        "for shape in ((224, 224), (3000, 4000)):\n"
        "    image = np.random.default_rng(0).integers(0, 256, (1, *shape, 3), np.uint8)\n"
        "    start = time.perf_counter(); session.run(None, {'images': image})\n"
        "    seconds = time.perf_counter() - start\n"
        "    peak.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)\n"
        "print(json.dumps({'seconds': round(seconds, 2), 'megabytes': round(peak[1] - peak[0])}))"
    )
    command = [sys.executable, "-c", program, str(run.folder / "export" / "model.onnx")]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd=Path(__file__).parent)
    return json.loads(done.stdout)


def mean_ap(session, prepared, truth):
    """mAP of the logits on prepared images, in percent."""
    parts = [
        session.run(["logits"], {"images": prepared[start : start + 32]})[0]
        for start in range(0, len(prepared), 32)
    ]
    return 100 * mean_average_precision(np.concatenate(parts), truth, "zero")


def seconds(function):
    """Wall time of a call."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


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
            pair[side] = seconds(lambda function=function, batch=batch: function(batch))
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
    files = {variant: run.export(variant=variant, overwrite=True) for variant in VARIANTS}
    sessions = {variant: session_of(path) for variant, path in files.items()}
    prepared = np.stack([run.transform(Image.fromarray(image)).permute(1, 2, 0) for image in decoded])
    result = {
        "differences": differences(run, sessions["float32"], paths[:COMPARED], decoded[:COMPARED]),
        "megabytes": {variant: round(path.stat().st_size / 1e6, 1) for variant, path in files.items()},
        "mAP": {variant: round(mean_ap(sessions[variant], prepared, truth), 2) for variant in VARIANTS},
        "speed": speeds(run, sessions["float32"], decoded),
    }
    ready = [prepared[start : start + 32] for start in range(0, 64, 32)]
    sides = {
        variant: (lambda batch, session=session: session.run(None, {"images": batch}))
        for variant, session in sessions.items()
    }
    result["variants"] = {
        variant: pairs(sides["float32"], sides[variant], ready)["ratio"] for variant in VARIANTS[1:]
    }
    return result


def page(results):
    """The results as Markdown."""
    lines = [
        "# Exported models",
        "",
        f"`python benchmarks/export.py`, {results['date']}, {results['machine']}, "
        f"{results['versions']['machine']}, one thread; torch {results['versions']['torch']}, onnxruntime "
        f"{results['versions']['onnxruntime']}, Pillow {results['versions']['pillow']}. MobileNetV2 at 224 "
        "pixels, trained on one label per photograph. Ratios of speeds are medians over pairs that took "
        "turns, so they are more reliable than images per second.",
        "",
        f"## Largest difference from `predict` on {COMPARED} photographs, float32",
        "",
        "| model | logits | scores | probabilities | photographs with other labels |",
        "|---|---:|---:|---:|---:|",
    ]
    for title, result in results["models"].items():
        rows = {title: result["differences"]}
        rows["`predict` itself, batches of 64 against 1"] = result["differences"]["predict itself"]
        for name, found in rows.items():
            numbers = " | ".join(f"{found[key]:.1e}" for key in ("logits", "scores", "probabilities"))
            lines.append(f"| {name} | {numbers} | {found['photographs with other labels']} |")
    lines += ["", f"## mAP on {results['test']} test photographs, all labels known, and size", ""]
    lines += [
        "| model | float32 | float16 | int8 | MB: float32 | float16 | int8 |",
        "|---" + "|---:" * 6 + "|",
    ]
    for title, result in results["models"].items():
        scores = " | ".join(f"{result['mAP'][variant]:.2f}" for variant in VARIANTS)
        sizes = " | ".join(f"{result['megabytes'][variant]:.1f}" for variant in VARIANTS)
        lines.append(f"| {title} | {scores} | {sizes} |")
    large = results["large"]
    lines += [
        "",
        f"The auto head with int8 in depthwise convolutions, too: {results['depthwise int8']:.2f} mAP. A "
        f"photograph of 12 megapixels takes {large['seconds']:.2f} s and {large['megabytes']} MB more than "
        "one of the size of the network (auto head, float32).",
    ]
    lines += ["", "## Images per second, float32: torch, onnxruntime, and how many times as fast it is", ""]
    columns = list(next(iter(results["models"].values()))["speed"])
    lines += [f"| model | {' | '.join(columns)} |", f"|---{'|---:' * len(columns)}|"]
    for title, result in results["models"].items():
        cells = [
            f"{cell['torch']:.0f}, {cell['onnxruntime']:.0f} ({cell['ratio']:.2f})"
            for cell in result["speed"].values()
        ]
        lines.append(table_row(title, *cells))
    lines += ["", "## Speed of the variants as multiples of float32, prepared, batches of 32", ""]
    lines += ["| model | float16 | int8 |", "|---|---:|---:|"]
    for title, result in results["models"].items():
        lines.append(f"| {title} | {' | '.join(f'{ratio:.2f}' for ratio in result['variants'].values())} |")
    return "\n".join(lines) + "\n"


def main():
    """Train, export, measure and write."""
    photos, weights, work = (Path(path).absolute() for path in sys.argv[1:4])
    torch.set_num_threads(1)
    runs = trained(photos, weights, work)
    paths, truth = test_photographs(photos, list(next(iter(runs.values())).classes))
    decoded = [np.asarray(Image.open(path).convert("RGB")) for path in paths]
    results = {
        **today(onnxruntime=onnxruntime.__version__, pillow=PIL.__version__),
        "test": len(paths),
        "models": {},
    }
    for title, run in runs.items():
        results["models"][title] = measure(run, paths, truth, decoded)
        print(title, json.dumps(results["models"][title]), flush=True)
    first = next(iter(runs.values()))
    prepared = np.stack([first.transform(Image.fromarray(image)).permute(1, 2, 0) for image in decoded])
    results["depthwise int8"] = round(with_depthwise_int8(first, prepared, truth), 2)
    results["large"] = large_photograph(first)
    save_results("export", results, page(results))


if __name__ == "__main__":
    main()
