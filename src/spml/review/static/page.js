// The page: one sample at a time with its questions, an overview of all samples, and the numbers.

import * as api from "./api.js";
import { Film } from "./film.js";

const AHEAD = 4; // photos that are loaded before they are shown
const BATCH = 100; // cards that are asked for at once
const SMALL = 200; // pixels; a smaller photo is enlarged without smoothing
const ANSWERS = [
  { answer: "yes", text: "Yes", mark: "✓", key: "y" },
  { answer: "no", text: "No", mark: "✗", key: "n" },
  { answer: "unsure", text: "Unsure", mark: "?", key: "u" },
];
const STATES = { yes: "yes", no: "no", unsure: "unsure", conflict: "in conflict", undecided: "undecided" };

const $ = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(100 * share)} %`;
const chance = (probability) => (probability > 0.99 ? "over 99 %" : percent(probability));
const whole = (number) => Math.round(number).toLocaleString("en");
const plural = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

let about;
let samples = []; // in the order of the queue
let places = new Map(); // position of each sample in `samples`
let cards = new Map(); // cards by sample, as far as they have been loaded
let position = 0;
let current = 0; // question of the card that keys answer
let progress;
let busy = false; // an answer is on its way to the disk

const film = new Film($("film"), { describe, need: loadAround, select: (index) => run(() => go(index)) });

function make(tag, properties = {}, ...children) {
  const { dataset, aria, role, ...rest } = properties;
  const element = Object.assign(document.createElement(tag), rest);
  Object.assign(element.dataset, dataset);
  if (role) element.setAttribute("role", role);
  for (const [name, value] of Object.entries(aria ?? {})) element.setAttribute(`aria-${name}`, value);
  element.append(...children);
  return element;
}

// -- data --------------------------------------------------------------------------------------------------

function selection() {
  const column = $("column").value;
  return { ...(column && { column }), minimum: $("minimum").value };
}

async function load(wanted) {
  const missing = [...new Set(wanted)].filter((sample) => sample !== undefined && !cards.has(sample));
  for (let start = 0; start < missing.length; start += BATCH) {
    const into = cards; // a changed filter replaces the map
    const part = await api.cards(missing.slice(start, start + BATCH), selection());
    for (const card of part) into.set(card.sample, card);
  }
}

async function loadAround(first, last) {
  try {
    await load(samples.slice(first, last));
    film.refresh();
  } catch (error) {
    complain(error);
  }
}

// Run an action of the user. Others are ignored until it has ended: an answer never meets an unseen photo.
async function run(action) {
  if (busy) return;
  busy = true;
  try {
    await action();
    $("problem").hidden = true;
  } catch (error) {
    complain(error);
  } finally {
    busy = false;
  }
}

function complain(error) {
  $("problem").textContent = error.message;
  $("problem").hidden = false;
}

// -- actions -----------------------------------------------------------------------------------------------

async function start() {
  about = await api.about();
  $("name").textContent = `in ${about.name}`;
  $("how").textContent = about.how;
  $("warnings").replaceChildren(...about.warnings.map((text) => make("li", { textContent: text })));
  $("stage").classList.toggle("rows", !about.images);
  about.classes.forEach((name, column) => {
    if (!about.listed[column]) return;
    $("column").append(make("option", { value: column, textContent: `${name} (${about.listed[column]})` }));
  });
  await filter();
}

async function filter() {
  const found = await api.queue(selection(), $("show").value);
  samples = found.samples;
  places = new Map(samples.map((sample, place) => [sample, place]));
  cards = new Map();
  showNumbers(found.progress);
  film.reset(samples.length);
  await go(found.start);
}

async function go(to, question) {
  if (!samples.length) return showNothing();
  position = Math.max(0, Math.min(samples.length - 1, to));
  await load(samples.slice(position, position + AHEAD + 1));
  const { suggestions } = cards.get(samples[position]);
  const waiting = suggestions.findIndex((each) => each.status === "undecided");
  current = question ?? Math.max(0, waiting);
  film.show(position);
  film.refresh();
  showSample();
  showNumbers(progress);
}

async function decide(question, answer) {
  const card = cards.get(samples[position]);
  const asked = card?.suggestions[question];
  if (!asked) return;
  const saved = await api.decide(card.sample, asked.column, answer, selection());
  cards.set(card.sample, saved.card);
  progress = saved.progress;
  const next = await goOn(saved.card);
  say(`Saved: ${about.classes[asked.column]}, ${answer}. ${next}`);
}

// Go to the next question without an answer: of this sample, or of a later one. Says where that is.
async function goOn(card) {
  if (waits(card)) return ask(position);
  let next = position + 1;
  while (next < samples.length) {
    await load(samples.slice(next, next + AHEAD));
    if (waits(cards.get(samples[next]))) return ask(next);
    next += 1;
  }
  await go(position);
  const left = progress.listed - decidedOf(progress);
  return left ? `This was the end. Earlier questions without an answer: ${left}.` : "Everything is decided.";
}

const waits = (card) => card.suggestions.some((each) => each.status === "undecided");

async function ask(place) {
  await go(place);
  const { name, suggestions } = cards.get(samples[place]);
  return `Next: ${about.classes[suggestions[current].column]} in ${name}?`;
}

async function undo() {
  const { undone, progress: numbers } = await api.undo(selection());
  progress = numbers;
  if (!undone) return say("There is no answer of yours to undo.");
  cards.delete(undone.sample);
  const place = places.get(undone.sample);
  if (place === undefined) {
    showNumbers(progress);
  } else {
    await load([undone.sample]);
    const columns = cards.get(undone.sample).suggestions.map((each) => about.classes[each.column]);
    await go(place, Math.max(0, columns.indexOf(undone.label)));
  }
  say(`Undone: the answer on ${undone.label} of ${undone.name}.`);
}

const decidedOf = (numbers) => numbers.yes + numbers.no + numbers.unsure + numbers.conflicts;

// -- what is shown -----------------------------------------------------------------------------------------

function say(text) {
  $("status").textContent = text;
}

function describe(index) {
  const sample = samples[index];
  const card = cards.get(sample);
  const picture = about.images ? `thumbnail/${sample}` : "";
  if (!card) return { picture, text: `${sample + 1}`, label: `Sample ${index + 1}`, state: "" };
  const statuses = card.suggestions.map((each) => each.status);
  const decided = statuses.filter((status) => status !== "undecided").length;
  let state = decided === 0 ? "undecided" : decided < statuses.length ? "partly" : "decided";
  if (statuses.includes("conflict")) state = "conflict";
  const label = `${card.name}, ${decided} of ${statuses.length} decided${state === "conflict" ? ", conflict" : ""}`;
  return { picture, text: card.name, label, state };
}

function showNothing() {
  say("No entry matches the filters.");
  for (const id of ["given", "suggestions", "file", "position", "question", "content"]) $(id).replaceChildren();
  $("photo").hidden = $("placeholder").hidden = $("content").hidden = true;
  $("photo").removeAttribute("src");
}

function showSample() {
  const card = cards.get(samples[position]);
  $("file").textContent = card.name;
  $("position").textContent = `${(position + 1).toLocaleString("en")} of ${plural(samples.length, "sample")}`;
  showPhoto(card);
  showContent(card);
  const given = card.given.map((name) => make("span", { className: "tag", textContent: name }));
  $("given").replaceChildren("Given: ", ...(given.length ? given : ["nothing"]));
  $("question").textContent = about.images ? "Does it also show …" : "Does it also have …";
  showSuggestions(card);
}

function showPhoto(card) {
  const photo = $("photo");
  const address = about.images ? `photo/${card.sample}` : "";
  $("placeholder").hidden = about.images;
  $("placeholder").textContent = about.images ? "" : card.name;
  if (!about.images || photo.getAttribute("src") === address) return;
  // The old photo must not stay while the new one loads.
  photo.hidden = true;
  photo.alt = `Photo ${card.name}, given: ${card.given.join(", ") || "nothing"}`;
  photo.src = address;
  for (const sample of samples.slice(position + 1, position + 1 + AHEAD)) new Image().src = `photo/${sample}`;
}

function showContent({ content }) {
  const rows = content.map(([name, value]) =>
    make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
  );
  $("content").replaceChildren(...rows);
  $("content").hidden = !rows.length;
  $("content").scrollTop = 0;
}

$("photo").addEventListener("load", ({ target }) => {
  target.classList.toggle("small", Math.max(target.naturalWidth, target.naturalHeight) < SMALL);
  target.hidden = false;
});

$("photo").addEventListener("error", async ({ target }) => {
  const address = target.getAttribute("src");
  const problem = await api.problemOf(address);
  if (target.getAttribute("src") !== address) return;
  $("placeholder").textContent = `No picture. ${problem}`;
  $("placeholder").hidden = false;
});

function showSuggestions(card) {
  const focused = document.activeElement?.dataset.answer;
  $("suggestions").replaceChildren(...card.suggestions.map(suggestion));
  const asked = $("suggestions").children[current];
  asked?.scrollIntoView({ block: "nearest" });
  if (focused) asked?.querySelector(`[data-answer=${focused}]`)?.focus();
}

function suggestion(each, index) {
  const name = about.classes[each.column];
  const buttons = ANSWERS.map(({ answer, text, mark, key }) => {
    const mine = each.answers.some((one) => one.reviewer === about.reviewer && one.answer === answer);
    const hint = index === current ? [make("kbd", { textContent: key, aria: { hidden: true } })] : [];
    return make(
      "button",
      { type: "button", dataset: { answer, question: index }, aria: { pressed: mine } },
      make("span", { textContent: mark, aria: { hidden: true } }),
      ` ${text} `,
      ...hint,
    );
  });
  const fill = make("span", { className: "fill" });
  fill.style.width = percent(each.probability).replace(" ", "");
  const others = each.answers.filter((one) => one.reviewer !== about.reviewer);
  const said = others.map((one) => `${one.reviewer} said ${one.answer}`).join(", ");
  const item = make(
    "li",
    { className: "suggestion", dataset: { status: each.status } },
    make(
      "div",
      { className: "what" },
      make("span", { className: "label", textContent: name }),
      make("span", { className: "probability", textContent: chance(each.probability) }),
    ),
    make("div", { className: "meter", aria: { hidden: true } }, fill),
    make("div", { className: "answers", role: "group", aria: { label: `${name}, ${STATES[each.status]}` } }, ...buttons),
  );
  if (said) item.append(make("p", { className: "others", textContent: said }));
  if (index === current) item.setAttribute("aria-current", "true");
  return item;
}

function showNumbers(numbers) {
  progress = numbers;
  const { listed, yes, unsure, conflicts, checks, precision, expected } = numbers;
  const decided = decidedOf(numbers);
  $("decided").textContent = `${decided.toLocaleString("en")} of ${listed.toLocaleString("en")}`;
  $("bar").max = Math.max(1, listed);
  $("bar").value = decided;
  $("yes").textContent = yes.toLocaleString("en");
  const leftOut = [unsure && `${unsure} unsure`, conflicts && plural(conflicts, "conflict")].filter(Boolean);
  $("left-out").textContent = leftOut.join(", ");
  const done = decided === listed;
  $("precision").textContent = precision ? percent(precision.value) : "–";
  $("precision-note").textContent = !precision
    ? `after ${about.least_checks} random checks; ${checks} so far`
    : done
      ? "all entries decided"
      : `${percent(precision.low)} to ${percent(precision.high)}, from ${plural(checks, "random check")}`;
  $("expected").textContent = done ? "0" : `about ${whole(expected.value)}`;
  $("expected-note").textContent = done
    ? ""
    : precision
      ? `${whole(expected.low)} to ${whole(expected.high)}`
      : "if the probabilities are right";
  const skipped = numbers.next_check === null ? undefined : places.get(numbers.next_check);
  $("skipped").hidden = skipped === undefined || skipped >= position;
  document.title = `${listed ? percent(decided / listed) : ""} · missing labels in ${about.name}`;
}

// -- mouse and keys ----------------------------------------------------------------------------------------

$("suggestions").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) run(() => decide(Number(button.dataset.question), button.dataset.answer));
});
$("previous").addEventListener("click", () => run(() => go(position - 1)));
$("next").addEventListener("click", () => run(() => go(position + 1)));
$("undo").addEventListener("click", () => run(undo));
$("show-skipped").addEventListener("click", () => run(() => go(places.get(progress.next_check))));
$("filters").addEventListener("change", ({ target }) => {
  // After a choice by mouse, letters are answers again, not options of the list.
  if (!target.matches(":focus-visible")) target.blur();
  run(filter);
});
$("filters").addEventListener("submit", (event) => event.preventDefault());
$("open-help").addEventListener("click", () => $("help").showModal());

function step(by) {
  const { suggestions } = cards.get(samples[position]);
  current = Math.max(0, Math.min(suggestions.length - 1, current + by));
  showSample();
}

const KEYS = {
  ArrowLeft: () => run(() => go(position - 1)),
  ArrowRight: () => run(() => go(position + 1)),
  ArrowUp: () => run(() => step(-1)),
  ArrowDown: () => run(() => step(1)),
};
const LETTERS = {
  ...Object.fromEntries(ANSWERS.map(({ key, answer }) => [key, () => run(() => decide(current, answer))])),
  z: () => run(undo),
  "?": () => $("help").showModal(),
};

document.addEventListener("keydown", (event) => {
  // The focus stays in the help for a moment after it has been closed: keys are for the page again by then.
  const inControl = event.target.closest("select, input, dialog")?.checkVisibility();
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat || inControl) return;
  const action = KEYS[event.key] ?? ($("keys").checked ? LETTERS[event.key.toLowerCase()] : undefined);
  if (!action) return;
  event.preventDefault();
  action();
});

// A person who speaks to the machine, or types with one switch, turns single keys off for good.
$("keys").checked = localStorage.getItem("single-keys") !== "off";
$("keys").addEventListener("change", ({ target }) => localStorage.setItem("single-keys", target.checked ? "on" : "off"));

run(start);
