// The page on which a sample is labelled in full: one photo at a time with all classes.

import * as api from "./api.js";
import { Cards } from "./cards.js";
import { $, beginAtTop, complain, make, number, plural, say, showCommands, tags } from "./dom.js";
import { Film } from "./film.js";
import { listen, release } from "./keys.js";
import { Photo } from "./photo.js";

const AHEAD = 4; // photos that are loaded before they are shown
const BOXES = 100; // classes that are listed at once; the search finds the others
const DIGITS = 9; // classes that have a key

let about;
let photo;
let samples = []; // those that the filter leaves, in random order
let cards = newCards();
let position = 0;
let progress;
let chain = Promise.resolve(); // actions of the user, one after the other

const film = new Film($("film"), { describe, need: loadAround, select: (index) => act(() => go(index)) });
const card = () => cards.get(samples[position]);
const nameOf = (column) => about.classes[column];
const plainText = (text) => text.toLocaleLowerCase();

// -- data --------------------------------------------------------------------------------------------------

function newCards() {
  return new Cards((wanted) => api.cards(wanted, {}));
}

function loadAround(first, last) {
  return cards.load(samples.slice(first, last)).then(() => film.refresh()).catch(complain);
}

// Actions wait for each other, so that quick typing loses nothing. One that was meant for a sample that is not shown
// any more is dropped: an answer never meets an unseen photo.
function act(action) {
  const meant = samples[position];
  chain = chain.then(async () => {
    if (samples[position] !== meant) return;
    try {
      await action();
      $("problem").hidden = true;
    } catch (error) {
      complain(error);
      if (card()) showBoxes();
    }
  });
  return chain;
}

// -- actions -----------------------------------------------------------------------------------------------

async function start() {
  about = await api.about();
  photo = new Photo({ images: about.images });
  $("name").textContent = `in ${about.name}`;
  $("how").textContent = about.ordered
    ? "Known labels come first, then the classes that the run finds most probable. The order is a help, not an answer."
    : "Known labels come first, then the other classes in the order of the table, because there are no scores of a run.";
  showCommands($("commands"), about.next);
  await filter();
}

async function filter() {
  const found = await api.queue({ status: $("show").value });
  samples = found.samples;
  cards = newCards();
  showProgress(found.progress);
  film.reset(samples.length);
  await go(found.start);
}

async function go(to) {
  if (!samples.length) return showNothing();
  position = Math.max(0, Math.min(samples.length - 1, to));
  cards.delete(samples[position]); // another reviewer may have been there
  await cards.load(samples.slice(position, position + AHEAD + 1));
  $("search").value = "";
  film.show(position);
  film.refresh();
  showSample();
  beginAtTop($("stage"));
}

function keep(saved) {
  cards.set(saved.card.sample, saved.card);
  showProgress(saved.progress);
  film.refresh();
}

async function tick(column, ticked) {
  keep(await api.decide(card().sample, column, ticked ? "yes" : "no"));
  showState();
  say(`Saved: ${nameOf(column)}, ${ticked ? "yes" : "no"}.`);
}

async function complete() {
  if (!card()) return;
  const { name, mine } = card();
  if (!mine.complete) keep(await api.complete(card().sample));
  const said = [`Saved: ${name} is complete with ${plural(mine.labels.length, "label")}.`, contradiction(card())];
  for (let next = position + 1; next < samples.length; next++) {
    await cards.load(samples.slice(next, next + AHEAD));
    if (cards.get(samples[next]).status === "open") {
      await go(next);
      return say([...said, `Next: ${card().name}.`].filter(Boolean).join(" "));
    }
  }
  showSample();
  const open = progress.samples - progress.complete - progress.conflicts;
  said.push(open ? `This is the end of the list. Not complete yet: ${open}.` : "This was the last one. Use the labels below.");
  say(said.filter(Boolean).join(" "));
}

async function undo() {
  const { undone, progress: numbers } = await api.undo({});
  if (!undone) return say("You have nothing to undo.");
  showProgress(numbers);
  cards.delete(undone.sample);
  const place = samples.indexOf(undone.sample);
  if (place >= 0) await go(place);
  say(`Undone: ${undone.label || "complete"} of ${undone.name}.`);
}

async function use() {
  $("use").disabled = true;
  say("Using the labels. This may take a minute.");
  try {
    const { code, text } = await api.use();
    $("used").textContent = text;
    $("used").hidden = false;
    say(code ? "The labels could not be used. The reason is below." : "Done. What the labels tell is below.");
  } finally {
    $("use").disabled = false;
  }
}

// -- what is shown -----------------------------------------------------------------------------------------

function describe(index) {
  const sample = samples[index];
  const each = cards.get(sample);
  const picture = about.images ? `thumbnail/${sample}` : "";
  if (!each) return { picture, text: `${index + 1}`, label: `Sample ${index + 1}`, state: "" };
  const state = { complete: "decided", conflict: "conflict", open: "undecided" }[each.status];
  return { picture, text: each.name, label: `${each.name}, ${each.status}`, state };
}

function showNothing() {
  say("No sample matches the filter.");
  for (const id of ["given", "boxes", "others", "more"]) $(id).replaceChildren();
  $("contradiction").hidden = true;
  photo.clear();
}

function showSample() {
  const { name, given, refused } = card();
  $("position").textContent = `${number(position + 1)} of ${plural(samples.length, "sample")}`;
  const known = given.map(nameOf);
  photo.show(card(), `Photo ${name}, known: ${known.join(", ") || "nothing"}`, samples.slice(position + 1, position + 1 + AHEAD));
  const absent = refused.length ? [" Known not to be there: ", ...tags(refused.map(nameOf))] : [];
  $("given").replaceChildren("Known: ", ...(known.length ? tags(known) : ["nothing"]), ...absent);
  showBoxes();
}

// Classes that the search leaves; those whose name begins with it first.
function found() {
  const text = plainText($("search").value.trim());
  if (!text) return card().order;
  const place = (column) => plainText(nameOf(column)).indexOf(text);
  const matching = card().order.filter((column) => place(column) >= 0);
  return [...matching.filter((column) => !place(column)), ...matching.filter(place)];
}

function showBoxes() {
  const columns = found();
  const items = columns.slice(0, BOXES).map((column, index) => {
    const box = make("input", { type: "checkbox", dataset: { column } });
    const key = index < DIGITS ? [make("kbd", { textContent: index + 1, aria: { hidden: true } })] : [];
    return make("li", {}, make("label", {}, box, make("span", { textContent: nameOf(column) }), ...key));
  });
  $("boxes").replaceChildren(...items);
  $("boxes").scrollTop = 0;
  const left = columns.length - items.length;
  $("more").textContent = !columns.length
    ? `No class has “${$("search").value.trim()}” in its name.`
    : left
      ? `${plural(left, "class").replace("classs", "classes")} more: find them by name.`
      : "";
  showState();
}

// What of a card changes while it is shown.
function showState() {
  const { mine, others, status } = card();
  for (const box of boxes()) box.checked = mine.labels.includes(Number(box.dataset.column));
  const shown = new Set(boxes().filter((box) => box.checked).map((box) => Number(box.dataset.column)));
  const hidden = mine.labels.filter((column) => !shown.has(column)).map(nameOf);
  $("question").textContent = `${plural(mine.labels.length, "label")} ticked${mine.complete ? ", complete" : ""}`;
  if (hidden.length) $("question").textContent += ` (not shown here: ${hidden.join(", ")})`;
  $("complete-text").textContent = mine.complete ? "Complete already. Next" : "Complete, and next";
  const said = others.map((each) => {
    const labels = each.labels.map(nameOf).join(", ") || "no label";
    return make("p", { textContent: `${each.reviewer}${each.complete ? "" : " (not complete)"}: ${labels}` });
  });
  if (status === "conflict") said.unshift(make("p", { className: "conflict", textContent: "Reviewers disagree. One of them must change the labels." }));
  $("others").replaceChildren(...said);
  const text = contradiction(card());
  $("contradiction").textContent = text;
  $("contradiction").hidden = !text;
}

// Says where ticks contradict what the data knows.
function contradiction({ given, refused, mine }) {
  const lost = given.filter((column) => !mine.labels.includes(column)).map(nameOf);
  const wrong = refused.filter((column) => mine.labels.includes(column)).map(nameOf);
  const parts = [];
  if (lost.length) parts.push(`${lost.join(", ")} is known in the data, but not ticked.`);
  if (wrong.length) parts.push(`${wrong.join(", ")} is known not to be there, but ticked.`);
  if (parts.length) parts.push("Your answer counts; correct the data, too, if it is wrong.");
  return parts.join(" ");
}

function showProgress(numbers) {
  progress = numbers;
  $("complete-count").textContent = `${number(numbers.complete)} of ${number(numbers.samples)}`;
  $("bar").max = numbers.samples;
  $("bar").value = numbers.complete;
  $("leading").textContent = number(numbers.leading);
  $("conflicts").textContent = number(numbers.conflicts);
  $("contradicted").textContent = number(numbers.contradicted);
  if (numbers.complete === numbers.samples) $("next-step").open = true;
  document.title = `${numbers.complete} of ${numbers.samples} · all labels of a sample in ${about.name}`;
}

// -- mouse and keys ----------------------------------------------------------------------------------------

const boxes = () => [...$("boxes").querySelectorAll("input")];

function toggle(index) {
  const box = boxes()[index];
  if (box) box.click();
}

function move(by) {
  const all = boxes();
  const at = all.indexOf(document.activeElement);
  const to = at < 0 ? 0 : Math.max(0, Math.min(all.length - 1, at + by));
  all[to]?.focus();
}

$("boxes").addEventListener("change", ({ target }) => {
  const ticked = target.checked;
  act(() => tick(Number(target.dataset.column), ticked));
});
$("search").addEventListener("input", () => card() && showBoxes());
$("search").addEventListener("keydown", (event) => {
  if (!["Enter", "ArrowDown", "Escape"].includes(event.key)) return;
  event.preventDefault();
  if (event.key === "ArrowDown") return move(1);
  if (event.key === "Enter" && $("search").value.trim()) toggle(0);
  $("search").value = "";
  if (card()) act(showBoxes);
  if (event.key === "Escape") $("search").blur();
});
$("complete").addEventListener("click", () => act(complete));
$("previous").addEventListener("click", () => act(() => go(position - 1)));
$("next").addEventListener("click", () => act(() => go(position + 1)));
$("undo").addEventListener("click", () => act(undo));
$("use").addEventListener("click", () => act(use));
$("filters").addEventListener("change", ({ target }) => {
  release(target);
  act(filter);
});

listen(
  {
    ArrowLeft: () => act(() => go(position - 1)),
    ArrowRight: () => act(() => go(position + 1)),
    ArrowUp: () => move(-1),
    ArrowDown: () => move(1),
  },
  {
    ...Object.fromEntries(Array.from({ length: DIGITS }, (_, index) => [`${index + 1}`, () => toggle(index)])),
    c: () => act(complete),
    z: () => act(undo),
    x: () => photo.zoom(),
    "/": () => $("search").focus(),
    "?": () => $("help").showModal(),
  },
);

act(start);
