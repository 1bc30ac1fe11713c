/**
 * The mark on the image, a line or a rectangle, and what is measured with it; drawn, or given in numbers.
 * @module
 */

import { byId, shape } from "./dom.js";
import { lengthOf, statisticsOf } from "./measures.js";
import { signed } from "./words.js";

const FIELDS = ["from-column", "from-row", "to-column", "to-row"];
const tenth = (value) => Math.round(10 * value) / 10;

export class Mark {
  #stage;
  #image;
  #kind = null;
  #measuring = false;
  #ends = null;

  /**
   * @param {import("./stage.js").Stage} stage
   * @param {{rows: number, columns: number, spacing: [number, number]|null}} image
   */
  constructor(stage, image) {
    this.#stage = stage;
    this.#image = image;
    byId("marks").setAttribute("viewBox", `0 0 ${image.columns} ${image.rows}`);
    for (const [place, name] of FIELDS.entries()) {
      byId(name).max = place % 2 ? image.rows : image.columns;
      byId(name).addEventListener("change", () => this.#read());
    }
    byId("clear").addEventListener("click", () => this.clear());
  }

  /**
   * Measure something else; what was marked stays only if it is of the same kind.
   * @param {"length"|"region"|null} kind
   */
  choose(kind) {
    this.#measuring = kind !== null;
    if (kind && kind !== this.#kind) {
      this.#kind = kind;
      this.#ends = null;
    }
    if (this.#ends) this.show();
    else this.clear();
  }

  /**
   * Mark from one point of the image to another; points beyond its edges are brought to them.
   * @param {import("./measures.js").Point} from
   * @param {import("./measures.js").Point} to
   */
  draw(from, to) {
    const { rows, columns } = this.#image;
    const inside = ({ x, y }) => ({
      x: tenth(Math.min(columns, Math.max(0, x))),
      y: tenth(Math.min(rows, Math.max(0, y))),
    });
    this.#ends = [inside(from), inside(to)];
    const values = this.#ends.flatMap(({ x, y }) => [x, y]);
    for (const [place, name] of FIELDS.entries()) byId(name).value = values[place];
    this.show();
  }

  /** Take the mark away. */
  clear() {
    this.#ends = null;
    for (const name of FIELDS) byId(name).value = "";
    this.show();
  }

  /** Draw the mark and measure with it in the slice that is shown now. */
  show() {
    byId("measuring").hidden = !this.#measuring && !this.#ends;
    byId("marks").replaceChildren(...(this.#ends ? this.#shapes() : []));
    const { words = "", ...values } = this.#ends ? this.#measured() : {};
    byId("measured").textContent = words;
    byId("measured").dataset.values = JSON.stringify(values);
  }

  #read() {
    const values = FIELDS.map((name) => byId(name).valueAsNumber);
    if (values.every(Number.isFinite)) this.draw({ x: values[0], y: values[1] }, { x: values[2], y: values[3] });
  }

  /** Twice, so that a light line on a dark one is seen on every shade. */
  #shapes() {
    const [from, to] = this.#ends;
    const line = { x1: from.x, y1: from.y, x2: to.x, y2: to.y };
    const box = {
      x: Math.min(from.x, to.x),
      y: Math.min(from.y, to.y),
      width: Math.abs(to.x - from.x),
      height: Math.abs(to.y - from.y),
    };
    const [tag, place] = this.#kind === "length" ? ["line", line] : ["rect", box];
    return ["under", "over"].map((name) => shape(tag, { ...place, class: name }));
  }

  #measured() {
    const [from, to] = this.#ends;
    const { spacing } = this.#image;
    if (this.#kind === "length") {
      const length = lengthOf(from, to, spacing);
      const unknown = "px\n(size of pixels unknown)";
      return { words: `Length ${length.toFixed(1)} ${spacing ? "mm" : unknown}`, length };
    }
    const { pixels } = this.#stage;
    const found = pixels && statisticsOf(pixels, this.#image, from, to);
    if (!found) return { words: pixels ? "No pixel in the region" : "Loading" };
    const { mean, sd, least, most, width, height } = found;
    const area = spacing ? `, ${(width * height * spacing[0] * spacing[1]).toFixed(0)} mm²` : "";
    const lines = [
      `Mean ${signed(mean, 1)} HU, SD ${sd.toFixed(1)}`,
      `${signed(least, 0)} to ${signed(most, 0)} HU`,
      `${width} × ${height} px${area}`,
    ];
    return { words: lines.join("\n"), ...found };
  }
}
