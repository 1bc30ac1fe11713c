/**
 * The tools beside the image: what dragging does, zoom, reset, inversion, cine, full screen.
 * @module
 */

import { byId } from "./dom.js";

const STEP = 1.25; // of the zoom

export class Tools {
  #stage;
  #camera;
  #cine;
  #mark;
  #heat;
  #drag = "window";

  /**
   * @param {import("./stage.js").Stage} stage
   * @param {import("./camera.js").Camera} camera
   * @param {import("./cine.js").Cine} cine
   * @param {import("./mark.js").Mark|null} mark null where there are no Hounsfield units to measure in
   * @param {import("./heat.js").Heat|null} heat null where there is no heat map
   */
  constructor(stage, camera, cine, mark, heat) {
    this.#stage = stage;
    this.#camera = camera;
    this.#cine = cine;
    this.#mark = mark;
    this.#heat = heat;
    byId("drags").hidden = !mark;
    for (const button of byId("drags").children) button.addEventListener("click", () => this.use(button.dataset.drag));
    for (const name of ["play", "invert", "reset"]) byId(name).addEventListener("click", () => this[name]());
    byId("zoom-in").addEventListener("click", () => this.zoom(1));
    byId("zoom-out").addEventListener("click", () => this.zoom(-1));
    byId("full").hidden = !document.fullscreenEnabled;
    byId("full").addEventListener("click", () => this.full());
    document.addEventListener("fullscreenchange", () =>
      byId("full").setAttribute("aria-pressed", String(document.fullscreenElement !== null)),
    );
    this.use(mark ? "window" : "pan");
  }

  /** What dragging does: "window", "pan", "length" or "region". */
  get drag() {
    return this.#drag;
  }

  /** @returns {import("./mark.js").Mark|null} */
  get mark() {
    return this.#mark;
  }

  /**
   * Drag for something else.
   * @param {"window"|"pan"|"length"|"region"} drag
   */
  use(drag) {
    if (!this.#mark && drag !== "pan") return;
    this.#drag = drag;
    byId("viewport").dataset.drag = drag;
    for (const button of byId("drags").children)
      button.setAttribute("aria-pressed", String(button.dataset.drag === drag));
    this.#mark?.choose(["length", "region"].includes(drag) ? drag : null);
  }

  /** @param {number} steps above 0 to zoom in */
  zoom(steps) {
    this.#camera.zoomBy(STEP ** steps);
  }

  /** @returns {import("./heat.js").Heat|null} */
  get heat() {
    return this.#heat;
  }

  /** Black for white, or back. */
  invert() {
    this.#stage.inverted = !this.#stage.inverted;
  }

  /** The whole image in its first window; marks stay. */
  reset() {
    this.#camera.reset();
    this.#stage.reset();
  }

  /** Start or stop the cine. */
  play() {
    this.#cine.toggle();
  }

  /** Image and tools on the whole screen, or back; a browser that refuses leaves all as it is. */
  full() {
    const change = document.fullscreenElement ? document.exitFullscreen() : byId("stage").requestFullscreen();
    change.catch(() => {});
  }
}
