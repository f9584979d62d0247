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
    const response = await fetch("predict?scores=all", { method: "POST", body, headers });
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
  const made = element("table");
  made.append(element("caption", prediction.probabilities ? "Probabilities" : "Scores, which are no probabilities"));
  for (const name of [...prediction.labels, ...rest].slice(0, Math.max(SHOWN, prediction.labels.length))) {
    const row = element("tr", "", predicted.has(name) ? { class: "predicted" } : {});
    const bar = element("td");
    bar.append(element("meter", "", { min: 0, max: 1, value: values[name], "aria-label": name }));
    const number = prediction.probabilities ? `${(100 * values[name]).toFixed(1)} %` : values[name].toFixed(3);
    row.append(element("th", name, { scope: "row" }), bar, element("td", number));
    made.append(row);
  }
  return made;
}

function show(prediction, picture) {
  const article = element("article");
  if (picture) article.append(picture);
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
  const predictions = await ask(form);
  if (predictions.length) id("answers").replaceChildren(...predictions.map((each, k) => show(each, pictureOf(files[k]))));
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
  const predictions = await ask(body, { "Content-Type": "application/json" });
  if (predictions.length) id("answers").replaceChildren(...predictions.map((each) => show(each)));
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
