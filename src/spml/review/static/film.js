// A grid of all samples, of which only the visible ones are in the document.

const CELL = 88; // pixels, with the gap
const SPARE_ROWS = 3; // rows above and below the visible ones
const PAUSE = 80; // milliseconds after which pictures and details of a sample in sight are asked for

export class Film {
  // `describe(index)` gives {picture, text, label, state} of a sample; `need(first, last)` asks for the details of
  // samples; `select(index)` is called with the sample that the user chooses.
  constructor(box, { describe, need, select }) {
    Object.assign(this, { box, describe, need, count: 0, current: 0, cells: new Map() });
    this.space = document.createElement("div");
    this.space.className = "space";
    this.space.setAttribute("role", "presentation");
    box.append(this.space);
    box.addEventListener("scroll", () => this.later());
    new ResizeObserver(() => this.clear()).observe(box); // other columns
    box.addEventListener("click", (event) => {
      const cell = event.target.closest("[role=option]");
      if (cell) select(Number(cell.dataset.index));
    });
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -this.columns, ArrowDown: this.columns, Home: -this.count, End: this.count }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      select(Math.max(0, Math.min(this.count - 1, this.current + step)));
    });
  }

  get columns() {
    return Math.max(1, Math.floor(this.box.clientWidth / CELL));
  }

  // Start again with other samples.
  reset(count) {
    this.count = count;
    this.box.scrollTop = 0;
    this.clear();
  }

  clear() {
    for (const index of this.cells.keys()) this.drop(index);
    this.draw();
  }

  // Mark a sample as the current one, and scroll to it.
  show(index) {
    this.current = index;
    const top = Math.floor(index / this.columns) * CELL;
    const { scrollTop, clientHeight } = this.box;
    if (top < scrollTop || top + CELL > scrollTop + clientHeight) {
      this.box.scrollTop = top - (clientHeight - CELL) / 2;
    }
    this.draw();
  }

  later() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  draw() {
    const columns = this.columns;
    this.space.style.height = `${Math.ceil(this.count / columns) * CELL}px`;
    const { scrollTop, clientHeight } = this.box;
    const first = Math.max(0, (Math.floor(scrollTop / CELL) - SPARE_ROWS) * columns);
    const last = Math.min(this.count, (Math.ceil((scrollTop + clientHeight) / CELL) + SPARE_ROWS) * columns);
    for (const index of this.cells.keys()) {
      if (index < first || index >= last) this.drop(index);
    }
    for (let index = first; index < last; index++) {
      if (!this.cells.has(index)) this.add(index, columns);
    }
    this.mark();
    clearTimeout(this.asking);
    if (last > first) this.asking = setTimeout(() => this.need(first, last), PAUSE);
  }

  // Write what is known by now about the visible samples.
  refresh() {
    for (const [index, cell] of this.cells) {
      const { picture, text, label, state } = this.describe(index);
      if (!picture) cell.textContent = text;
      cell.setAttribute("aria-label", label);
      cell.dataset.state = state;
    }
  }

  mark() {
    for (const [index, cell] of this.cells) cell.setAttribute("aria-selected", index === this.current);
    this.box.setAttribute("aria-activedescendant", this.cells.has(this.current) ? `cell-${this.current}` : "");
  }

  drop(index) {
    const cell = this.cells.get(index);
    cell.querySelector("img")?.removeAttribute("src"); // a picture that nobody waits for must not be loaded
    cell.remove();
    this.cells.delete(index);
  }

  add(index, columns) {
    const { picture, text, label, state } = this.describe(index);
    const cell = document.createElement("div");
    cell.id = `cell-${index}`;
    cell.dataset.index = index;
    cell.dataset.state = state;
    cell.setAttribute("role", "option");
    cell.setAttribute("aria-label", label);
    cell.setAttribute("aria-posinset", index + 1);
    cell.setAttribute("aria-setsize", this.count);
    if (picture) {
      const image = document.createElement("img");
      image.alt = "";
      image.decoding = "async";
      image.addEventListener("error", () => cell.classList.add("missing"));
      cell.append(image);
      // While somebody scrolls past thousands of samples, none of their pictures is loaded.
      setTimeout(() => cell.isConnected && (image.src = picture), PAUSE);
    } else {
      cell.append(text);
    }
    const left = (index % columns) * CELL + (this.box.clientWidth - columns * CELL) / 2;
    cell.style.transform = `translate(${left}px, ${Math.floor(index / columns) * CELL}px)`;
    this.cells.set(index, cell);
    this.space.append(cell);
  }
}
