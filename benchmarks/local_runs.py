"""Measure what local evidence is worth in whole runs: `spml train`, speed and memory.

    python benchmarks/local_runs.py runs DATA FOLDER [SRC]   # `spml train` as it comes; SRC = earlier code
    python benchmarks/local_runs.py speed DATA FOLDER        # time and memory of prediction, after `runs`

DATA and FOLDER are those of `local.py`, of which `speed` needs the maps. Results go to results/local.json.
"""

from __future__ import annotations

import copy
import itertools
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
import torch
from local import BACKBONES, K, Photographs, read_photographs, save, solve
from PIL import Image

import spml
from spml.runs.network import Network

RUN_SEEDS, ROUNDS, BATCH = range(3), 15, 64
EVALUATION = """
import json, sys, spml
run, told = spml.load(sys.argv[1]), {"separator": " ", "unlisted": "negative", "workers": 2}
print(json.dumps(run.evaluate(sys.argv[2], **told), default=float))
"""


def measure_runs(data, folder, source):
    """`spml train` with nothing stated but the weights and K, now and by earlier code; saved row by row."""
    versions = {"now": None, **({"before": source} if source else {})}
    cases = itertools.product(RUN_SEEDS, BACKBONES.items(), versions.items())
    rows, table = [], f"{data}/images/voc2012_animals/labels.csv"
    for seed, (name, (_, weights, _, _)), (version, path) in cases:
        output = Path(folder) / "runs" / f"{weights}-{seed}-{version}"
        command = [
            sys.executable, "-m", "spml", "train", table, "--weights", f"{data}/models/{weights}.safetensors",
            "--mean_labels", str(K), "--data.separator", " ", "--data.unlisted", "negative",
            "--data.observe", "single", "--data.observe_seed", str(seed), "--seed", str(seed),
            "--data.cache", f"{folder}/features", "--output", str(output), "--overwrite",
        ]  # fmt: skip
        code = str(path or Path(spml.__file__).parents[1])
        environment = {"PYTHONPATH": code, "PATH": "/usr/bin:/bin", "HOME": str(Path.home())}
        started = time.perf_counter()
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
        seconds = round(time.perf_counter() - started, 1)
        command = [sys.executable, "-c", EVALUATION, str(output), table]
        told = subprocess.run(command, check=True, env=environment, stdout=subprocess.PIPE, text=True)
        evaluated = json.loads(told.stdout.splitlines()[-1])
        kept = {f"{mean} F1": evaluated["thresholded"][mean]["f1"] for mean in ("micro", "macro")}
        rows.append({"backbone": name, "seed": seed, "version": version, "seconds": seconds})
        rows[-1] |= {"mAP": evaluated["mAP"], **kept}
        print(json.dumps(rows[-1]), flush=True)
        save("runs", rows)


def measure_speed(data, folder):
    """Seconds of a batch by a run, on windows and on whole photographs, in turns; memory of `spml predict`.

    The model of whole photographs has the usual auto head, solved on the same features.
    """
    files, found = read_photographs(data)[0], {}
    for name, (_, weights, _, _) in BACKBONES.items():
        run = spml.load(Path(folder) / "runs" / f"{weights}-0-now")
        pixels = torch.stack([run.transform(Image.open(file)) for file in files[:BATCH]])
        whole = copy.deepcopy(run.classifier)
        whole.top.local = None
        whole.top.set_ensemble(solve(Photographs(data, folder, name, 0), False, windows=False).head)
        sessions = {}
        for way, classifier in (("windows", run.classifier), ("whole", whole)):
            program = torch.onnx.export(
                Network(classifier).eval(), (pixels[:8],), dynamo=True, verbose=False,
                dynamic_shapes=({0: torch.export.Dim.DYNAMIC},),
            )  # fmt: skip
            program.save(f"{folder}/{way}.onnx")
            sessions[way] = onnxruntime.InferenceSession(f"{folder}/{way}.onnx")
        of_session = {session.get_inputs()[0].name: pixels[:8].numpy() for session in sessions.values()}
        ways = {
            "torch, windows": lambda network=run.classifier, pixels=pixels: network(pixels),
            "torch, whole": lambda network=whole, pixels=pixels: network(pixels),
            "ONNX, windows": lambda session=sessions["windows"], given=of_session: session.run(None, given),
            "ONNX, whole": lambda session=sessions["whole"], given=of_session: session.run(None, given),
        }
        seconds = {way: [] for way in ways}
        with torch.inference_mode():
            for _ in range(ROUNDS):
                for way, compute in ways.items():
                    started = time.perf_counter()
                    compute()
                    seconds[way].append(time.perf_counter() - started)
        found[name] = {way: round(float(np.median(each)), 4) for way, each in seconds.items()}
        found[name] |= measure_memory(run.folder, files, folder)
        print(name, found[name], flush=True)
    return found


def measure_memory(run, files, folder):
    """Peak memory in MiB of `spml predict` on 500 photographs, with the windows of a run and without."""
    found = {}
    listed = Path(folder) / "photographs.csv"
    listed.write_text("\n".join(["file", *(file.name for file in files[:500])]) + "\n")
    whole = Path(f"{run}-whole")
    if not whole.is_dir():
        settings = spml.load(run).config.data
        spml.train(
            settings.path, data={"separator": " ", "unlisted": "negative", "observe": "single",
                                 "cache": settings.cache},
            weights=spml.load(run).config.model.weights, mean_labels=K, local="off", quiet=True,
            pictures=False, output=str(whole),
        )  # fmt: skip
    for way, path in (("windows", run), ("whole", whole)):
        command = [
            sys.executable, "-m", "spml", "predict", str(path), str(listed), "--overwrite",
            "--images", str(files[0].parent), "--output", f"{folder}/labels.csv", "--cache", "none",
        ]  # fmt: skip
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        _, status, usage = os.wait4(process.pid, 0)
        assert status == 0
        found[f"MiB of predict, {way}"] = round(usage.ru_maxrss / 1024)
    return found


def main(words):
    """Run the part that is named."""
    what, data, folder, *rest = words
    if what == "runs":
        measure_runs(data, folder, rest[0] if rest else None)
    elif what == "speed":
        save(what, measure_speed(data, folder))


if __name__ == "__main__":
    torch.set_num_threads(2)
    main(sys.argv[1:])
