"""Measure what the names of classes add to one known label per image, with a small CLIP made for it.

    python benchmarks/names.py model VOC2012_ANIMALS FOLDER      # trains the CLIP, four minutes
    python benchmarks/names.py measure VOC2012_ANIMALS FOLDER    # five seeds, six minutes
    python benchmarks/names.py tables                            # prints the tables of names.md

No weights of a large model are needed: `model` trains transformers' own CLIPModel on scenes of digits with
captions and on photographs of animals with the names of their classes, and saves it with its tokenizer as
the Hugging Face hub has it. These images are used for nothing else. `measure` runs `spml.train` with `names`
on others. It shows what names add where a model knows them, half of them or none, not how good CLIP is. With
weights of your own:

    spml train labels.csv --names openai/clip-vit-base-patch16 --local crops --output runs/names
    spml train labels.csv --backbone hf/openai/clip-vit-base-patch16 --output runs/labels
    spml evaluate runs/names full.csv --data.unlisted negative

The results are benchmarks/results/names.json and the tables of names.md.
"""

from __future__ import annotations

import itertools
import json
import math
import statistics
import sys
import time
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from shared import load_results, read_photographs, save_results, table, today
from sklearn.datasets import load_digits

import spml
from spml.metrics import mean_average_precision
from spml.models import read_name_evidence
from spml.models.names import PROMPTS
from spml.models.solved.names import NAME_FORMS, NameScores

SIZE, SEEDS = 48, range(5)
SCENES, PHOTOS = 9000, 1700  # images that the CLIP is trained on
LABELLED, TESTED = (60, 400), 800
EPOCHS, BATCH, RATE = 24, 128, 1e-3
DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
UNKNOWN = (
    "blick", "dax", "fep", "gorp", "kiv", "lorp", "mib", "nup", "plax", "quiv", "rin", "sull", "toma"
)  # fmt: skip
"""Words that the tokenizer has and no caption: the model knows nothing of them."""


def digits():
    """Scenes (N, 3, 48, 48) and labels of the CLIP, of labelled samples, and of the test, with other digits.

    Digits lie in some cells of a grid, one to four different ones. Scenes of the CLIP have 9, 4 or 1 cells,
    as if one had come nearer; the others have 9.
    """
    source, generator = load_digits(), np.random.default_rng(0)
    order = generator.permutation(len(source.target))
    pools = np.split(order, [1000, 1400])
    counts = {"model": SCENES, "labelled": 1500, "test": TESTED}
    parts = {}
    for (name, count), pool in zip(counts.items(), pools, strict=True):
        by_class = [pool[source.target[pool] == digit] for digit in range(10)]
        made = [scene(source.images, by_class, generator, nearer=name == "model") for _ in range(count)]
        parts[name] = tuple(np.stack(each) for each in zip(*made, strict=True))
    return DIGITS, parts


def scene(images, by_class, generator, *, nearer):
    """One scene, uint8 (3, 48, 48), and its labels, bool (10,)."""
    cells = generator.choice([3, 3, 3, 2, 1]) if nearer else 3
    side = SIZE // cells
    canvas = generator.normal(40, 20, (SIZE, SIZE))
    some = generator.permutation(10)[: generator.integers(1, min(4, cells**2) + 1)]
    for place, digit in zip(generator.permutation(cells**2), some, strict=False):
        own = images[generator.choice(by_class[digit])] * (200 / 16)
        size = int(side * generator.uniform(0.75, 1))
        drawn = Image.fromarray(own.astype(np.uint8)).resize((size, size), Image.Resampling.BILINEAR)
        top, left = (cell * side + generator.integers(0, side - size + 1) for cell in divmod(place, cells))
        canvas[top : top + size, left : left + size] += np.asarray(drawn)
    return np.repeat(np.clip(canvas, 0, 255).astype(np.uint8)[None], 3, 0), np.isin(np.arange(10), some)


def animals(folder):
    """Photographs likewise; those of the CLIP are from the training split, those of the test from its own."""
    files, truth, split, classes = read_photographs(folder)
    pixels = []
    for file in files:
        with Image.open(file) as image:
            small = image.convert("RGB").resize((SIZE, SIZE), Image.Resampling.BILINEAR)
        pixels.append(np.asarray(small).transpose(2, 0, 1))
    pixels = np.stack(pixels)
    order = np.random.default_rng(0).permutation(np.flatnonzero(split == "train"))
    rest = np.concatenate([order[PHOTOS:], np.flatnonzero(split == "val")])
    parts = {"model": order[:PHOTOS], "labelled": rest, "test": np.flatnonzero(split == "test")}
    return classes, {name: (pixels[rows], truth[rows]) for name, rows in parts.items()}


# -- the model -------------------------------------------------------------------------------------------


def write_tokenizer(folder, words):
    """Write a tokenizer of words. Returns the number of tokens."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    tokens = ["<pad>", "<s>", "<unk>", *words, "</s>"]
    tokenizer = Tokenizer(models.WordLevel({word: row for row, word in enumerate(tokens)}, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 1), ("</s>", len(tokens) - 1)]
    )
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"))
    tokenizer.enable_padding(pad_id=0)
    return tokenizer, len(tokens)


def caption(names, generator):
    """A sentence about some of the things in an image, such as "a photo of a dog and sofa"."""
    some = [names[row] for row in generator.permutation(len(names))]
    prompt = PROMPTS[generator.integers(len(PROMPTS))]
    return prompt.replace("{}", " and ".join(some))


def train_model(voc, folder):
    """Train the CLIP and save it."""
    import transformers

    torch.manual_seed(0)
    generator = np.random.default_rng(0)
    pixels, names = [], []
    for classes, parts in (digits(), animals(voc)):
        images, truth = parts["model"]
        pixels.append(images)
        names += [[classes[column] for column in np.flatnonzero(row)] for row in truth]
    pixels = torch.from_numpy(np.concatenate(pixels))
    is_photo = torch.arange(len(pixels)) >= SCENES
    used = {word for prompt in PROMPTS for word in prompt.replace("{}", " ").replace(".", " . ").split()}
    known = {word for some in names for name in some for word in name.split()}
    words = sorted(used | {"and", "-"} | known | set(UNKNOWN))
    tokenizer, tokens = write_tokenizer(folder / "clip", words)
    vision = {
        "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
        "image_size": SIZE, "patch_size": 16,
    }  # fmt: skip
    text = {
        "hidden_size": 96, "intermediate_size": 192, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": tokens, "max_position_embeddings": 32, "pad_token_id": 0, "bos_token_id": 1,
        "eos_token_id": tokens - 1,
    }  # fmt: skip
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=64)
    model = transformers.CLIPModel(config)
    print(sum(each.numel() for each in model.parameters()), "parameters", flush=True)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=0.05)
    steps = EPOCHS * (len(pixels) // BATCH)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimiser, lambda step: min((step + 1) / 60, 0.5 + 0.5 * math.cos(math.pi * step / steps))
    )
    started = time.process_time()
    for epoch in range(EPOCHS):
        order, losses = torch.from_numpy(generator.permutation(len(pixels))), []
        for rows in order.split(BATCH)[: len(pixels) // BATCH]:
            images = pixels[rows].float() / 127.5 - 1
            mirrored = (torch.rand(len(rows)) < 0.5) & is_photo[rows]
            images[mirrored] = images[mirrored].flip(3)
            texts = [caption(names[row], generator) for row in rows.tolist()]
            ids = torch.tensor([each.ids for each in tokenizer.encode_batch(texts)])
            loss = model(input_ids=ids, pixel_values=images, return_loss=True).loss
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimiser.step()
            schedule.step()
            losses.append(loss.item())
        print(epoch + 1, round(statistics.mean(losses), 3), round(time.process_time() - started), flush=True)
    model.save_pretrained(folder / "clip", safe_serialization=True)
    processor = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 2}
    processor["size"] = {"height": SIZE, "width": SIZE}
    (folder / "clip" / "preprocessor_config.json").write_text(json.dumps(processor))
    (folder / "model.json").write_text(
        json.dumps(
            {"parameters": model.num_parameters(), "CPU seconds": round(time.process_time() - started)}
        )
    )


# -- measuring -------------------------------------------------------------------------------------------


def write_images(folder, parts):
    """Write labelled and test images; returns their labels."""
    for part in ("labelled", "test"):
        pixels, _ = parts[part]
        (folder / part).mkdir(parents=True, exist_ok=True)
        for number, image in enumerate(pixels):
            path = folder / part / f"{number:05}.png"
            if not path.exists():
                Image.fromarray(image.transpose(1, 2, 0)).save(path)
    return parts["labelled"][1], parts["test"][1]


def write_names(path, classes, every):
    """Write a file that replaces every second name, or every one, by a word that the model does not know."""
    rows = [f"{name},{UNKNOWN[row]}\n" for row, name in enumerate(classes) if row % every == 0]
    path.write_text("".join(rows))
    return str(path)


def one_label(truth, rows, seed):
    """One label of each image, drawn at random."""
    generator = np.random.default_rng(seed)
    return [int(generator.choice(np.flatnonzero(truth[row]))) for row in rows]


def train(folder, listed, test, output, **settings):
    """Train with given settings. Returns the run, and its scores of the test images."""
    run = spml.train(
        listed, output=output, overwrite=True, quiet=True, pictures=False, threads=1, seed=0,
        data={"cache": str(folder / "features"), "workers": 0}, **settings,
    )  # fmt: skip
    return run, run.predict(test).scores


def share_of(run):
    """Share of the names in the sum of a run."""
    members = run.classifier.top.head.settings.members
    return sum(member.weight for member in members if member.head in NAME_FORMS)


def measure_set(name, classes, parts, folder, count, seed):
    """Test mAP in percent, and shares of names, of one set of images with `count` labels."""
    images = folder / name
    labels, truth = write_images(images, parts)
    clip, test = str(folder / "clip"), images / "test"
    some = np.random.default_rng(seed).permutation(len(labels))[:count]
    known = one_label(labels, some, seed)
    listed = images / "labelled" / "labels.csv"
    lines = [f"{row:05}.png,{classes[label]}\n" for row, label in zip(some, known, strict=True)]
    listed.write_text("file,label\n" + "".join(lines))
    own = sorted({classes[label] for label in known})  # of the others, nothing is known
    truth = truth[:, [classes.index(each) for each in own]]
    options = {"mean_labels": round(float(labels.sum(1).mean()), 1)}

    def score(scores):
        return round(100 * mean_average_precision(scores, truth, "exclude"), 2)

    row = {}
    for local, text in (("off", ""), ("crops", ", crops")):
        settings = {**options, "backbone": f"hf/{clip}", "local": local}
        row[f"labels{text}"] = score(train(images, listed, test, folder / "run", **settings)[1])
        settings = {**options, "names": clip, "local": local}
        both, scores = train(images, listed, test, folder / "run", **settings)
        row[f"both all{text}"], row[f"share all{text}"] = score(scores), share_of(both)
    pixels = np.stack([np.asarray(Image.open(path)) for path in sorted(test.glob("*.png"))])
    with torch.inference_mode():
        features = both.classifier.backbone(torch.from_numpy(pixels.transpose(0, 3, 1, 2)))
    for knows, every in {"all": 0, "half": 2, "none": 1}.items():
        file = write_names(images / f"{knows}.csv", own, every) if every else ""
        settings = {**options, "names": clip, "model": {"names_file": file}, "local": "off"}
        both, scores = train(images, listed, test, folder / "run", **settings)
        names = read_name_evidence(both.config.model, both.classes)
        alone = NameScores.of_texts(names.embeddings, names.temperature, NAME_FORMS[1])
        row[f"names {knows}"] = score(alone(features).numpy())
        row[f"both {knows}"], row[f"share {knows}"] = score(scores), share_of(both)
    return row


def measure_unlabelled(name, classes, parts, folder):
    """Test mAP in percent of runs by names alone, from the labelled images without their labels."""
    images = folder / name
    _, truth = write_images(images, parts)
    (images / "names.txt").write_text("\n".join(classes))
    row = {}
    for local, lda in itertools.product(("off", "crops"), (False, True)):
        run = spml.train(
            images / "labelled", output=folder / "run", names=str(folder / "clip"), local=local,
            model={"names_lda": lda}, data={"classes": str(images / "names.txt"), "workers": 0},
            overwrite=True, quiet=True, threads=1,
        )  # fmt: skip
        scores = run.predict(images / "test").scores
        text = ("crops" if local == "crops" else "whole image") + (", LDA" if lda else "")
        row[text] = round(100 * mean_average_precision(scores, truth, "exclude"), 2)
    return row


def measure(voc, folder):
    """Measure both sets with all seeds; rows that are there are kept."""
    result = load_results("names", rows={}) | today()
    result["model"] = json.loads((folder / "model.json").read_text())
    sets = {"digits": digits(), "animals": animals(voc)}
    result["without labels"] = {
        name: measure_unlabelled(name, classes, parts, folder) for name, (classes, parts) in sets.items()
    }
    print(result["without labels"], flush=True)
    for seed, name, count in itertools.product(SEEDS, sets, LABELLED):
        if (key := f"{name} {count} {seed}") in result["rows"]:
            continue
        started = time.process_time()
        classes, parts = sets[name]
        row = measure_set(name, classes, parts, folder, count, seed)
        row["CPU seconds"] = round(time.process_time() - started)
        result["rows"][key] = row
        print(key, row, flush=True)
        save_results("names", result)


def tables():
    """Print the tables of names.md: means over seeds, with deviations."""
    result = load_results("names")
    rows, unlabelled = result["rows"], result["without labels"]

    def cell(key, column):
        values = [row[column] for name, row in rows.items() if name.rpartition(" ")[0] == key]
        form = ".2f" if "share" in column else ".1f"
        return f"{statistics.mean(values):{form}} +- {statistics.stdev(values):{form}}"

    keys = [f"{name} {count}" for name in ("digits", "animals") for count in LABELLED]
    titles = {"names alone": "names", "both": "both", "share": "share"}
    if any("best all" in row for row in rows.values()):  # of an earlier form of this script
        titles |= {"best share": "best share", "both at it": "best"}
    lines = []
    for key, knows in itertools.product(keys, ("all", "half", "none")):
        cells = [cell(key, f"{column} {knows}") for column in titles.values()]
        lines.append((f"{key.replace(' ', ', ')} labels, {knows}", cells[0], cell(key, "labels"), *cells[1:]))
    first, *others = titles
    print(table(("", first, "labels", *others), lines))
    columns = {"labels": "labels", "labels, crops": "labels, crops"}
    columns |= {"both": "both all", "both, crops": "both all, crops"}
    lines = [(key, *(cell(key, column) for column in columns.values())) for key in keys]
    print("", table(("", *columns), lines), sep="\n")
    lines = [(name, *(f"{value:.1f}" for value in row.values())) for name, row in unlabelled.items()]
    print("", table(("", *unlabelled["digits"]), lines), sep="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    command, *paths = sys.argv[1:]
    {"model": train_model, "measure": measure, "tables": tables}[command](*map(Path, paths))
