"""Write results/local.md from results/local.json, which `local.py` makes.

python benchmarks/local_page.py
"""

from __future__ import annotations

import numpy as np
from local import BACKBONES
from shared import load_results, save_results, table_head, table_row


def write_page():
    """Write the results as a page."""
    found = load_results("local")
    lines = [
        f"{found['date']}, {found['machine']}, 2 cores, torch {found['versions']['torch']}. "
        "`python benchmarks/local.py`.\n",
        "100 x test mAP on 3,576 photographs of animals (13 classes) with one known label each, mean over "
        "seeds of the known label, with the deviation between them. `whole`: the whole photograph; `windows "
        "of n`: the best window of n x n positions of the feature map; `mean of the sizes`: mean of these; "
        "`weighed variants`: these and the whole photograph, weighed by their SP-scores, which `spml train` "
        "did until 2026-11-29; `as spml train scores`: what it does since, the mean of the sizes here.\n",
    ]
    tables = {name: found[f"heads, {name}"] for name in BACKBONES if f"heads, {name}" in found}
    if tables:
        lines += table_head("", *tables)
        for key in dict.fromkeys(key for rows in tables.values() for row in rows for key in row):
            cells = []
            for rows in tables.values():
                values = [row[key] for row in rows if key in row]
                cells.append(f"{np.mean(values):.1f}" if values else "-")
                if len(values) > 1:
                    cells[-1] += f" ({np.std(values, ddof=1):.1f})"
            lines.append(table_row(key, *cells))
    if "runs" in found:
        lines += [
            "\n`spml train labels.csv --weights FILE --mean_labels 1.4` and nothing else, features kept from "
            "an earlier run; seconds of the command.\n",
            *table_head("backbone", "version", "seeds", "mAP", "micro F1", "macro F1", "seconds"),
        ]
        for name in BACKBONES:
            for version in ("before", "now"):
                rows = [row for row in found["runs"] if (row["backbone"], row["version"]) == (name, version)]
                if rows:
                    means = {
                        key: np.mean([row[key] for row in rows]) for key in ("mAP", "micro F1", "macro F1")
                    }
                    shares = " | ".join(f"{100 * value:.1f}" for value in means.values())
                    seconds = np.mean([row["seconds"] for row in rows])
                    lines.append(f"| {name} | {version} | {len(rows)} | {shares} | {seconds:.0f} |")
    if "speed" in found:
        lines += [
            "\nSeconds of a batch through backbone and head (64 photographs in torch, 8 in onnxruntime), "
            "median of 15 turns, and the largest memory of `spml predict` on 500 photographs. "
            "{date}, {machine}.\n".format_map({**found, **found.get("other machines", {}).get("speed", {})}),
            *table_head("", *found["speed"]),
        ]
        for way in next(iter(found["speed"].values())):
            lines.append(f"| {way} | {' | '.join(f'{times[way]:g}' for times in found['speed'].values())} |")
        for way in ("torch", "ONNX"):
            ratios = [times[f"{way}, windows"] / times[f"{way}, whole"] for times in found["speed"].values()]
            lines.append(f"| {way}, windows / whole | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
    save_results("local", found, "\n".join(lines) + "\n")


if __name__ == "__main__":
    write_page()
