/**
 * What speaks for and against one instance: its telling features, their values and their effects.
 * @module
 */

import { element, shape } from "./dom.js";
import { announced, capital, measured, signed } from "./words.js";

/** An effect as a bar to the right (for positive) or left (against) of the middle. */
function effectBar(effect, largest) {
  const long = 48 * Math.min(1, Math.abs(effect) / largest);
  return shape(
    "svg",
    { class: "effect", viewBox: "0 0 100 12", "aria-hidden": "true", preserveAspectRatio: "none" },
    shape("line", { x1: 50, x2: 50, y1: 0, y2: 12, class: "grid" }),
    shape("rect", {
      x: effect < 0 ? 50 - long : 50,
      y: 2,
      width: long,
      height: 8,
      class: effect < 0 ? "against" : "for",
    }),
  );
}

/** How much of the log-odds an instance owes to itself, and how much to its bag. */
const owedTo = ({ own, bag }, words) =>
  element(
    "p",
    { class: "owed" },
    `Against a mean ${words.instance}, its log-odds owe ${signed(own, 2, true)} to itself and ${signed(bag, 2, true)} to its bag.`,
  );

/**
 * The telling features of the instance that is shown.
 * @param {HTMLElement} box
 * @param {any} bag from /api/bags/{key}
 * @param {number} index
 * @param {{instance: string, first: number}} words
 */
export function showTelling(box, bag, index, words) {
  const instance = bag.instances[index];
  const largest = Math.max(1e-9, ...bag.instances.flatMap((one) => one.telling.map((each) => Math.abs(each.effect))));
  const rows = instance.telling.map(({ name, value, effect }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, name),
      element("td", { class: "number", "data-value": value }, measured(value)),
      element("td", { class: "number", "data-value": effect }, signed(effect, 2, true)),
      element("td", {}, effectBar(effect, largest)),
    ),
  );
  const heads = ["Feature", "Value", "Effect", ""].map((name) =>
    name ? element("th", { scope: "col" }, name) : element("td", {}),
  );
  const table = element(
    "table",
    {},
    element("caption", {}, "Features that move its log-odds most, against the mean of training"),
    element("thead", {}, element("tr", {}, ...heads)),
    element("tbody", {}, ...rows),
  );
  box.replaceChildren(
    element("h2", {}, capital(announced(words, instance, bag.instances.length))),
    ...(instance.owed ? [owedTo(instance.owed, words)] : []),
    instance.telling.length
      ? table
      : element("p", { class: "quiet-text" }, "No telling features were stored for these results."),
  );
}
