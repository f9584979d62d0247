// The sample that is shown: its picture with the window of a label, or its name, and what a table says about it.

import { $, make } from "./dom.js";
import * as api from "./api.js";

const SMALL = 200; // pixels; a smaller photo is enlarged without smoothing

export class Photo {
  // `windowOf()` gives the part of the photo to outline: left, top, width and height as shares, or nothing.
  constructor({ images, windowOf = () => [] }) {
    Object.assign(this, { images, windowOf });
    $("stage").classList.toggle("rows", !images);
    const photo = $("photo");
    photo.addEventListener("load", () => {
      photo.classList.toggle("small", Math.max(photo.naturalWidth, photo.naturalHeight) < SMALL);
      photo.hidden = false;
      this.outline();
    });
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
    photo.hidden = true;
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

  clear() {
    for (const id of ["file", "position", "content"]) $(id).replaceChildren();
    $("photo").hidden = $("placeholder").hidden = $("content").hidden = $("window").hidden = true;
    $("photo").removeAttribute("src");
  }

  // Outline the window. The photo fills its box as far as its shape allows.
  outline() {
    const photo = $("photo");
    const window = this.windowOf();
    $("window").hidden = photo.hidden || !window.length;
    if ($("window").hidden) return;
    const scale = Math.min(photo.clientWidth / photo.naturalWidth, photo.clientHeight / photo.naturalHeight);
    const [width, height] = [photo.naturalWidth * scale, photo.naturalHeight * scale];
    const [x, y, w, h] = window;
    Object.assign($("window").style, {
      left: `${photo.offsetLeft + (photo.clientWidth - width) / 2 + x * width}px`,
      top: `${photo.offsetTop + (photo.clientHeight - height) / 2 + y * height}px`,
      width: `${w * width}px`,
      height: `${h * height}px`,
    });
  }
}
