/**
 * The heat map: where the evidence of a slice lies, in colour over it, shown when asked for.
 * @module
 */

import { byId } from "./dom.js";

const ORANGE = [255, 140, 0];
const KEPT = "psimil-heat"; // while the window is open, from one scan to the next
const STRONGEST = 0.65; // share of colour where the heat is greatest

export class Heat {
  #image;
  #bag;
  #sprite = new Image();
  #canvas = byId("heat");
  #cell = document.createElement("canvas");
  #index = 0;

  /** @param {any} bag from /api/bags/{key}, with words about its heat maps */
  constructor(bag) {
    this.#bag = bag;
    this.#image = bag.image;
    this.#cell.width = bag.image.thumb_columns;
    this.#cell.height = bag.image.thumb_rows;
    byId("show-heat").hidden = false;
    byId("show-heat").addEventListener("click", () => this.toggle());
    if (sessionStorage.getItem(KEPT)) this.toggle();
  }

  get shown() {
    return !this.#canvas.hidden;
  }

  /** Show the heat map, or hide it, here and in the next scan; it is fetched when it is first wanted. */
  toggle() {
    const shown = !this.shown;
    this.#canvas.hidden = !shown;
    byId("heat-words").hidden = !shown;
    byId("heat-note").hidden = !shown;
    if (shown) sessionStorage.setItem(KEPT, "1");
    else sessionStorage.removeItem(KEPT);
    byId("show-heat").setAttribute("aria-pressed", String(shown));
    if (shown && !this.#sprite.src) {
      this.#sprite.src = `/api/bags/${encodeURIComponent(this.#bag.key)}/heat`;
      this.#sprite.decode().then(
        () => this.show(this.#index),
        () => this.#say("The heat maps did not come. Load the page again."),
      );
    }
    this.show(this.#index);
  }

  /**
   * The map of a slice.
   * @param {number} index
   */
  show(index) {
    this.#index = index;
    if (!this.shown) return;
    const called = this.#bag.instances[index].called;
    this.#say(called ? this.#image.heat : `This slice is not called positive, so it has no heat map. ${this.#image.heat}`);
    this.#paint();
  }

  #say(words) {
    byId("heat-words").textContent = words;
  }

  /** Maps are square like what the network saw: slices that are not were padded, the image in the middle. */
  #paint() {
    const { kind, rows: tall, columns: wide, sprite_columns: across } = this.#image;
    const { width, height } = this.#cell;
    const [rows, columns] = kind === "hu" ? [tall, wide] : [height, width];
    this.#canvas.width = columns;
    this.#canvas.height = rows;
    this.#canvas.dataset.shown = "";
    if (!this.#sprite.complete || !this.#sprite.naturalWidth) return;
    const paint = this.#cell.getContext("2d", { willReadFrequently: true });
    const left = (this.#index % across) * width;
    const top = Math.floor(this.#index / across) * height;
    paint.drawImage(this.#sprite, left, top, width, height, 0, 0, width, height);
    const colours = paint.getImageData(0, 0, width, height);
    for (let place = 0; place < colours.data.length; place += 4) {
      const strength = colours.data[place];
      colours.data.set([...ORANGE, STRONGEST * strength], place);
    }
    paint.putImageData(colours, 0, 0);
    const side = Math.max(rows, columns);
    const [x, y] = [Math.floor((side - columns) / 2), Math.floor((side - rows) / 2)];
    this.#canvas.getContext("2d").drawImage(this.#cell, 0, 0, width, height, -x, -y, side, side);
    this.#canvas.dataset.shown = this.#index;
  }
}
