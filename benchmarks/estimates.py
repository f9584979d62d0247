"""Measure again what pages quote about estimates: thresholds, probabilities, lists, audits and reviews.

    python benchmarks/estimates.py DIR FOLDER [SEEDS]

DIR holds the folders `features` and `text`, FOLDER takes everything that is kept, and a run that was stopped
goes on. The pages are those of `decisions`, `natural`, which takes some of its figures from the former,
`loop` and `audit_sample`, each made by the script of its name.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def main(root, folder, seeds="3"):
    """Measure all four pages."""
    decisions, natural, loop = (str(Path(folder, name)) for name in ("decisions", "natural", "loop"))
    spec = str(HERE / "natural.yaml")
    for script, *words in (
        ("decisions.py", "measure", root, decisions, seeds),
        ("decisions.py", "collect", decisions),
        ("natural.py", "make", root, natural),
        ("spml", "bench", "run", spec, "--root", natural, "--output", f"{natural}/bench"),
        ("natural.py", "collect", natural),
        ("loop.py", "run", root, loop, seeds),
        ("loop.py", "collect", loop),
        ("audit_sample.py", f"{root}/features", seeds),
    ):
        command = ["-m", "spml"] if script == "spml" else [str(HERE / script)]
        subprocess.run([sys.executable, *command, *words], check=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
