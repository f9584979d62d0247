"""Measure what the parts of the auto head are worth, and what could be added to it.

    python benchmarks/auto_head.py solve DIR FOLDER [SET...]       # members of the auto head, and neighbours
    python benchmarks/auto_head.py select DIR FOLDER [SET...]      # members selected on other folds
    python benchmarks/auto_head.py networks DIR FOLDER [SET...]    # small networks as further members
    python benchmarks/auto_head.py views DIR FOLDER [VIEW...]      # features of mirrored photographs, crops
    python benchmarks/auto_head.py collect FOLDER                  # every combination of them

DIR holds the folder `features` of the spec `features`, whose sets are used (all, or the named ones), with
uniform hiding and seeds 0 to 2. The scores of all members on held-out and on test samples are kept in FOLDER,
so that `collect` combines them in many ways without solving anything again; it writes
benchmarks/results/auto_head.json. The functions of `spml.models.solved.auto` do the work.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
import time
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import timm
import torch
import yaml
from PIL import Image
from safetensors.torch import load_file
from shared import save_results, today
from sklearn.metrics import f1_score
from torch.nn import functional

from spml.common.draws import permutation
from spml.config import DataConfig
from spml.data import open_dataset
from spml.decisions import global_threshold
from spml.metrics import mean_average_precision, sp_score
from spml.models import LDA, RIDGE
from spml.models.scaling import SQRT_L2, STANDARD, TFIDF, make_scaling
from spml.models.solved import auto, search
from spml.models.solved.ensemble import squared_distances
from spml.models.solved.members import class_logits, score_members
from spml.models.solved.spaces import Pool, Spaces

SEEDS = range(3)
NEIGHBOURS = (10, 30, 100)
HIDDEN, NETWORKS, EPOCHS, BATCH, RATE, DECAY, DROPOUT = 256, 3, 24, 128, 2e-3, 1e-2, 0.3
KNN, MLP = "knn", "mlp"


JOINED = {
    "224 and 448 joined": ("animals 224", "animals 448", "join"),
    "224 and flipped averaged": ("animals 224", "flipped", "average"),
    "224 and 288 averaged": ("animals 224", "288", "average"),
    "224 and crops averaged": ("animals 224", "crops", "average"),
}


def join(root, folder, sets):
    """Add the sets that JOINED describes and whose parts exist, written as files of their own."""
    for name, (first, second, how) in JOINED.items():
        paths = [
            Path(root) / sets[part]["path"] if part in sets else folder / f"{part}.npz"
            for part in (first, second)
        ]
        if not paths[1].exists():
            continue
        parts = [dict(np.load(path, allow_pickle=False)) for path in paths]
        assert (parts[0]["names"] == parts[1]["names"]).all()
        features = [part["X"].astype(np.float32) for part in parts]
        joined = np.concatenate(features, 1) if how == "join" else sum(features) / 2
        path = folder / "sets" / f"{name}.npz"
        path.parent.mkdir(exist_ok=True)
        if not path.exists():
            np.savez(path, **{**parts[0], "X": joined})
        sets[name] = {**sets[first], "path": str(path.absolute())}


def open_set(settings, root, seed):
    """Data set of the spec with one known positive per sample."""
    return open_dataset(
        DataConfig(
            path=str(Path(root) / settings["path"]),
            unlisted="negative",
            observe="single",
            observe_seed=seed,
            split_seed=seed,
            test_share=settings.get("test_share", 0.0),
        )
    )


class Candidate(NamedTuple):
    """The best penalty of one head on one space, with the scores (H, C) of held-out samples."""

    scaling: str
    width: float
    head: str
    penalty: float
    score: float
    scores: Any


class Problem:
    """One data set with hidden labels: numbered samples, and the score that selects members.

    Args:
        data: The data set.
        mean_labels: Mean labels per sample K.
        seed: Seed of folds and landmarks.
    """

    def __init__(self, data, mean_labels, seed):
        train, val, test = (data.splits[name] for name in ("train", "val", "test"))
        self.seed, self.mean_labels = seed, mean_labels
        self.pool = Pool(train, val, test)
        count = len(train) + len(val)
        self.labelled, self.training = np.arange(count), np.arange(len(train))
        self.validation, self.test = self.labelled[len(train) :], np.arange(count, len(self.pool))
        self.observed = np.concatenate([train.observed.to_ternary(), val.observed.to_ternary()])
        self.truth, self.empty = data.truth["test"].to_ternary(), data.empty
        self.sparse = search.is_sparse(self.pool, self.training)
        self.scalings = (STANDARD, SQRT_L2, *([TFIDF] if self.sparse else []))
        widths = search.SPARSE_WIDTHS if self.sparse else search.DENSE_WIDTHS
        self.widths = (0.0, *widths) if self.pool.width <= search.LINEAR_LIMIT else widths

    def score(self, scores, rows):
        """SP-score."""
        return sp_score(scores, self.observed[rows], self.mean_labels).score

    @property
    def usual(self):
        """Held-out samples of the auto head here."""
        return "folds" if len(self.labelled) < auto.FEW else "split"

    def folds(self, scheme):
        """Pairs (rows to solve on, held-out rows): `split`, `folds` or `stratified` folds."""
        if scheme == "split":
            return [(self.training, self.validation)]
        order = permutation(len(self.labelled), "folds", self.seed)
        if scheme == "stratified":
            order = order[np.argsort(self.observed[order].argmax(1), kind="stable")]
        held = [np.sort(order[first :: auto.FOLDS]) for first in range(auto.FOLDS)]
        return [(np.setdiff1d(self.labelled, rows), rows) for rows in held]


def solve_members(problem, scheme, without_refit):
    """Candidates selected on held-out samples, and their test scores (M, T, C) after the final refit and,
    if `without_refit`, also solved on the training samples alone."""
    folds = problem.folds(scheme)
    rows = np.concatenate([held for _, held in folds])
    candidates, after, before = [], [], []
    for scaling in problem.scalings:
        of_folds = [
            Spaces(problem.pool, solved_on, scaling, problem.widths, problem.seed) for solved_on, _ in folds
        ]
        own = []
        for width in problem.widths:
            held_out = search.HeldOut(of_folds, [held for _, held in folds], width)
            for best in search.best_of(held_out.scores, scaling, width, rows, problem.score)[0]:
                own.append(Candidate(*best, held_out.scores(best.head, best.penalty)))
        if scheme == "split":
            fitted = of_folds[-1]
        else:
            fitted = Spaces(problem.pool, problem.labelled, scaling, problem.widths, problem.seed)
        if without_refit:
            alone = fitted
            if scheme != "split":
                alone = Spaces(problem.pool, problem.training, scaling, problem.widths, problem.seed)
            before.append(score_members({scaling: [alone]}, own, [problem.test], {}))
        if scheme == "split":
            fitted.add(problem.validation)
        after.append(score_members({scaling: [fitted]}, own, [problem.test], {}))
        candidates += own
    return rows, candidates, np.concatenate(after), np.concatenate(before) if before else None


def scaled(problem, scaling, rows):
    """Scaling fitted on some rows, applied to all samples."""
    fitted = make_scaling(scaling, problem.pool.width)
    fitted.fit([problem.pool.features(rows)])
    return fitted(problem.pool.features(np.arange(len(problem.pool))))


def votes(features, labels, known, asked):
    """Share of each class among the nearest known rows of each asked row, for each k: plain, and weighted by
    exp(-d^2 / mean d^2 of the k nearest)."""
    distances = squared_distances(features[asked], features[known])
    nearest, position = distances.topk(min(max(NEIGHBOURS), len(known)), largest=False)
    shown = labels[known][position]
    found = {}
    for k in NEIGHBOURS:
        near = nearest[:, :k]
        weight = torch.exp(-near / near.mean(1, keepdim=True).clamp_min(1e-12))
        found[k, "plain"] = shown[:, :k].mean(1).numpy()
        total = torch.einsum("bk,bkc->bc", weight, shown[:, :k]) / weight.sum(1, keepdim=True)
        found[k, "weighted"] = total.numpy()
    return found


def solve_neighbours(problem, scheme):
    """The best number of neighbours in each scaling as candidates, and their test scores (M, T, C)."""
    labels = torch.from_numpy((problem.observed == 1).astype(np.float32))
    folds = problem.folds(scheme)
    rows = np.concatenate([held for _, held in folds])
    candidates, tests = [], []
    for scaling in problem.scalings:
        parts = {}
        for known, held in folds:
            for key, part in votes(scaled(problem, scaling, known), labels, known, held).items():
                parts.setdefault(key, []).append(part)
        scores = {key: np.concatenate(part) for key, part in parts.items()}
        by_key = {key: problem.score(value, rows) for key, value in scores.items()}
        best = max(by_key, key=by_key.__getitem__)
        candidates.append(Candidate(scaling, 0.0, KNN, float(best[0]), by_key[best], scores[best]))
        features = scaled(problem, scaling, problem.labelled)
        tests.append(votes(features, labels, problem.labelled, problem.test)[best])
    return candidates, np.stack(tests)


def train_networks(features, labels, known, asked, epochs, seed):
    """Yield, after every second epoch, the mean log-probabilities (A, C) of asked rows by several networks
    with one hidden layer, trained side by side with the softmax cross-entropy of the observed label."""
    generator = torch.Generator().manual_seed(seed)
    width, classes = features.shape[1], labels.shape[1]

    def start(fan_in, fan_out):
        weight = torch.randn(NETWORKS, fan_in, fan_out, generator=generator) * math.sqrt(2 / fan_in)
        return weight.requires_grad_(), torch.zeros(NETWORKS, 1, fan_out, requires_grad=True)

    first, first_bias = start(width, HIDDEN)
    second, second_bias = start(HIDDEN, classes)
    with torch.no_grad():
        second.mul_(0.1)
    optimizer = torch.optim.AdamW(
        [first, first_bias, second, second_bias], lr=RATE, weight_decay=DECAY, foreach=True
    )
    steps = epochs * math.ceil(len(known) / BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    target = labels[known].argmax(1)
    inputs = features[known]
    for epoch in range(1, epochs + 1):
        order = torch.randperm(len(known), generator=generator)
        for chosen in order.split(BATCH):
            hidden = torch.baddbmm(first_bias, inputs[chosen].expand(NETWORKS, -1, -1), first).relu()
            kept = torch.rand(hidden.shape, generator=generator) >= DROPOUT
            logits = torch.baddbmm(second_bias, hidden * kept / (1 - DROPOUT), second)
            loss = functional.cross_entropy(logits.flatten(0, 1), target[chosen].repeat(NETWORKS))
            optimizer.zero_grad()
            (loss * NETWORKS).backward()
            optimizer.step()
            schedule.step()
        if epoch % 2 == 0:
            with torch.no_grad():
                hidden = torch.baddbmm(first_bias, features[asked].expand(NETWORKS, -1, -1), first).relu()
                logits = torch.baddbmm(second_bias, hidden, second)
                yield epoch, functional.log_softmax(logits, 2).mean(0).numpy()


def solve_networks(problem, scheme, scalings):
    """Networks with the best number of epochs in each scaling as candidates, and their test scores."""
    labels = torch.from_numpy((problem.observed == 1).astype(np.float32))
    folds = problem.folds(scheme)
    rows = np.concatenate([held for _, held in folds])
    candidates, tests = [], []

    def inputs(scaling, known):
        features = scaled(problem, scaling, known)
        return features * math.sqrt(problem.pool.width) if scaling != STANDARD else features

    for scaling in scalings:
        parts = {}
        for number, (known, held) in enumerate(folds):
            features = inputs(scaling, known)
            for epoch, part in train_networks(features, labels, known, held, EPOCHS, number):
                parts.setdefault(epoch, []).append(part)
        scores = {epoch: np.concatenate(part) for epoch, part in parts.items()}
        by_epoch = {epoch: problem.score(value, rows) for epoch, value in scores.items()}
        best = max(by_epoch, key=by_epoch.__getitem__)
        candidates.append(Candidate(scaling, 0.0, MLP, float(best), by_epoch[best], scores[best]))
        features = inputs(scaling, problem.labelled)
        trained = train_networks(features, labels, problem.labelled, problem.test, EPOCHS, 99)
        tests.append(next(part for epoch, part in trained if epoch == best))
    return candidates, np.stack(tests)


def save(path, problem, rows, candidates, after, before, seconds):
    """Keep the scores of candidates."""
    arrays = {
        "rows": rows,
        "names": np.array([f"{c.scaling}|{c.width}|{c.head}|{c.penalty}" for c in candidates]),
        "sp": np.array([c.score for c in candidates]),
        "held": np.stack([c.scores for c in candidates]),
        "after": after,
        "truth": problem.truth,
        "observed": problem.observed,
        "training": len(problem.training),
        "mean_labels": problem.mean_labels,
        "seconds": seconds,
    }
    if before is not None:
        arrays["before"] = before
    np.savez(path, **arrays)


VIEWS = {"plain": (224, "whole"), "flipped": (224, "flipped"), "288": (288, "whole"), "crops": (224, "crops")}


def views_of(picture, size, kind):
    """Views (V, 3, size, size) of a photograph: the whole, mirrored, or four corners and centre at 7/8."""
    larger = round(size * 8 / 7) if kind == "crops" else size
    pixels = np.asarray(
        picture.convert("RGB").resize((larger, larger), Image.Resampling.BILINEAR), np.float32
    )
    whole = torch.from_numpy(pixels.transpose(2, 0, 1) / 127.5 - 1)
    if kind == "flipped":
        return whole.flip(2)[None]
    if kind == "whole":
        return whole[None]
    far, middle = larger - size, (larger - size) // 2
    corners = [(0, 0), (0, far), (far, 0), (far, far), (middle, middle)]
    return torch.stack([whole[:, y : y + size, x : x + size] for y, x in corners])


def extract_views(root, folder, names):
    """Write the features of views of the photographs, in the form of the feature sets."""
    network = timm.create_model("mobilenetv2_100", pretrained=False, pad_type="same")
    network.load_state_dict(load_file(root / "models" / "mobilenetv2_100_tf_bncal.safetensors"), strict=True)
    network.reset_classifier(0)
    network = network.eval().to(memory_format=torch.channels_last)
    like = dict(np.load(root / "features" / "voc2012p_mnv2_224.npz", allow_pickle=False))
    for name in names:
        size, kind = VIEWS[name]
        found, started = [], time.process_time()
        for files in np.array_split(like["names"], math.ceil(len(like["names"]) / 16)):
            views = [views_of(Image.open(root / "images" / "voc2012_animals" / f), size, kind) for f in files]
            batch = torch.cat(views).to(memory_format=torch.channels_last)
            with torch.inference_mode():
                found.append(network(batch).view(len(files), -1, 1280).mean(1).numpy())
        features = np.concatenate(found)
        np.savez(folder / f"{name}.npz", **{**like, "X": features.astype(np.float16)})
        print(name, round(time.process_time() - started, 1), "CPU seconds", flush=True)


class Kept:
    """Scores of candidates that were kept."""

    def __init__(self, *paths):
        parts = [dict(np.load(path, allow_pickle=False)) for path in paths]
        for part in parts[1:]:
            assert (part["rows"] == parts[0]["rows"]).all()
        self.rows, self.truth, self.observed = (parts[0][k] for k in ("rows", "truth", "observed"))
        self.mean_labels, self.training = float(parts[0]["mean_labels"]), int(parts[0]["training"])
        shown = self.observed == 1
        self.late = ~shown[: self.training].any(0) & shown[self.training :].any(0)
        self.names = [n.split("|") for part in parts for n in part["names"].tolist()]
        self.held, self.after = (np.concatenate([part[k] for part in parts]) for k in ("held", "after"))
        self.before, self.seconds = parts[0].get("before"), [float(part["seconds"]) for part in parts]
        self.candidates = [
            Candidate(name[0], float(name[1]), name[2], float(name[3]), float(score), held)
            for name, score, held in zip(
                self.names, np.concatenate([part["sp"] for part in parts]), self.held, strict=True
            )
        ]

    def combined(self, wanted=None, single=False, equal=False, before=False):
        """Weighted sum of the standardised scores of held-out and test samples, and the members."""
        wanted, tests = wanted or _is_usual, self.before if before else self.after
        chosen = [i for i, c in enumerate(self.candidates) if wanted(c)]
        own = [self.candidates[i] for i in chosen]
        if single:
            best = max(own, key=lambda c: c.score)
            weighed = [(best, 1.0)]
        else:
            weighed = auto._weigh(own)
        if equal:
            weighed = [(candidate, 1 / len(own)) for candidate in own]
        held, test = 0.0, 0.0
        for candidate, weight in weighed:
            position = next(i for i in chosen if self.candidates[i] is candidate)
            centre, spread = (f(candidate.scores, 0, dtype=np.float64) for f in (np.mean, np.std))
            after, of_test = (
                tests[position].mean(0, dtype=np.float64),
                tests[position].std(0, dtype=np.float64),
            )
            spread = np.maximum(np.where(self.late | (spread < 1e-6), of_test, spread), 1e-6)
            held = held + weight * (candidate.scores - centre) / spread
            test = test + weight * (tests[position] - after) / spread
        return held, test, weighed

    def judge(self, held, test):
        """Test mAP and SP-score of held-out predictions, in percent."""
        return {
            "mAP": 100 * mean_average_precision(test, self.truth, "exclude"),
            "SP": 100 * sp_score(held, self.observed[self.rows], self.mean_labels).score,
        }


def _is_usual(c):
    return c.head not in (KNN, MLP)


VARIANTS = {
    "auto": {},
    "best member alone": {"single": True},
    "equal weights": {"equal": True},
    "linear spaces only": {"wanted": lambda c: _is_usual(c) and not c.width},
    "kernel spaces only": {"wanted": lambda c: _is_usual(c) and c.width > 0},
    "ridge only": {"wanted": lambda c: c.head == RIDGE},
    "LDA only": {"wanted": lambda c: c.head == LDA},
    "without standard": {"wanted": lambda c: _is_usual(c) and c.scaling != STANDARD},
    "without sqrtl2": {"wanted": lambda c: _is_usual(c) and c.scaling != SQRT_L2},
    "without tfidf": {"wanted": lambda c: _is_usual(c) and c.scaling != TFIDF},
    "without the final refit": {"before": True},
    "with neighbours": {"wanted": lambda c: c.head != MLP},
    "with networks": {"wanted": lambda c: c.head != KNN},
    "with both": {"wanted": lambda c: True},
    "neighbours alone": {"wanted": lambda c: c.head == KNN},
    "networks alone": {"wanted": lambda c: c.head == MLP},
}


def one_dimensional_lda(held, observed, strength=5.0):
    """Offset and scale of the log-odds of LDA on the combined score alone, whose class means are shrunk."""
    shown = observed == 1
    counts = shown.sum(0)
    mean = (held * shown).sum(0) / np.maximum(counts, 1)
    pooled = (counts * mean).sum() / counts.sum()
    mean = (counts * mean + strength * pooled) / (counts + strength)
    return np.log((counts + 0.5) / len(held)) - mean**2 / 2, mean


def eb_thresholds(held, observed, mean_labels, strength=5.0):
    """Thresholds of the rule EB5: the expected F1 of each class, its recall shrunk to that of all classes."""
    samples, classes = held.shape
    shown = observed == 1
    counts = shown.sum(0)
    positives = np.minimum(mean_labels * counts / counts.sum(), 0.95) * samples
    order = np.argsort(-held, axis=0, kind="stable")
    ranks = np.empty_like(order)
    np.put_along_axis(ranks, order, np.arange(1, samples + 1)[:, None], 0)
    rows, columns = np.nonzero(shown)
    spread = np.sort(ranks[rows, columns] / positives[columns])
    cuts = np.full(classes, np.inf)
    for c in np.flatnonzero(counts):
        most = max(1, min(samples - 1, int(4 * positives[c])))
        r = np.arange(1, most + 1)
        seen = np.cumsum(shown[order[:most, c], c])
        pooled = np.searchsorted(spread, r / positives[c], side="right") / len(spread)
        recall = (seen + strength * pooled) / (counts[c] + strength)
        best = int((2 * np.minimum(positives[c] * recall, r) / (positives[c] + r)).argmax())
        cuts[c] = (held[order[best, c], c] + held[order[best + 1, c], c]) / 2
    return cuts


def scales(kept, held, members):
    """Offset and scale by which the standardised combined scores of classes become comparable."""
    observed = np.where(kept.late, 0, kept.observed[kept.rows])

    def of(head):
        own = [c for c in kept.candidates if c.head == head]
        best = max(own, key=lambda c: c.score).scores
        return best.mean(0, dtype=np.float64), best.std(0, dtype=np.float64)

    share = (observed == 1).mean(0)
    share = share / share.sum()
    centre, spread = of(RIDGE)
    explained = spread / np.sqrt(np.maximum(share * (1 - share), 1e-9))
    counts = (observed == 1).sum(0)
    mean_explained = (counts * explained).sum() / counts.sum()
    shrunk = (counts * explained + 5 * mean_explained) / (counts + 5)
    own = one_dimensional_lda(held, observed)
    shown = torch.from_numpy((observed == 1).astype(np.float64))
    logistic = [part.numpy() for part in class_logits(torch.from_numpy(held), shown, kept.mean_labels)[:2]]
    cuts = eb_thresholds(held, observed, kept.mean_labels)
    cuts = np.where(np.isfinite(cuts), cuts, held.max(0) + 1)
    p = np.clip(kept.mean_labels * share, 1e-9, 0.95)
    return {
        "best ridge": (centre, spread),
        "best LDA": of(LDA),
        "z-scores": (np.zeros(len(share)), np.ones(len(share))),
        "ridge, deviation shrunk": (centre, shrunk * np.sqrt(share * (1 - share))),
        "one-dimensional LDA": own,
        "logistic regression, slopes shrunk": logistic,
        "count-matched": (
            -np.array([np.quantile(held[:, c], 1 - p[c]) for c in range(len(p))]),
            np.ones(len(p)),
        ),
        "EB5, slopes of logistic regression": (-cuts * logistic[1], logistic[1]),
        "EB5, z-scores": (-cuts, np.ones(len(share))),
    }


def decide(kept, held, test, members):
    """Micro F1, macro F1 and top-1 precision with one threshold, for each scale of the classes."""
    centre, spread = held.mean(0), np.maximum(held.std(0), 1e-9)
    held, test = (held - centre) / spread, (test - centre) / spread
    truth = kept.truth > 0
    of_val = kept.rows >= kept.training
    found = {}
    for name, (offset, scale) in scales(kept, held, members).items():
        ours, asked = offset + scale * held, offset + scale * test
        chosen = asked >= global_threshold(ours[of_val].astype(np.float32), kept.mean_labels)
        pooled = asked >= global_threshold(ours.astype(np.float32), kept.mean_labels)
        found[name] = {
            "micro F1": 100 * f1_score(truth, chosen, average="micro", zero_division=0),
            "macro F1": 100 * f1_score(truth, chosen, average="macro", zero_division=0),
            "top-1 precision": 100 * truth[np.arange(len(truth)), asked.argmax(1)].mean(),
            "micro F1, cut on all held-out": 100 * f1_score(truth, pooled, average="micro", zero_division=0),
            "macro F1, cut on all held-out": 100 * f1_score(truth, pooled, average="macro", zero_division=0),
        }
    return found


def compare_photographs(folder):
    """Test mAP and SP-score on the photographs: each size, both as one, and several views of one."""
    found = {}
    for seed in SEEDS:
        both = [folder / f"animals {size}-{seed}-split.npz" for size in (224, 448)]
        if all(path.exists() for path in both):
            small, large = Kept(both[0]), Kept(both[1])
            heads = [kept.combined()[:2] for kept in (small, large)]
            found.setdefault("224", {})[seed] = small.judge(*heads[0])
            found.setdefault("448", {})[seed] = large.judge(*heads[1])
            spread = [held.std(0) for held, _ in heads]
            mean = [sum(head[part] / s for head, s in zip(heads, spread, strict=True)) for part in (0, 1)]
            found.setdefault("224 and 448, two heads averaged", {})[seed] = small.judge(*mean)
            pooled = Kept(*both)
            found.setdefault("224 and 448, members of both", {})[seed] = pooled.judge(*pooled.combined()[:2])
        for name in JOINED:
            path = folder / f"{name}-{seed}-split.npz"
            if path.exists():
                kept = Kept(path)
                found.setdefault(name, {})[seed] = kept.judge(*kept.combined()[:2])
    return found


def from_folder(folder):
    """Combine everything that was kept, and write the results."""
    result = {
        **today(),
        "members": {},
        "scales": {},
        "held out": {},
    }
    result["CPU seconds"] = {}
    for path in sorted(folder.glob("*.npz")):
        name, seed, scheme = (*path.stem.split("-", 2), "", "")[:3]
        if scheme not in ("split", "folds", "stratified") or name in JOINED:
            continue
        if not (folder / f"{path.stem}-knn.npz").exists():
            kept = Kept(path)
            held, test, _ = kept.combined()
            result["held out"].setdefault(name, {}).setdefault(scheme, {})[seed] = kept.judge(held, test)
            continue
        extra = [folder / f"{path.stem}-{kind}.npz" for kind in (KNN, MLP)]
        extra = [p for p in extra if p.exists()]
        kept = Kept(path, *extra)
        heads = {c.head for c in kept.candidates}
        for variant, how in VARIANTS.items():
            if ("networks" in variant or "both" in variant) and MLP not in heads:
                continue
            if "tfidf" in variant and not any(c.scaling == TFIDF for c in kept.candidates):
                continue
            held, test, members = kept.combined(**how)
            row = {**kept.judge(held, test), "members": len(members)}
            row["weight of additions"] = sum(w for c, w in members if c.head in (KNN, MLP))
            result["members"].setdefault(name, {}).setdefault(variant, {})[seed] = row
        held, test, members = kept.combined()
        result["scales"].setdefault(name, {})[seed] = decide(kept, held, test, members)
        result["held out"].setdefault(name, {}).setdefault(f"{scheme} (now)", {})[seed] = kept.judge(
            held, test
        )
        result["CPU seconds"].setdefault(name, {})[seed] = [round(s, 2) for s in kept.seconds]
    result["photographs"] = compare_photographs(folder)
    save_results("auto_head", result)
    show(result)


def show(result):
    """Print the means over seeds, and of the paired differences."""
    for name, by_variant in result["members"].items():
        base = by_variant["auto"]
        print(name, *(f"{base[s]['mAP']:.2f}" for s in base))
        for variant, by_seed in by_variant.items():
            differences = [by_seed[s]["mAP"] - base[s]["mAP"] for s in by_seed]
            sp = statistics.mean(by_seed[s]["SP"] - base[s]["SP"] for s in by_seed)
            print(
                f"   {variant:<26} {statistics.mean(differences):+6.2f}",
                [round(d, 2) for d in differences],
                f"SP {sp:+.2f}",
                f"added {statistics.mean(r['weight of additions'] for r in by_seed.values()):.2f}",
            )
    print()
    for name, by_scheme in result["held out"].items():
        for scheme, by_seed in by_scheme.items():
            print(name, scheme, [round(r["mAP"], 2) for r in by_seed.values()])
    for name, by_seed in result["photographs"].items():
        print(f"{name:<40}", {seed: round(row["mAP"], 2) for seed, row in by_seed.items()})
    names = list(result["scales"])
    if names:
        measures = list(next(iter(result["scales"][names[0]].values()))["best ridge"])
        for measure in measures:
            print("\n" + measure, names)
            for scale in next(iter(result["scales"][names[0]].values())):
                means = [
                    statistics.mean(r[scale][measure] for r in result["scales"][name].values())
                    for name in names
                ]
                print(f"   {scale:<36}", *(f"{m:6.2f}" for m in means), f"| {statistics.mean(means):.2f}")


def main():
    """Run the command."""
    torch.set_num_threads(1)
    command, *arguments = sys.argv[1:]
    if command == "collect":
        from_folder(Path(arguments[0]))
        return
    root, folder, *names = arguments
    if command == "views":
        extract_views(Path(root), Path(folder), names or VIEWS)
        return
    text = (resources.files("spml.bench") / "specs" / "features.yaml").read_text(encoding="utf-8")
    sets = yaml.safe_load(text)["data"]
    names = names or list(sets)
    join(root, Path(folder), sets)
    for name, seed in itertools.product(names, SEEDS):
        settings = sets[name]
        problem = Problem(open_set(settings, root, seed), settings["mean_labels"], seed)
        schemes = {"solve": [problem.usual], "networks": [problem.usual]}.get(command)
        if command == "select":
            schemes = ["stratified" if problem.usual == "folds" else "folds"]
        for scheme in schemes:
            path = Path(folder) / f"{name}-{seed}-{scheme}{'-mlp' if command == 'networks' else ''}.npz"
            if path.exists():
                continue
            started = time.process_time()
            with torch.no_grad() if command != "networks" else torch.enable_grad():
                if command == "networks":
                    rows = np.concatenate([held for _, held in problem.folds(scheme)])
                    candidates, after = solve_networks(problem, scheme, [SQRT_L2])
                    before = None
                else:
                    rows, candidates, after, before = solve_members(
                        problem, scheme, command == "solve" and name not in JOINED
                    )
            save(path, problem, rows, candidates, after, before, time.process_time() - started)
            if command == "solve":
                started = time.process_time()
                with torch.no_grad():
                    candidates, after = solve_neighbours(problem, scheme)
                path = path.with_stem(path.stem + "-knn")
                save(path, problem, rows, candidates, after, None, time.process_time() - started)
            print(name, seed, scheme, round(time.process_time() - started, 1), flush=True)


if __name__ == "__main__":
    main()
