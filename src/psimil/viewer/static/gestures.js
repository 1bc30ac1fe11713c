/**
 * Wheel, keys, mouse and fingers: how the reader moves through the slices and changes the window.
 * @module
 */

import { byId } from "./dom.js";
import { WINDOWS } from "./window.js";

const PAGE = 10;
const SWIPE = 14; // pixels of a finger per slice
const NOTCH = 40; // pixels of a wheel per slice

/** Keys and where they lead, from index i of n. */
const MOVES = {
  ArrowDown: (i) => i + 1,
  ArrowRight: (i) => i + 1,
  ArrowUp: (i) => i - 1,
  ArrowLeft: (i) => i - 1,
  PageDown: (i) => i + PAGE,
  PageUp: (i) => i - PAGE,
  Home: () => 0,
  End: (_, n) => n - 1,
};

/** Whether keys belong to the element that has the focus: a field for text, numbers or choices. */
const typing = (node) => node instanceof Element && node.closest("textarea, select, input:not([type=range])") !== null;

/**
 * @param {import("./stage.js").Stage} stage
 * @param {{index: function(): number, count: number, first: number, go: function(number): void}} place
 */
export function listen(stage, place) {
  const viewport = byId("viewport");
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey || typing(event.target)) return;
    const move = MOVES[event.key];
    if (!move) return;
    event.preventDefault();
    place.go(move(place.index(), place.count));
  });
  viewport.addEventListener("keydown", (event) => {
    const preset = WINDOWS[Number(event.key) - 1];
    if (preset && !event.ctrlKey && !event.altKey && !event.metaKey) stage.setWindow(preset.level, preset.width);
  });
  wheel(viewport, place);
  drags(viewport, stage, place);
  const slider = byId("slider");
  slider.addEventListener("input", () => place.go(slider.valueAsNumber - place.first));
}

/** A notch of a wheel is a slice; a touchpad's many small steps add up to one. */
function wheel(viewport, place) {
  let rest = 0;
  viewport.addEventListener(
    "wheel",
    (event) => {
      if (event.ctrlKey) return;
      event.preventDefault();
      const coarse = event.deltaMode !== 0 || Math.abs(event.deltaY) >= 80;
      rest = coarse ? Math.sign(event.deltaY) : rest + event.deltaY / NOTCH;
      const steps = Math.trunc(rest);
      rest -= steps;
      if (steps) place.go(place.index() + steps);
    },
    { passive: false },
  );
}

/** A mouse drags the window, as on workstations; a finger swipes through the slices. */
function drags(viewport, stage, place) {
  let start = null;
  viewport.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    start = { x: event.clientX, y: event.clientY, index: place.index(), ...stage.window };
    viewport.setPointerCapture(event.pointerId);
  });
  viewport.addEventListener("pointermove", (event) => {
    const box = byId("canvas").getBoundingClientRect();
    if (event.pointerType !== "touch")
      stage.probe((event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
    if (!start) return;
    const [right, down] = [event.clientX - start.x, event.clientY - start.y];
    if (event.pointerType === "touch") place.go(start.index - Math.trunc(right / SWIPE));
    else if (right || down) stage.setWindow(start.level + down, Math.max(1, start.width + 2 * right));
  });
  for (const end of ["pointerup", "pointercancel"]) viewport.addEventListener(end, () => (start = null));
  viewport.addEventListener("pointerleave", () => stage.probe(-1, -1));
}
