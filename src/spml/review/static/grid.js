// The samples of one class side by side, answered one by one or many at once.

import { $, make, number, plural } from "./dom.js";
import { chance, STATES } from "./questions.js";

const TILES = 200; // at most, which is also what a request may ask for

export class Grid {
  // `load(samples)` gives their cards; `answer(samples, answer)` saves an answer to the class for all of them and
  // gives their cards; `images`: whether samples have pictures.
  constructor({ load, answer, images }) {
    Object.assign(this, { load, answer, images, samples: [], first: 0, cards: new Map(), marked: new Set() });
    const box = $("tiles");
    box.addEventListener("click", ({ target }) => {
      const tile = target.closest("button");
      if (tile) this.mark(Number(tile.dataset.sample));
    });
    box.addEventListener("keydown", (event) => {
      const tiles = [...box.querySelectorAll("button")];
      const at = tiles.indexOf(event.target);
      const columns = tiles.filter((tile) => tile.offsetTop === tiles[0].offsetTop).length;
      const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns }[event.key];
      const to = { Home: 0, End: tiles.length - 1 }[event.key] ?? (step && at + step);
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      tiles[to]?.focus();
    });
    box.addEventListener("focusin", ({ target }) => this.rove(target));
  }

  // Show samples of a class, the one at `start` among them.
  async show(samples, name, start) {
    Object.assign(this, { samples, name });
    await this.page(start - (start % TILES));
  }

  async page(first) {
    this.first = Math.max(0, first);
    this.marked.clear();
    await this.refresh();
    $("tiles").scrollTop = 0;
  }

  get visible() {
    return this.samples.slice(this.first, this.first + TILES);
  }

  get hasMore() {
    return this.first + TILES < this.samples.length;
  }

  async refresh() {
    const cards = await this.load(this.visible);
    this.cards = new Map(cards.map((card) => [card.sample, card]));
    $("tiles").replaceChildren(...this.visible.map((sample) => make("li", {}, this.tile(sample))));
    this.rove($("tiles").querySelector("button"));
    this.update();
  }

  // One tile is reached by Tab, the others by the arrows.
  rove(tile) {
    if (!tile?.matches(".tile")) return;
    for (const each of $("tiles").querySelectorAll("[tabindex='0']")) each.tabIndex = -1;
    tile.tabIndex = 0;
  }

  tile(sample) {
    const card = this.cards.get(sample);
    const [{ probability, window }] = card.suggestions;
    const face = make("span", { className: "face" });
    if (this.images) {
      const image = make("img", { alt: "", loading: "lazy", src: `thumbnail/${sample}` });
      const picture = make("span", { className: "picture" }, image);
      // A small picture is enlarged, too; its box has its shape, so that the window lies on it.
      image.addEventListener("load", ({ target }) => {
        const longest = Math.max(target.naturalWidth, target.naturalHeight);
        target.style.width = `${(100 * target.naturalWidth) / longest}cqw`;
        target.style.height = `${(100 * target.naturalHeight) / longest}cqw`;
      });
      image.addEventListener("error", () => face.replaceChildren("no picture"));
      if (window.length) {
        const [x, y, w, h] = window.map((share) => `${100 * share}%`);
        const outline = make("span", { className: "window" });
        Object.assign(outline.style, { left: x, top: y, width: w, height: h });
        picture.append(outline);
      }
      face.append(picture);
    } else {
      const facts = card.content.slice(0, 3).map(([key, value]) => `${key}: ${value}`);
      face.append([card.name, ...facts].join("\n"));
    }
    const caption = make("span", { className: "caption" }, make("span", { className: "state" }));
    caption.append(make("span", { textContent: chance(probability) }));
    return make("button", { type: "button", className: "tile", tabIndex: -1, dataset: { sample } }, face, caption);
  }

  mark(sample) {
    if (!this.marked.delete(sample)) this.marked.add(sample);
    this.update();
  }

  statusOf(sample) {
    return this.cards.get(sample).suggestions[0].status;
  }

  // Samples that a button answers: the marked ones, or those without an answer.
  get chosen() {
    if (this.marked.size) return this.visible.filter((sample) => this.marked.has(sample));
    return this.visible.filter((sample) => this.statusOf(sample) === "undecided");
  }

  // Samples that a key answers: the marked ones, or the one with the focus.
  get keyed() {
    const tile = document.activeElement?.closest(".tile");
    return this.marked.size || !tile ? [...this.marked] : [Number(tile.dataset.sample)];
  }

  async decide(samples, answer) {
    if (!samples.length) return "Mark some samples first, or move to one with the arrows.";
    const cards = await this.answer(samples, answer);
    for (const card of cards) this.cards.set(card.sample, card);
    this.marked.clear();
    this.update();
    return `Saved: ${this.name}, ${answer}, for ${plural(samples.length, "sample")}.`;
  }

  // Write what is known by now into the tiles that exist, so that the focus stays.
  update() {
    for (const tile of $("tiles").querySelectorAll(".tile")) {
      const sample = Number(tile.dataset.sample);
      const status = this.statusOf(sample);
      tile.dataset.status = status;
      tile.setAttribute("aria-pressed", this.marked.has(sample));
      tile.setAttribute("aria-label", `${this.cards.get(sample).name}, ${STATES[status]}`);
      tile.querySelector(".state").textContent = { yes: "✓", no: "✗", unsure: "?", conflict: "!" }[status] ?? "";
    }
    const { length } = this.visible;
    $("grid-title").textContent = length
      ? `${this.name}: ${number(this.first + 1)} to ${number(this.first + length)} of ${number(this.samples.length)}`
      : `${this.name}: no entry matches the filters`;
    const what = this.marked.size ? `${this.marked.size} marked` : `the ${this.chosen.length} undecided`;
    for (const button of document.querySelectorAll("#bulk [data-answer]")) {
      button.querySelector(".which").textContent = what;
      button.disabled = !this.chosen.length;
    }
    $("grid-previous").disabled = !this.first;
    $("grid-next").disabled = !this.hasMore;
  }
}
