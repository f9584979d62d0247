"""The report of runs on photos and on features: what it says, its size, and names that must not run."""

from __future__ import annotations

import base64
import io
import json
import re
import shutil
from urllib.parse import unquote

import numpy as np
import pytest
from PIL import Image

import spml
from spml.common.notebook import SHOWN_SIDE
from spml.labels import ObservedLabels
from spml.runs.folder.held_out import HeldOut, read_held_out, write_held_out
from spml.runs.predict.batches import Engine
from spml.runs.report import page as report_page
from spml.runs.report.page import MOST_SHOWN, choose_samples, renew_report
from spml.scores import InMemory
from tests.helpers import write_image
from tests.helpers.commands import execute
from tests.helpers.features import train_hidden
from tests.helpers.pages import check_report

HOSTILE = "<script>alert(1)</script>"


def report_of(folder):
    return (folder / "report.html").read_text(encoding="utf-8")


def cells(page):
    """Rows of the table of classes, by name of the class."""
    table = page.partition('<table class="classes">')[2].partition("</table>")[0]
    rows = re.findall(r"<tr>((?:<td[^>]*>.*?</td>)+)</tr>", table)
    found = [re.findall("<td[^>]*>(.*?)</td>", row) for row in rows]
    return {name: values for name, *values in found}


def pictures(page):
    """The photos of a page, decoded."""
    return [
        Image.open(io.BytesIO(base64.b64decode(content)))
        for content in re.findall(r"data:image/jpeg;base64,([\w+/=]+)", page)
    ]


@pytest.mark.long
def test_the_numbers_of_a_class(local_run):
    run, page = spml.load(local_run), report_of(local_run)
    held_out, table = read_held_out(local_run), cells(page)
    scores, labels = held_out.scores.gather(), held_out.labels.to_ternary()
    assert set(table) == set(run.classes)
    for column, cut in enumerate(run.thresholds.classes):
        predicted = scores[:, column] >= np.float32(run.thresholds.logits[column])
        given = labels[:, column] == 1
        assert table[cut.name][:4] == [
            str(cut.known), str(given.sum()), str((given & predicted).sum()), str(predicted.sum())
        ]  # fmt: skip
        assert table[cut.name][4] == f"{cut.share * len(scores):,.0f}"
        assert table[cut.name][5] == f"{cut.threshold:.2g}"
        if cut.precision is not None:
            assert table[cut.name][6] == f"{100 * cut.precision:.0f}\N{NO-BREAK SPACE}%"
    told = f"about {len(scores)} photos, each scored by models that had not learned from it: how many"
    assert told in page
    assert "80 photos to learn from, each of which was also held back in turn" in page
    assert "held back when" not in page


def test_the_score_is_the_naive_map_and_the_score_that_chose_is_named(features, tmp_path):
    """K changes the SP-score and not the score that is shown."""
    shown = []
    for k in (1.5, 2.5):
        run = spml.load(train_hidden(features, tmp_path / str(k), f"--head lda --mean_labels {k}"))
        score, page = run.summary["validation"], report_of(run.folder)
        assert "60 samples held back to check what was learned (validation)" in page
        shown_as = f"<b>{100 * score['val/naive_mAP']:.2f}</b>, the naive mAP of the 60 validation samples."
        assert f"Held-out score: {shown_as}" in page
        assert f"(SP-score {min(100 * score['val/SP'], 100):.2f} at K = {k:g})" in page
        assert f"held-out score {100 * score['val/naive_mAP']:.2f}" in repr(run)
        shown.append((score["val/naive_mAP"], score["val/SP"]))
    assert shown[0][0] == shown[1][0]
    assert shown[0][1] != shown[1][1]


def test_it_says_what_was_trained_on_what_and_by_which_command(local_run):
    page = report_of(local_run)
    assert "No score is shown: 20 photos held back are fewer than 50" in page
    assert "<dt>Labels per sample (K)</dt><dd>1.5 on average, as you stated</dd>" in page
    assert "test_convnext (used as it is)" in page
    command = re.search("This run was made by <pre>(.*?)</pre>", page)[1]
    assert command.startswith("spml train ")
    assert command.endswith(f"--method auto --output {local_run}")  # --overwrite belongs to this call only
    assert f"spml train --config {local_run}/config.yaml --output ANOTHER-FOLDER" in page
    # One warning says that there are few samples, not two.
    few, *others = sorted(
        spml.load(local_run).thresholds.warnings, key=lambda line: not line.startswith("Only")
    )
    assert few.startswith("Only 80 samples with held-out scores")
    assert all(warning.replace("'", "&#39;") in page for warning in others)
    assert page.count("<li>Only ") == 1


def test_photos_are_small_copies_with_the_window_of_the_class(local_run):
    run, page = spml.load(local_run), report_of(local_run)
    found = pictures(page)
    assert found
    assert all(max(picture.size) <= SHOWN_SIDE for picture in found)
    figure = re.search(
        r'<figure><a class="frame"[^>]*><img[^>]*alt="([^"]+)"[^>]*><span class="window" style="([^"]+)"',
        page,
    )
    classes = re.findall("<summary>(.*?)</summary>", page)
    held_out = read_held_out(local_run)
    number = held_out.windows[held_out.ids.index(figure[1]), run.classes.index(classes[0])]
    named = dict(zip(("left", "top", "width", "height"), run.places[number].tolist(), strict=True))
    assert figure[2] == ";".join(f"{name}:{100 * share:.1f}%" for name, share in named.items())
    # Without them, as in runs of an earlier version, they are those of the finished model.
    folder = shutil.copytree(local_run, local_run.parent / "without")
    write_held_out(folder, held_out._replace(windows=None), run.classes)
    renew_report(spml.load(folder), Engine())
    photo = local_run.parent / "photos" / figure[1]
    where = run.predict(photo, where=True, threshold=1e-6)
    window = where.where[0][where.labels[0].index(classes[0])]
    named = dict(zip(("left", "top", "width", "height"), window, strict=True))
    style = ";".join(f"{name}:{100 * share:.1f}%" for name, share in named.items())
    assert re.search(
        rf'alt="{re.escape(figure[1])}"[^>]*><span class="window" style="{re.escape(style)}"',
        report_of(folder),
    )


def test_the_page_loads_and_runs_nothing(local_run, ridge_run):
    for folder in (local_run, ridge_run):
        page = report_of(folder)
        assert "default-src 'none'; img-src data:; style-src 'unsafe-inline'" in page
        assert not re.search(r"<script|<link|<iframe|@import|url\(", page)
        assert all(address.startswith("data:image/") for address in re.findall(r'src="([^"]*)"', page))
        assert "http" not in page.replace("http-equiv", "")


def test_features_are_shown_by_their_names_and_without_k_nothing_is_estimated(ridge_run, features):
    page = report_of(ridge_run)
    assert not pictures(page)
    held_out = spml.load(ridge_run)
    first = re.search(
        r'<figure><figcaption><span title="(\d+)">\1</span><br>score (0\.\d+)<br>given: (\w)', page
    )
    scores = held_out.predict(features).scores
    assert first[3] == re.search("<summary>(.*?)</summary>", page)[1]
    assert scores.shape[0] > int(first[1])
    assert "<th>expected</th>" not in page
    assert "<th>right</th>" not in page
    assert "probability" not in re.sub("(?s)<section class=.warnings.*?</section>", "", page)
    assert "not known, so nothing here is an estimate" in page
    assert "spml thresholds" in page


def test_thresholds_evaluate_and_an_audit_renew_it(ridge_run, features, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(ridge_run, folder)
    execute("thresholds", folder, "--mean_labels 2")
    page = report_of(folder)
    assert "<dd>2 on average, as you stated</dd>" in page
    assert "<th>expected</th>" in page
    assert "<br>probability " in page
    execute("evaluate", folder, features, "--data.unlisted negative")
    measured = json.loads((folder / "evaluation.json").read_text())
    page = report_of(folder)
    assert f"mAP <b>{100 * measured['mAP']:.1f}</b>" in page
    assert "On 80 samples of" in page
    execute("audit sample", folder, "--rows 20")
    sheet = folder / "sample.csv"
    header, *rows = sheet.read_text().splitlines()
    sheet.write_text("\n".join([header, *(row + "yes" for row in rows)]) + "\n")
    execute("audit use", sheet, folder)
    page = report_of(folder)
    assert (
        "20 samples were labelled in full. By them and by the known labels, there are 1.00 labels on average"
        in page
    )
    assert "from 20 samples that were labelled in full" in page


def test_photos_stay_when_it_is_renewed_and_names_when_the_photos_are_gone(local_run, tmp_path):
    folder = tmp_path / "run"
    shutil.copytree(local_run, folder)
    before = len(pictures(report_of(folder)))
    execute("thresholds", folder, "--target labels --device cpu")
    assert len(pictures(report_of(folder))) >= before - 9  # near the new thresholds are others
    assert 'class="window"' in report_of(folder)
    config = (folder / "config.yaml").read_text().replace(str(local_run.parent / "photos"), "/nowhere")
    (folder / "config.yaml").write_text("\n".join(config.splitlines()[:-1]) + "\n")
    execute("thresholds", folder)
    page = report_of(folder)
    assert not pictures(page)
    assert "This report shows no photos, because the data can&#39;t be read again (/nowhere" in page
    assert "<figcaption>" in page


@pytest.mark.long
def test_hostile_names_are_text(tmp_path):
    for name in (HOSTILE.replace("/", "\\"), "b"):
        for number in range(30):
            write_image(tmp_path / "photos" / name / f'{number}"onerror=x \u202e<b>.png')
    spml.train(
        tmp_path / "photos", epochs=1, threads=1, quiet=True, data={"workers": 0, "size": 24},
        backbone="small_cnn", weights="random", output=tmp_path / "run",
    )  # fmt: skip
    page = report_of(tmp_path / "run")
    assert "<script>" not in page
    assert "&lt;script&gt;alert(1)&lt;\\script&gt;" in page
    assert "<b>.png" not in page
    assert '"onerror' not in page
    assert "\u202e" not in page
    assert "&#34;onerror=x \\u202e&lt;b&gt;.png" in page


@pytest.mark.long
def test_a_thousand_classes_of_noise_stay_small(tmp_path):
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (1500, 24, 24, 3), np.uint8)
    labels = np.arange(1500) % 1000
    spml.train(
        images, labels, classes=[f"class number {number}" for number in range(1000)], epochs=1, threads=1,
        quiet=True, data={"size": 24}, backbone="small_cnn", weights="random", output=tmp_path / "run",
    )  # fmt: skip
    page = report_of(tmp_path / "run")
    assert len(cells(page)) == 1000
    assert len(pictures(page)) <= 120
    assert len(page) < 3_000_000


def test_many_large_photos_stay_small(tmp_path):
    """Of noise, which JPEG shortens least."""
    images = np.random.default_rng(0).integers(0, 256, (160, 200, 200, 3), np.uint8)
    spml.train(
        images, np.arange(160) % 20, epochs=1, threads=1, quiet=True, data={"size": 24, "val_share": 0.5},
        backbone="small_cnn", weights="random", output=tmp_path / "run",
    )  # fmt: skip
    page = report_of(tmp_path / "run")
    found = pictures(page)
    assert len(found) == 120
    assert {picture.size for picture in found} == {(SHOWN_SIDE, SHOWN_SIDE)}
    assert len(page) < 3_000_000


def test_a_kill_while_writing_leaves_the_old_report(ridge_run, tmp_path, monkeypatch, capsys):
    folder = tmp_path / "run"
    shutil.copytree(ridge_run, folder)
    before = report_of(folder)

    def killed(path, text):
        raise KeyboardInterrupt

    monkeypatch.setattr(report_page, "write_text", killed)
    with pytest.raises(SystemExit) as end:
        execute("thresholds", folder, "--mean_labels 2")
    assert end.value.code == 130
    assert report_of(folder) == before
    monkeypatch.undo()
    execute("thresholds", folder)
    assert "<dd>2 on average, as you stated</dd>" in report_of(folder)


def test_a_report_that_can_not_be_renewed_is_removed(ridge_run, tmp_path, capsys):
    folder = tmp_path / "run"
    shutil.copytree(ridge_run, folder)
    (folder / "summary.json").write_text("{}")
    execute("thresholds", folder, "--mean_labels 2")
    assert not (folder / "report.html").exists()
    assert "report.html was removed, because it could not be made again" in capsys.readouterr().err


def test_photos_lead_to_their_files(local_run):
    links = re.findall(r'<a class="frame" href="([^"]+)"', report_of(local_run))
    assert links
    assert all((local_run / unquote(link)).is_file() for link in links)


@pytest.mark.long
@pytest.mark.parametrize("name", ["local_run", "ridge_run"])
def test_the_report_fits_a_computer_and_a_phone_and_is_accessible(name, request):
    check_report(request.getfixturevalue(name) / "report.html")


SCORES = np.array(
    [[3.0, 0.1], [2.0, 0.2], [1.0, 0.3], [0.5, 0.4], [-1.0, 5.0], [0.6, -3.0], [0.9, 0.0]], np.float32
)
LABELS = np.array([[1, 0], [1, 0], [1, 0], [1, -1], [1, 0], [0, 1], [0, 0]], np.int8)


def held_out(scores, labels):
    ids = tuple(f"s{row}" for row in range(len(scores)))
    return HeldOut(ids, InMemory(np.asarray(scores, np.float32)), ObservedLabels.from_ternary(labels))


def test_best_worst_and_uncertain_samples_of_a_class():
    first, second = choose_samples(held_out(SCORES, LABELS), [0.7, 0.25])
    assert (first.column, first.best, first.worst) == (0, [0, 1, 2], [4, 3])
    # Of the two samples whose label is unknown, 0.6 is nearer to 0.7 than 0.9 is.
    assert first.uncertain == [5, 6]
    # The only known positive is the best one, not the worst one, too; row 3 is known to lack the label.
    assert (second.column, second.best, second.worst) == (1, [5], [])
    assert second.uncertain == [1, 2, 0]


def test_a_class_that_is_never_predicted_has_no_uncertain_samples():
    first, _ = choose_samples(held_out(SCORES, LABELS), [np.inf, 0.25])
    assert first.uncertain == []
    assert first.best == [0, 1, 2]


def test_with_full_labels_samples_without_the_label_are_uncertain():
    (only,) = choose_samples(held_out([[1.0], [0.2], [-0.1]], [[1], [-1], [-1]]), [0.0])
    assert only.uncertain == [2, 1]


@pytest.mark.parametrize(("classes", "shown", "each"), [(2, 2, 3), (20, 20, 2), (100, 40, 1)])
def test_the_number_of_samples_is_bounded(classes, shown, each):
    generator = np.random.default_rng(0)
    labels = np.zeros((10 * classes, classes), np.int8)
    labels[np.arange(10 * classes), np.arange(10 * classes) % classes] = 1
    labels[:7, :2] = 1  # the first two classes have most known positives
    found = choose_samples(held_out(generator.normal(size=labels.shape), labels), np.zeros(classes))
    assert len(found) == shown
    assert {each.column for each in found[:2]} == {0, 1}
    assert {len(group) for one in found for group in (one.best, one.worst, one.uncertain)} == {each}
    assert sum(len(group) for one in found for group in one[1:]) <= MOST_SHOWN


def test_classes_without_a_known_positive_are_left_out():
    assert choose_samples(held_out([[1.0, 2.0]], [[0, 0]]), [0.0, 0.0]) == []
