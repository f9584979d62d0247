// The page of an audit: one sample at a time with its questions, or many of a class in a grid.

import * as api from "./api.js";
import { Cards } from "./cards.js";
import { $, beginAtTop, complain, make, number, plural, say, showCommands, tags } from "./dom.js";
import { Film } from "./film.js";
import { Grid } from "./grid.js";
import { listen, release } from "./keys.js";
import { decidedOf, showNumbers } from "./numbers.js";
import { Photo } from "./photo.js";
import { ANSWERS, question } from "./questions.js";

const AHEAD = 4; // photos that are loaded before they are shown

let about;
let photo;
let grid;
let chosen = {}; // what the filters said when the queue was loaded
let samples = []; // in the order of the queue
let places = new Map(); // position of each sample in `samples`
let cards = newCards();
let position = 0;
let current = 0; // question of the card that keys answer
let progress;
let busy = false; // an answer is on its way to the disk
let outlined = false; // whether the window of the asked label is shown without the pointer
let pointed = null; // question that the pointer is over

const film = new Film($("film"), { describe, need: loadAround, select: (index) => run(() => go(index)) });
const inGrid = () => !$("grid").hidden;
const card = () => cards.get(samples[position]);
// Of the list, then those that a reviewer added.
const questionsOf = (each) => [...each.suggestions, ...each.further];

// -- data --------------------------------------------------------------------------------------------------

function selection() {
  const [list, column] = [$("list").value, $("column").value];
  const minimum = list === "missing" ? $("minimum").value : 0;
  return { list, ...(column && { column }), minimum, order: $("order").value };
}

function newCards() {
  return new Cards((wanted) => api.cards(wanted, chosen));
}

function loadAround(first, last) {
  return cards.load(samples.slice(first, last)).then(() => film.refresh()).catch(complain);
}

// Run an action of the user. Others are ignored until it has ended: an answer never meets an unseen photo.
async function run(action) {
  if (busy) return;
  showBusy(true);
  try {
    await action();
    $("problem").hidden = true;
  } catch (error) {
    complain(error);
  } finally {
    showBusy(false);
  }
}

function showBusy(now) {
  busy = now;
  document.querySelector("main").ariaBusy = now;
}

// -- actions -----------------------------------------------------------------------------------------------

async function start() {
  about = await api.about();
  photo = new Photo({ images: about.images, windowOf });
  grid = new Grid({ load: freshCards, answer: decideAll, images: about.images });
  $("name").textContent = `in ${about.name}`;
  $("how").textContent = about.how;
  $("warnings").replaceChildren(...about.warnings.map((text) => make("li", { textContent: text })));
  $("classes").replaceChildren(...about.classes.map((value) => make("option", { value })));
  showCommands($("commands"), about.next);
  for (const option of $("list").options) {
    const count = about.listed[option.value].reduce((sum, each) => sum + each, 0);
    option.textContent += ` (${number(count)})`;
    option.disabled = !count && option.value === "wrong";
  }
  $("order").value = about.order;
  listClasses();
  await filter();
}

function listClasses() {
  const counts = about.listed[$("list").value];
  const listed = about.classes.map((name, column) => [name, column]).filter(([, column]) => counts[column]);
  const options = listed.map(([name, value]) => make("option", { value, textContent: `${name} (${counts[value]})` }));
  $("column").replaceChildren(make("option", { value: "", textContent: "all" }), ...options);
  $("minimum-filter").hidden = $("list").value === "wrong";
}

async function filter() {
  const wanted = selection();
  const found = await api.queue({ ...wanted, show: $("show").value });
  chosen = wanted;
  samples = found.samples;
  places = new Map(samples.map((sample, place) => [sample, place]));
  cards = newCards();
  showProgress(found.progress);
  film.reset(samples.length);
  if (inGrid()) await showGrid(found.start);
  else await go(found.start);
}

async function go(to, asked) {
  if (!samples.length) return showNothing();
  position = Math.max(0, Math.min(samples.length - 1, to));
  await cards.load(samples.slice(position, position + AHEAD + 1));
  const waiting = card().suggestions.findIndex((each) => each.status === "undecided");
  current = asked ?? Math.max(0, waiting);
  film.show(position);
  film.refresh();
  showSample();
  showProgress(progress);
  beginAtTop($("stage"));
}

async function decide(index, answer) {
  const asked = card() && questionsOf(card())[index];
  if (!asked) return;
  const [saved] = await decideAll([samples[position]], answer, asked.column);
  const next = await goOn(saved);
  say(`Saved: ${about.classes[asked.column]}, ${answer}. ${next}`);
}

async function decideAll(wanted, answer, column = Number(chosen.column)) {
  const saved = await api.decideAll(wanted, column, answer, chosen);
  for (const each of saved.cards) cards.set(each.sample, each);
  showProgress(saved.progress);
  return saved.cards;
}

// Go to the next question without an answer: of this sample, or of a later one. Says where that is.
async function goOn(saved) {
  if (waits(saved)) return ask(position);
  let next = position + 1;
  while (next < samples.length) {
    await cards.load(samples.slice(next, next + AHEAD));
    if (waits(cards.get(samples[next]))) return ask(next);
    next += 1;
  }
  await go(position);
  const left = progress.listed - decidedOf(progress);
  return left ? `This is the end of the list. Earlier questions without an answer: ${left}.` : "Everything is decided.";
}

const waits = (each) => each.suggestions.some(({ status }) => status === "undecided");

async function ask(place) {
  await go(place);
  return `Next: ${about.classes[questionsOf(card())[current].column]} in ${card().name}?`;
}

// A label of the sample that is on no list.
async function addLabel() {
  const name = $("add-label").value.trim();
  if (!name || !card()) return;
  const column = about.classes.findIndex((each) => each.toLowerCase() === name.toLowerCase());
  if (column < 0) return say(`There is no class ${name}. Choose one of the ${about.classes.length} classes.`);
  await decideAll([samples[position]], "yes", column);
  $("add-label").value = "";
  $("add-label").blur();
  showSample();
  film.refresh();
  say(`Saved: ${about.classes[column]}, yes, in ${card().name}.`);
}

async function undo() {
  const { undone, progress: numbers } = await api.undo(chosen);
  if (!undone) return say("You have no answer to undo.");
  progress = numbers;
  cards = newCards(); // answers of many samples may be gone
  const place = places.get(undone.sample);
  if (inGrid()) {
    await grid.refresh();
  } else if (place !== undefined) {
    await cards.load([undone.sample]);
    const columns = questionsOf(cards.get(undone.sample)).map((each) => about.classes[each.column]);
    await go(place, Math.max(0, columns.indexOf(undone.label)));
  } else if (samples.length) {
    await go(position);
  }
  showProgress(progress);
  const what = undone.answers > 1 ? `${undone.answers} answers on ${undone.label}` : `the answer on ${undone.label} of ${undone.name}`;
  say(`Undone: ${what}.`);
}

// -- grid --------------------------------------------------------------------------------------------------

// Without those that have been loaded: the answers of other reviewers are among them.
async function freshCards(wanted) {
  const found = wanted.length ? await api.cards(wanted, chosen) : [];
  for (const each of found) cards.set(each.sample, each);
  return found;
}

async function toggleGrid() {
  const open = inGrid();
  if (!open && !$("column").value) {
    if (!samples.length) return say("No entry matches the filters.");
    $("column").value = questionsOf(card())[current].column;
  }
  $("grid").hidden = open;
  $("single").hidden = !open;
  $("open-grid").setAttribute("aria-pressed", !open);
  await filter();
  if (!open) $("tiles").querySelector("[tabindex='0']")?.focus();
}

async function showGrid(start) {
  if (!chosen.column) {
    $("grid").hidden = true;
    $("single").hidden = false;
    $("open-grid").setAttribute("aria-pressed", false);
    return go(start);
  }
  await grid.show(samples, about.classes[chosen.column], start);
}

const bulk = (wanted, answer) => run(async () => say(await grid.decide(wanted, answer)));

// -- what is shown -----------------------------------------------------------------------------------------

function describe(index) {
  const sample = samples[index];
  const each = cards.get(sample);
  const picture = about.images ? `thumbnail/${sample}` : "";
  if (!each) return { picture, text: `${sample + 1}`, label: `Sample ${index + 1}`, state: "" };
  const statuses = each.suggestions.map(({ status }) => status);
  const decided = statuses.filter((status) => status !== "undecided").length;
  let state = decided === 0 ? "undecided" : decided < statuses.length ? "partly" : "decided";
  if (statuses.includes("conflict")) state = "conflict";
  const label = `${each.name}, ${decided} of ${statuses.length} decided${state === "conflict" ? ", conflict" : ""}`;
  return { picture, text: each.name, label, state };
}

function showNothing() {
  say("No entry matches the filters.");
  for (const id of ["given", "suggestions", "question"]) $(id).replaceChildren();
  $("add").hidden = true;
  photo.clear();
}

function showSample() {
  const { given } = card();
  $("position").textContent = `${number(position + 1)} of ${plural(samples.length, "sample")}`;
  const alt = `Photo ${card().name}, given: ${given.join(", ") || "nothing"}`;
  photo.show(card(), alt, samples.slice(position + 1, position + 1 + AHEAD));
  $("given").replaceChildren("Given: ", ...(given.length ? tags(given) : ["nothing"]));
  const verb = about.images ? "show" : "have";
  $("question").textContent = chosen.list === "wrong" ? `Does it really ${verb} …` : `Does it also ${verb} …`;
  $("add").hidden = false;
  showSuggestions();
}

function windowOf() {
  const asked = pointed ?? (outlined ? current : -1);
  return (card() && questionsOf(card())[asked]?.window) ?? [];
}

function showSuggestions() {
  const focused = document.activeElement?.dataset.answer;
  const items = questionsOf(card()).map((each, index) => {
    const name = about.classes[each.column];
    const wrong = chosen.list === "wrong";
    return question(each, index, { name, reviewer: about.reviewer, asked: index === current, wrong });
  });
  $("suggestions").replaceChildren(...items);
  const asked = $("suggestions").children[current];
  asked?.scrollIntoView({ block: "nearest" });
  if (focused) asked?.querySelector(`[data-answer=${focused}]`)?.focus();
  pointed = null;
  $("where").hidden = !questionsOf(card()).some((each) => each.window.length);
  photo.outline();
}

function toggleWindow() {
  outlined = !outlined;
  $("where").setAttribute("aria-pressed", outlined);
  photo.outline();
}

function showProgress(numbers) {
  progress = numbers;
  showNumbers(numbers, chosen.list, about);
  if (numbers.listed && decidedOf(numbers) === numbers.listed) $("next-step").open = true;
  const skipped = numbers.next_check === null ? undefined : places.get(numbers.next_check);
  $("skipped").hidden = skipped === undefined || skipped >= position;
}

// -- mouse and keys ----------------------------------------------------------------------------------------

$("suggestions").addEventListener("click", ({ target }) => {
  const button = target.closest("button");
  if (button) run(() => decide(Number(button.dataset.question), button.dataset.answer));
});
$("suggestions").addEventListener("pointerover", ({ target }) => {
  const item = target.closest("li");
  if (!item) return;
  pointed = [...$("suggestions").children].indexOf(item);
  photo.outline();
});
$("suggestions").addEventListener("pointerleave", () => {
  pointed = null;
  photo.outline();
});
$("where").addEventListener("click", toggleWindow);
$("previous").addEventListener("click", () => run(() => go(position - 1)));
$("next").addEventListener("click", () => run(() => go(position + 1)));
for (const id of ["undo", "grid-undo"]) $(id).addEventListener("click", () => run(undo));
$("show-skipped").addEventListener("click", () => run(() => go(places.get(progress.next_check))));
$("filters").addEventListener("change", ({ target }) => {
  release(target);
  if (target.id === "list") listClasses();
  run(filter);
});
$("open-grid").addEventListener("click", () => run(toggleGrid));
$("bulk").addEventListener("click", ({ target }) => {
  const button = target.closest("[data-answer]");
  if (button) bulk(grid.chosen, button.dataset.answer);
});
$("grid-previous").addEventListener("click", () => run(() => grid.page(grid.first - grid.visible.length)));
$("grid-next").addEventListener("click", () => run(() => grid.page(grid.first + grid.visible.length)));
$("add").addEventListener("submit", (event) => {
  event.preventDefault();
  run(addLabel);
});
$("add-label").addEventListener("keydown", ({ key, target }) => key === "Escape" && target.blur());

function step(by) {
  if (!card()) return;
  current = Math.max(0, Math.min(questionsOf(card()).length - 1, current + by));
  showSample();
}

const single = (action) => () => inGrid() || run(action);
const answer = (value) => () => (inGrid() ? bulk(grid.keyed, value) : run(() => decide(current, value)));

listen(
  {
    ArrowLeft: single(() => go(position - 1)),
    ArrowRight: single(() => go(position + 1)),
    ArrowUp: single(() => step(-1)),
    ArrowDown: single(() => step(1)),
  },
  {
    ...Object.fromEntries(ANSWERS.map((each) => [each.key, answer(each.answer)])),
    z: () => run(undo),
    g: () => run(toggleGrid),
    a: () => inGrid() || $("add-label").focus(),
    w: toggleWindow,
    x: () => inGrid() || photo.zoom(),
    "?": () => $("help").showModal(),
  },
);

run(start);
