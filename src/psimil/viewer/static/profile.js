/**
 * The profile: probability of every instance with its credible interval, in order; a click leads there.
 * @module
 */

import { shape } from "./dom.js";

const HEIGHT = 190;
const EDGES = { left: 34, right: 12, top: 10, bottom: 34 };

export class Profile {
  #box;
  #bag;
  #onChoose;
  #joined;
  #ends;
  #label;
  #first;
  #index = 0;
  #cursor = null;

  /**
   * @param {HTMLElement} box of fixed height
   * @param {any} bag from /api/bags/{key}
   * @param {{joined: boolean, ends: [string, string], first: number, label: string, onChoose: function(number): void}} options
   *   joined: neighbours belong together, as slices do; ends: names of the two ends of the axis; first: number of
   *   the first instance
   */
  constructor(box, bag, { joined, ends, first, label, onChoose }) {
    this.#box = box;
    this.#bag = bag;
    this.#joined = joined;
    this.#ends = ends;
    this.#first = first;
    this.#onChoose = onChoose;
    this.#label = label;
    box.addEventListener("click", (event) => this.#choose(event));
    new ResizeObserver(() => this.#draw()).observe(box);
  }

  get #span() {
    return Math.max(1, this.#box.clientWidth - EDGES.left - EDGES.right);
  }

  #x(index) {
    const count = this.#bag.instances.length;
    return EDGES.left + (this.#span * (index + 0.5)) / count;
  }

  #y(value) {
    return EDGES.top + (HEIGHT - EDGES.top - EDGES.bottom) * (1 - value);
  }

  #choose(event) {
    const across = event.clientX - this.#box.getBoundingClientRect().left - EDGES.left;
    const count = this.#bag.instances.length;
    this.#onChoose(Math.min(count - 1, Math.max(0, Math.floor((across / this.#span) * count))));
  }

  #draw() {
    const { instances, instance_threshold: threshold } = this.#bag;
    const [left, right] = [EDGES.left, EDGES.left + this.#span];
    const floor = this.#y(0);
    const level = (value, name) =>
      shape("line", { x1: left, x2: right, y1: this.#y(value), y2: this.#y(value), class: name });
    const text = (value, x, y, anchor, name) => shape("text", { x, y, "text-anchor": anchor, class: name }, value);
    this.#cursor = shape("line", { y1: EDGES.top - 4, y2: floor + 5, class: "cursor" });
    const axis = [0, 0.5, 1].flatMap((at) => [level(at, "grid"), text(at, left - 6, this.#y(at) + 4, "end")]);
    const svg = shape(
      "svg",
      { width: this.#box.clientWidth, height: HEIGHT, role: "img", "aria-label": this.#label },
      ...axis,
      ...this.#numbers().map((index) => text(index + this.#first, this.#x(index), floor + 16, "middle")),
      text(this.#ends[0], left, HEIGHT - 3, "start"),
      text(this.#ends[1], right, HEIGHT - 3, "end"),
      ...this.#rug((one) => one.truth === 1, floor + 1, "known"),
      ...this.#rug((one) => one.novel, EDGES.top - 8, "novel"),
      ...(this.#joined ? this.#band() : this.#whiskers()),
      level(threshold, "threshold"),
      this.#cursor,
      ...instances.map((one) =>
        shape("circle", {
          cx: this.#x(one.index),
          cy: this.#y(one.probability),
          r: instances.length > 120 ? 1.8 : 3,
          class: one.called ? "dot is-positive" : "dot is-negative",
        }),
      ),
    );
    this.#box.replaceChildren(svg);
    this.show(this.#index);
  }

  /** Indices with a number under the axis: few enough to stand apart, at round steps. */
  #numbers() {
    const count = this.#bag.instances.length;
    const step =
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((size) => (size * this.#span) / count >= 30) ?? count;
    const found = [0];
    for (let index = step - this.#first; index < count; index += step) if (index > 0) found.push(index);
    return found;
  }

  /** Marks above or below some of the instances. */
  #rug(chosen, y, name) {
    const wide = Math.max(2, (this.#joined ? 1 : 0.5) * (this.#span / this.#bag.instances.length));
    return this.#bag.instances
      .filter(chosen)
      .map((one) => shape("rect", { x: this.#x(one.index) - wide / 2, y, width: wide, height: 4, class: name }));
  }

  #band() {
    const points = (name, list) =>
      list.map((one) => `${this.#x(one.index).toFixed(1)},${this.#y(one[name]).toFixed(1)}`);
    const list = this.#bag.instances;
    const around = [...points("upper", list), ...points("lower", list.toReversed())];
    return [
      shape("polygon", { points: around.join(" "), class: "band" }),
      shape("polyline", { points: points("probability", list).join(" "), class: "curve" }),
    ];
  }

  #whiskers() {
    return this.#bag.instances.map((one) =>
      shape("line", {
        x1: this.#x(one.index),
        x2: this.#x(one.index),
        y1: this.#y(one.lower),
        y2: this.#y(one.upper),
        class: "whisker",
      }),
    );
  }

  /**
   * Put the cursor on an instance.
   * @param {number} index
   */
  show(index) {
    this.#index = index;
    this.#cursor?.setAttribute("x1", this.#x(index));
    this.#cursor?.setAttribute("x2", this.#x(index));
  }
}
