/**
 * The stage: one slice or image, its window, and the words around it.
 * @module
 */

import { byId, element } from "./dom.js";
import { Painter } from "./painter.js";
import { Slices } from "./slices.js";
import { UNLIKE, callOf, capital, placed, probability, signed, spread } from "./words.js";
import { WINDOWS, windowOf } from "./window.js";

export class Stage {
  #bag;
  #words;
  #painter = new Painter(byId("canvas"));
  #slices = null;
  #sprite = null;
  #window = windowOf(WINDOWS[0].level, WINDOWS[0].width);
  #inverted = false;
  #index = 0;
  #onPaint = () => {};

  /**
   * @param {any} bag from /api/bags/{key}
   * @param {{instance: string, first: number}} words
   */
  constructor(bag, words) {
    this.#bag = bag;
    this.#words = words;
    const { kind, thumb_rows: pictured } = bag.image;
    if (kind === "hu") this.#slices = new Slices(bag.key, bag.instances.length, (index) => this.#arrived(index));
    if (pictured) {
      this.#sprite = new Image();
      this.#sprite.src = `/api/bags/${encodeURIComponent(bag.key)}/sprite`;
      this.#sprite.decode().then(
        () => this.#paint(),
        () => {},
      );
    }
    byId("windows").hidden = kind !== "hu";
    byId("window").hidden = kind !== "hu";
    byId("canvas").classList.toggle("coarse", kind !== "hu" && pictured <= 64);
    if (kind === "hu") this.#offerWindows();
  }

  /** @returns {import("./window.js").Window} */
  get window() {
    return this.#window;
  }

  /** @returns {Int16Array|undefined} Hounsfield units of the slice that is shown, if they are here */
  get pixels() {
    return this.#slices?.get(this.#index);
  }

  /** @returns {string|undefined} why the slice did not come, if it did not */
  get problem() {
    return this.#slices?.problem(this.#index);
  }

  get inverted() {
    return this.#inverted;
  }

  /** Whether black is shown as white. */
  set inverted(inverted) {
    this.#inverted = inverted;
    byId("canvas").classList.toggle("inverted", inverted);
    byId("invert").setAttribute("aria-pressed", String(inverted));
  }

  /** The first window, not inverted. */
  reset() {
    this.inverted = false;
    this.setWindow(WINDOWS[0].level, WINDOWS[0].width);
  }

  /**
   * Have a function called whenever a slice has come to the screen.
   * @param {function(): void} listener
   */
  whenPainted(listener) {
    this.#onPaint = listener;
  }

  #offerWindows() {
    const buttons = WINDOWS.map(({ name, level, width }) => {
      const button = element(
        "button",
        { type: "button", "data-window": name, title: `Level ${level}, width ${width}` },
        name,
      );
      button.addEventListener("click", () => this.setWindow(level, width));
      return button;
    });
    byId("presets").replaceChildren(...buttons);
    for (const input of [byId("level"), byId("width")]) {
      input.addEventListener("change", () => this.setWindow(byId("level").valueAsNumber, byId("width").valueAsNumber));
    }
    this.setWindow(this.#window.level, this.#window.width);
  }

  /**
   * Show other Hounsfield units; numbers that are not numbers leave the window as it is.
   * @param {number} level
   * @param {number} width
   */
  setWindow(level, width) {
    if (this.#bag.image.kind !== "hu") return;
    if (Number.isFinite(level) && Number.isFinite(width)) this.#window = windowOf(level, width);
    byId("level").value = this.#window.level;
    byId("width").value = this.#window.width;
    byId("window").textContent = `L ${signed(this.#window.level, 0)}  W ${this.#window.width}`;
    for (const button of byId("presets").children) {
      button.setAttribute("aria-pressed", String(button.dataset.window === this.#window.name));
    }
    this.#paint();
  }

  /**
   * Show an instance.
   * @param {number} index
   */
  show(index) {
    const direction = index < this.#index ? -1 : 1;
    this.#index = index;
    const instance = this.#bag.instances[index];
    const place = capital(placed(this.#words, index, this.#bag.instances.length));
    byId("place").textContent = instance.position === null ? place : `${place}\n${signed(instance.position, 1)} mm`;
    byId("value").textContent =
      `${probability(instance.probability)} ${spread(instance.std)}\n${capital(callOf(this.#words, instance, this.#bag))}${instance.novel ? `\n${capital(UNLIKE)}` : ""}`;
    byId("value").classList.toggle("is-positive", Boolean(instance.called));
    this.#slices?.want(index, direction);
    this.#paint();
  }

  #arrived(index) {
    if (index === this.#index) this.#paint();
  }

  /** Paint what is here: the slice, else its thumbnail until the slice comes. */
  #paint() {
    const { image } = this.#bag;
    const { pixels, problem } = this;
    if (pixels) this.#painter.slice(pixels, image.rows, image.columns, this.#window);
    else if (this.#sprite?.complete && this.#sprite.naturalWidth)
      this.#painter.thumbnail(this.#sprite, image, this.#index);
    else this.#painter.clear();
    byId("canvas").dataset.shown = pixels || !this.#slices ? this.#index : "";
    byId("wait").hidden = Boolean(pixels) || !this.#slices;
    byId("wait").textContent = problem ?? "Loading";
    this.#onPaint();
  }

  /**
   * Hounsfield units under a point of the image.
   * @param {import("./measures.js").Point|null} point null where there is none
   */
  probe(point) {
    const { pixels } = this;
    const { rows, columns } = this.#bag.image;
    const [x, y] = point ? [Math.floor(point.x), Math.floor(point.y)] : [-1, -1];
    const value = pixels && x >= 0 && x < columns && y >= 0 && y < rows ? pixels[y * columns + x] : null;
    byId("probe").textContent = value === null ? "" : `${signed(value, 0)} HU`;
  }
}
