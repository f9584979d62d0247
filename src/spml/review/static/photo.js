// The sample that is shown: its picture with the window of a label, or its name, and what a table says about it.

import { $, make } from "./dom.js";
import * as api from "./api.js";

const SMALL = 200; // pixels; a smaller photo is enlarged without smoothing
const LEAST = 0.25; // of each side of the photo that an outline takes; a smaller window is grown around its centre

function grown(start, length) {
  const side = Math.max(length, LEAST);
  return [Math.max(0, Math.min(1 - side, start + (length - side) / 2)), side];
}

export class Photo {
  // `windowOf()` gives the part of the photo to outline: left, top, width and height as shares, or nothing.
  constructor({ images, windowOf = () => [] }) {
    Object.assign(this, { images, windowOf });
    $("stage").classList.toggle("rows", !images);
    const photo = $("photo");
    photo.addEventListener("load", () => {
      photo.classList.toggle("small", Math.max(photo.naturalWidth, photo.naturalHeight) < SMALL);
      photo.hidden = $("zoom").hidden = false;
      this.outline();
    });
    photo.addEventListener("click", (event) => this.zoom(event));
    $("zoom").addEventListener("click", () => this.zoom());
    photo.addEventListener("error", async () => {
      const address = photo.getAttribute("src");
      const problem = await api.problemOf(address);
      if (photo.getAttribute("src") !== address) return;
      $("placeholder").textContent = `No picture. ${problem}`;
      $("placeholder").hidden = false;
    });
    new ResizeObserver(() => this.outline()).observe(photo);
  }

  // `ahead`: samples whose photos are loaded before they are shown.
  show({ sample, name, content }, alt, ahead) {
    const photo = $("photo");
    const address = this.images ? `photo/${sample}` : "";
    $("file").textContent = name;
    this.list(content);
    $("placeholder").hidden = this.images;
    $("placeholder").textContent = this.images ? "" : name;
    if (!this.images || photo.getAttribute("src") === address) return;
    // The old photo must not stay while the new one loads.
    photo.hidden = $("zoom").hidden = true;
    this.zoom(undefined, false);
    photo.alt = alt;
    photo.src = address;
    for (const each of ahead) new Image().src = `photo/${each}`;
  }

  list(content) {
    const rows = content.map(([name, value]) =>
      make("div", {}, make("dt", { textContent: name }), make("dd", { textContent: value })),
    );
    $("content").replaceChildren(...rows);
    $("content").hidden = !rows.length;
    $("content").scrollTop = 0;
  }

  // Enlarge the photo around the pointer, or show it as a whole again.
  zoom(event, enlarge = !$("photo").classList.contains("zoomed")) {
    const photo = $("photo");
    const box = photo.getBoundingClientRect();
    const [x, y] = event ? [(event.clientX - box.x) / box.width, (event.clientY - box.y) / box.height] : [0.5, 0.5];
    if (enlarge) photo.style.transformOrigin = `${100 * x}% ${100 * y}%`;
    photo.classList.toggle("zoomed", enlarge);
    $("zoom").setAttribute("aria-pressed", enlarge);
    this.outline();
  }

  clear() {
    for (const id of ["file", "position", "content"]) $(id).replaceChildren();
    for (const id of ["photo", "placeholder", "content", "window", "zoom"]) $(id).hidden = true;
    $("photo").removeAttribute("src");
  }

  // Outline the window. The photo fills its box as far as its shape allows.
  outline() {
    const photo = $("photo");
    const window = this.windowOf();
    $("window").hidden = photo.hidden || !window.length || photo.classList.contains("zoomed");
    if ($("window").hidden) return;
    const scale = Math.min(photo.clientWidth / photo.naturalWidth, photo.clientHeight / photo.naturalHeight);
    const [width, height] = [photo.naturalWidth * scale, photo.naturalHeight * scale];
    const [x, w] = grown(window[0], window[2]);
    const [y, h] = grown(window[1], window[3]);
    Object.assign($("window").style, {
      left: `${photo.offsetLeft + (photo.clientWidth - width) / 2 + x * width}px`,
      top: `${photo.offsetTop + (photo.clientHeight - height) / 2 + y * height}px`,
      width: `${w * width}px`,
      height: `${h * height}px`,
    });
  }
}
