// Sends what was dropped, chosen or typed, and shows the answer. Nothing of it is put into the page as HTML.

import { element, id } from "./elements.js";

const SHOWN = 10; // classes of a sample

const about = await (await fetch("model")).json();
const photos = about.input.kind === "images", texts = about.input.kind === "texts";
id("photos").hidden = !photos;
id("rows").hidden = photos;
id("about").textContent = `The model knows ${about.classes.length} ${about.classes.length === 1 ? "class" : "classes"}.` +
  (photos || texts ? "" : ` A sample has ${about.input.width} features` +
    (about.input.parts ? ` in each of ${about.input.parts} parts, one part per line.` : "."));
if (texts) id("kind").textContent = "Text of a sample";
id("version").textContent = `Model ${about.model.weights_sha256.slice(0, 12)}, spml ${about.model.spml}`;

async function ask(body, headers = {}) {
  id("problem").hidden = true;
  id("status").textContent = "Waiting for the answer …";
  try {
    const response = await fetch(`predict?scores=all${about.input.where ? "&where=true" : ""}`, { method: "POST", body, headers });
    const answer = await response.json();
    if (!answer.predictions) throw new Error(answer.error ?? `The server answered with error ${response.status}.`);
    const count = answer.predictions.length;
    id("status").textContent = `${count} ${count === 1 ? "sample" : "samples"} answered.`;
    return answer.predictions;
  } catch (error) {
    id("status").textContent = "";
    id("problem").textContent = error instanceof TypeError ? "The server does not answer." : error.message;
    id("problem").hidden = false;
    return [];
  }
}

function table(prediction) {
  const values = prediction.probabilities ?? prediction.scores;
  const predicted = new Set(prediction.labels);
  const rest = Object.keys(values).filter((name) => !predicted.has(name)).sort((a, b) => values[b] - values[a]);
  const marks = prediction.probabilities ? about.threshold_probabilities : about.thresholds;
  const made = element("table");
  made.append(element("caption", prediction.probabilities ? "Probabilities" : "Scores (not probabilities)"));
  for (const name of [...prediction.labels, ...rest].slice(0, Math.max(SHOWN, prediction.labels.length))) {
    const row = element("tr", "", predicted.has(name) ? { class: "predicted" } : {});
    const bar = element("div", "", { class: "bar" });
    bar.append(element("meter", "", { min: 0, max: 1, value: values[name], "aria-label": name }));
    const mark = marks?.[about.classes.indexOf(name)];
    if (mark != null) {
      const line = element("span", "", { class: "mark", title: `predicted from ${mark.toFixed(3)} on` });
      line.style.left = `${100 * mark}%`;
      bar.append(line);
    }
    const number = prediction.probabilities ? `${(100 * values[name]).toFixed(1)} %` : values[name].toFixed(3);
    const cell = element("td");
    cell.append(bar);
    row.append(element("th", name, { scope: "row" }), cell, element("td", number));
    made.append(row);
  }
  return made;
}

// The photo with a frame for each label, where the model says in which part of the photo it is.
function framed(picture, where) {
  const frame = element("div", "", { class: "frame" });
  frame.append(picture);
  for (const [name, [left, top, width, height]] of Object.entries(where ?? {})) {
    const box = element("span", name, { class: "box" });
    const share = { left, top, width, height };
    for (const [key, value] of Object.entries(share)) box.style[key] = `${100 * value}%`;
    frame.append(box);
  }
  return frame;
}

// Answers as a table: a name, its labels, and a number for every class.
function csv(predictions) {
  const cell = (value) => (/[",\r\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : value);
  const values = (each) => about.classes.map((name) => (each.probabilities ?? each.scores)?.[name] ?? "");
  const rows = predictions.map((each) => [each.name, (each.labels ?? []).join("|"), each.error ?? "", ...values(each)]);
  return [["file", "labels", "error", ...about.classes], ...rows].map((row) => row.map(cell).join(",")).join("\r\n");
}

function answer(predictions, picture = () => null) {
  if (!predictions.length) return;
  id("answers").replaceChildren(...predictions.map((each, k) => show(each, picture(k))));
  URL.revokeObjectURL(id("download").href);
  id("download").href = URL.createObjectURL(new Blob([`${csv(predictions)}\r\n`], { type: "text/csv" }));
  id("download").hidden = false;
}

function show(prediction, picture) {
  const article = element("article");
  if (picture) article.append(framed(picture, prediction.where));
  const text = element("div");
  text.append(element("h2", prediction.name));
  if (prediction.error) {
    text.append(element("p", prediction.error, { class: "error" }));
  } else {
    text.append(element("p", prediction.labels.length ? prediction.labels.join(", ") : "No label.", { class: "labels" }));
    text.append(table(prediction));
  }
  article.append(text);
  return article;
}

function pictureOf(file) {
  const picture = element("img", "", { alt: "" });
  picture.onload = picture.onerror = () => URL.revokeObjectURL(picture.src);
  picture.src = URL.createObjectURL(file);
  return picture;
}

async function send(files) {
  if (!files.length) return;
  const form = new FormData();
  for (const file of files) form.append("images", file);
  answer(await ask(form), (k) => pictureOf(files[k]));
}

id("files").addEventListener("change", async (event) => {
  await send([...event.target.files]);
  event.target.value = ""; // the same file can be chosen again
});

id("rows").addEventListener("submit", async (event) => {
  event.preventDefault();
  const numbersIn = (text) => text.split(/[\s,;]+/).filter(Boolean).map(Number);
  const text = id("row").value;
  const row = about.input.parts ? text.split("\n").filter((line) => line.trim()).map(numbersIn) : numbersIn(text);
  const body = JSON.stringify(texts ? { texts: [text] } : { features: [row] });
  answer(await ask(body, { "Content-Type": "application/json" }));
});

// Anywhere on the page, so that a photo that misses the field does not replace the page.
addEventListener("dragover", (event) => {
  event.preventDefault();
  id("drop").classList.add("over");
});
addEventListener("dragleave", () => id("drop").classList.remove("over"));
addEventListener("drop", (event) => {
  event.preventDefault();
  id("drop").classList.remove("over");
  if (photos) send([...event.dataTransfer.files]);
});
document.documentElement.dataset.ready = "yes";
