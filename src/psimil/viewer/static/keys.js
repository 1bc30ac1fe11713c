/**
 * Every key of the page with images, in one list: what listens to keys and the help about them are made of it.
 * @module
 */

import { byId, element } from "./dom.js";
import { WINDOWS } from "./window.js";

const PAGE = 10;
const STEP = 40; // pixels of the screen that a key moves the image

/** @typedef {{keys: string[], label: string, does: string, act: function(): void, anywhere?: boolean}} Binding */

/**
 * @param {import("./stage.js").Stage} stage
 * @param {{index: function(): number, count: number, go: function(number): void}} place
 * @param {import("./camera.js").Camera} camera
 * @param {import("./tools.js").Tools} tools
 * @param {{instance: string, instances: string}} words
 * @returns {Binding[]} those that work anywhere on the page, then those that work while image or tools have the focus
 */
export function bindingsOf(stage, place, camera, tools, { instance, instances }) {
  const by = (steps) => () => place.go(place.index() + steps);
  const moves = [
    { keys: ["ArrowDown", "ArrowRight"], label: "↓ →", does: `Next ${instance}`, act: by(1) },
    { keys: ["ArrowUp", "ArrowLeft"], label: "↑ ←", does: `Previous ${instance}`, act: by(-1) },
    { keys: ["PageDown"], label: "Page Down", does: `${PAGE} ${instances} on`, act: by(PAGE) },
    { keys: ["PageUp"], label: "Page Up", does: `${PAGE} ${instances} back`, act: by(-PAGE) },
    { keys: ["Home"], label: "Home", does: `First ${instance}`, act: () => place.go(0) },
    { keys: ["End"], label: "End", does: `Last ${instance}`, act: () => place.go(place.count - 1) },
  ].map((binding) => ({ ...binding, anywhere: true }));
  const pan = (name, right, down) => ({
    keys: [`Shift+Arrow${name}`],
    label: `Shift ${{ Left: "←", Right: "→", Up: "↑", Down: "↓" }[name]}`,
    does: `Move the image ${name === "Up" || name === "Down" ? name.toLowerCase() : `to the ${name.toLowerCase()}`}`,
    act: () => camera.panBy(right * STEP, down * STEP),
  });
  const measuring = [
    ...WINDOWS.map(({ name, level, width }, number) => ({
      keys: [String(number + 1)],
      label: String(number + 1),
      does: `Window ${name}, level ${level}, width ${width}`,
      act: () => stage.setWindow(level, width),
    })),
    { keys: ["w"], label: "W", does: "Drag to change the window", act: () => tools.use("window") },
    { keys: ["m"], label: "M", does: "Drag to move the image", act: () => tools.use("pan") },
    { keys: ["l"], label: "L", does: "Drag to measure a length", act: () => tools.use("length") },
    { keys: ["a"], label: "A", does: "Drag to measure an area, a region", act: () => tools.use("region") },
    { keys: ["Delete", "Backspace"], label: "Delete", does: "Clear the measurement", act: () => tools.mark.clear() },
  ];
  return [
    ...moves,
    { keys: ["+", "="], label: "+", does: "Zoom in", act: () => tools.zoom(1) },
    { keys: ["-", "_"], label: "−", does: "Zoom out", act: () => tools.zoom(-1) },
    pan("Left", -1, 0),
    pan("Right", 1, 0),
    pan("Up", 0, -1),
    pan("Down", 0, 1),
    { keys: ["0", "r"], label: "0 or R", does: "Reset zoom, place, window and inversion", act: () => tools.reset() },
    { keys: ["i"], label: "I", does: "Invert: black for white", act: () => tools.invert() },
    ...(tools.heat ? [{ keys: ["e"], label: "E", does: "Heat map: show or hide", act: () => tools.heat.toggle() }] : []),
    { keys: ["p"], label: "P", does: `Play the ${instances}, or pause`, act: () => tools.play() },
    { keys: ["f"], label: "F", does: "Full screen, or back", act: () => tools.full() },
    ...(tools.mark ? measuring : []),
    { keys: ["?", "h"], label: "? or H", does: "This list", act: () => byId("help").showModal() },
  ];
}

/** Whether keys belong to the element that has the focus: a field for text, numbers or choices. */
const typing = (node) => node instanceof Element && node.closest("textarea, select, input:not([type=range])") !== null;

/** The name of a key: letters in lower case, and Shift only where it does not make the character. */
const nameOf = ({ key, shiftKey }) => (key.length === 1 ? key.toLowerCase() : `${shiftKey ? "Shift+" : ""}${key}`);

/**
 * Listen to keys, and list them in the help.
 * @param {Binding[]} bindings
 */
export function listenToKeys(bindings) {
  const byKey = new Map(bindings.flatMap((binding) => binding.keys.map((key) => [key, binding])));
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || typing(event.target) || byId("help").open) return;
    const binding = byKey.get(nameOf(event));
    if (!binding || !(binding.anywhere || byId("stage").contains(event.target))) return;
    event.preventDefault();
    binding.act();
  });
  const row = ({ label, does, anywhere }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, element("kbd", {}, label)),
      element("td", {}, does),
      element("td", { class: "quiet-text" }, anywhere ? "anywhere" : "on the image"),
    );
  byId("help-keys").replaceChildren(...bindings.map(row));
  byId("show-help").addEventListener("click", () => byId("help").showModal());
  byId("close-help").addEventListener("click", () => byId("help").close());
}
