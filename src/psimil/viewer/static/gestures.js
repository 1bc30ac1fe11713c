/**
 * Wheel, mouse and fingers: how the reader moves through the slices, changes the window, zooms, moves and measures.
 * @module
 */

import { byId } from "./dom.js";

const SWIPE = 14; // pixels of a finger per slice
const NOTCH = 40; // pixels of a wheel per slice
const ZOOM = 0.005; // of a wheel's pixel, up to a notch

/**
 * @param {import("./stage.js").Stage} stage
 * @param {{index: function(): number, count: number, first: number, go: function(number): void}} place
 * @param {import("./camera.js").Camera} camera
 * @param {import("./tools.js").Tools} tools
 */
export function listen(stage, place, camera, tools) {
  const viewport = byId("viewport");
  wheel(viewport, place, camera);
  drags(viewport, stage, place, camera, tools);
  pinches(viewport, camera);
  const slider = byId("slider");
  slider.addEventListener("input", () => place.go(slider.valueAsNumber - place.first));
}

/** A notch of a wheel is a slice; a touchpad's many small steps add up to one. With Ctrl, or pinched, it zooms. */
function wheel(viewport, place, camera) {
  let rest = 0;
  viewport.addEventListener(
    "wheel",
    (event) => {
      event.preventDefault();
      if (event.ctrlKey) {
        const pixels = Math.min(NOTCH, Math.max(-NOTCH, event.deltaMode === 0 ? event.deltaY : NOTCH * event.deltaY));
        camera.zoomBy(Math.exp(-ZOOM * pixels), { x: event.clientX, y: event.clientY });
        return;
      }
      const coarse = event.deltaMode !== 0 || Math.abs(event.deltaY) >= 80;
      rest = coarse ? Math.sign(event.deltaY) : rest + event.deltaY / NOTCH;
      const steps = Math.trunc(rest);
      rest -= steps;
      if (steps) place.go(place.index() + steps);
    },
    { passive: false },
  );
}

/** What a drag does: as the tools say; the middle button and Shift move, one finger swipes through the slices. */
function wayOf(event, camera, tools) {
  if (event.button === 1 || event.shiftKey) return "pan";
  const swipes = event.pointerType === "touch" && ["window", "pan"].includes(tools.drag) && camera.zoom === 1;
  return swipes ? "swipe" : event.pointerType === "touch" && tools.drag === "window" ? "pan" : tools.drag;
}

function drags(viewport, stage, place, camera, tools) {
  let start = null;
  const follow = {
    window: ({ right, down }) => stage.setWindow(start.level + down, Math.max(1, start.width + 2 * right)),
    swipe: ({ right }) => place.go(start.index - Math.trunc(right / SWIPE)),
    pan: ({ event }) => {
      camera.panBy(event.clientX - start.last.x, event.clientY - start.last.y);
      start.last = { x: event.clientX, y: event.clientY };
    },
    length: ({ event }) => tools.mark.draw(start.from, camera.toImage(event)),
    region: ({ event }) => tools.mark.draw(start.from, camera.toImage(event)),
  };
  viewport.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary) start = null; // a second finger: the two pinch
    if (!event.isPrimary || event.button > 1) return;
    const { clientX: x, clientY: y } = event;
    const from = camera.toImage(event);
    start = { x, y, last: { x, y }, from, way: wayOf(event, camera, tools), index: place.index(), ...stage.window };
    viewport.setPointerCapture(event.pointerId);
  });
  viewport.addEventListener("mousedown", (event) => event.button === 1 && event.preventDefault());
  viewport.addEventListener("pointermove", (event) => {
    if (event.pointerType !== "touch") stage.probe(camera.toImage(event));
    if (!start || !event.isPrimary) return;
    const [right, down] = [event.clientX - start.x, event.clientY - start.y];
    if (right || down) follow[start.way]({ event, right, down });
  });
  for (const end of ["pointerup", "pointercancel"]) viewport.addEventListener(end, () => (start = null));
  viewport.addEventListener("pointerleave", () => stage.probe(null));
}

/** Two fingers zoom and move the image; the page stays where it is. */
function pinches(viewport, camera) {
  let before = null;
  const follow = (event) => {
    if (event.touches.length !== 2) return;
    event.preventDefault();
    const [a, b] = event.touches;
    const now = {
      x: (a.clientX + b.clientX) / 2,
      y: (a.clientY + b.clientY) / 2,
      apart: Math.max(1, Math.hypot(a.clientX - b.clientX, a.clientY - b.clientY)),
    };
    if (before) {
      camera.panBy(now.x - before.x, now.y - before.y);
      camera.zoomBy(now.apart / before.apart, now);
    }
    before = now;
  };
  for (const name of ["touchstart", "touchmove"]) viewport.addEventListener(name, follow, { passive: false });
  for (const end of ["touchend", "touchcancel"]) viewport.addEventListener(end, () => (before = null));
}
