/**
 * A probability and its credible interval on a line from 0 to 1, with the threshold as a tick.
 * @module
 */

import { shape } from "./dom.js";

/**
 * Decoration: the numbers stand beside it as text.
 * @param {{probability: number, lower: number, upper: number, called: boolean|number}} found
 * @param {number} threshold
 * @returns {SVGElement}
 */
export function intervalBar(found, threshold) {
  const x = (value) => `${3 + 94 * value}%`;
  const line = (a, b, name) => shape("line", { x1: x(a), x2: x(b), y1: 8, y2: 8, class: name });
  return shape(
    "svg",
    { class: `interval-bar ${found.called ? "is-positive" : "is-negative"}`, "aria-hidden": "true" },
    line(0, 1, "track"),
    line(found.lower, found.upper, "reach"),
    shape("line", { x1: x(threshold), x2: x(threshold), y1: 1, y2: 15, class: "tick" }),
    shape("circle", { cx: x(found.probability), cy: 8, r: 4, class: "dot" }),
  );
}
