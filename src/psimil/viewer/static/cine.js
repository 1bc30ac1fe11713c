/**
 * Cine: the slices one after the other, again and again, until it is stopped or the reader goes elsewhere.
 * @module
 */

import { byId } from "./dom.js";

const USUAL = 10; // slices per second
const SLOW = 2; // for readers who asked their system for less motion
const FASTEST = 30;

export class Cine {
  #stage;
  #place;
  #timer = 0;
  #at = 0;

  /**
   * @param {import("./stage.js").Stage} stage
   * @param {{index: function(): number, count: number, go: function(number, boolean=): void}} place
   */
  constructor(stage, place) {
    this.#stage = stage;
    this.#place = place;
    byId("speed").value = matchMedia("(prefers-reduced-motion: reduce)").matches ? SLOW : USUAL;
    byId("speed").addEventListener("change", () => this.#timer && this.#start());
  }

  /** Start, or stop. */
  toggle() {
    if (this.#timer) this.stop();
    else this.#start();
  }

  /** Stay at the slice that is shown. */
  stop() {
    clearInterval(this.#timer);
    this.#timer = 0;
    this.#tell("Play", false);
  }

  #start() {
    clearInterval(this.#timer);
    const asked = byId("speed").valueAsNumber;
    const speed = Math.min(FASTEST, Math.max(1, Number.isFinite(asked) ? asked : USUAL));
    byId("speed").value = speed;
    this.#at = this.#place.index();
    this.#timer = setInterval(() => this.#step(), 1000 / speed);
    this.#tell("Pause", true);
  }

  #tell(word, playing) {
    byId("play").textContent = word;
    byId("play").setAttribute("aria-pressed", String(playing));
  }

  /** The next slice, once this one is on the screen. */
  #step() {
    if (document.hidden || this.#stage.problem || this.#place.index() !== this.#at) return this.stop();
    if (byId("canvas").dataset.shown !== String(this.#at)) return;
    this.#at = (this.#at + 1) % this.#place.count;
    this.#place.go(this.#at, false);
  }
}
