"""A reader of your own: open a file format that spml does not know.

    python examples/your_own_reader.py

The format is a text file `NAME.tags` with an image per line and its labels after a colon: `1.jpg: beach dog`.
A label that a line does not name is unknown. A package registers its readers by naming their module in the
entry-point group `spml.readers`; the command line then reads such files, too.
"""

import tempfile
from pathlib import Path

import numpy as np
from PIL import Image

from spml import InputError, ObservedLabels
from spml.config import DataConfig
from spml.data import Dataset, open_dataset
from spml.data.readers import find_files, register_reader
from spml.data.records import Records


@register_reader("tags", "a tags file", recognises=lambda source: source.suffix == ".tags")
def read_tags(path: Path, config: DataConfig) -> Records:
    """Read `FILE: LABEL LABEL ...`, one image per line."""
    files, names = [], []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        file, colon, labels = line.partition(":")
        if not colon:
            raise InputError(f"{path}: line {number} is {line!r}; expected FILE: LABEL LABEL ...")
        files.append(file.strip())
        names.append(labels.split())
    classes = tuple(sorted(set().union(*names)))
    return Records(
        source=str(path),
        name=path.stem,
        ids=tuple(files),
        inputs=tuple(
            find_files(path.parent, [[file] for file in files], lambda row: f"{path}: line {row + 1}")
        ),
        classes=classes,
        classes_given=False,
        labels=ObservedLabels.from_names(names, classes, unlisted=config.default_label),
        split=None,
    )


def main() -> Dataset:
    """Write a tags file with a few images and open it."""
    lines = [f"{row}.png: {('beach', 'dog', 'beach dog')[row % 3]}" for row in range(12)]
    with tempfile.TemporaryDirectory() as folder:
        for row in range(12):
            pixels = np.random.default_rng(row).integers(0, 256, (16, 16, 3), np.uint8)
            Image.fromarray(pixels).save(Path(folder, f"{row}.png"))
        path = Path(folder, "holiday.tags")
        path.write_text("\n".join(lines), encoding="utf-8")
        data = open_dataset(DataConfig(path=str(path)))
    print("\n".join(data.notes))
    print(f"classes: {', '.join(data.classes)}; training samples: {len(data.splits['train'])}")
    return data


if __name__ == "__main__":
    main()
