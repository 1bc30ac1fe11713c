/**
 * Slices of one scan, fetched as they are needed and a few ahead, and kept while memory allows.
 * @module
 */

import { getSlice } from "./api.js";

const AHEAD = 5;
const AT_ONCE = 3;
const KEPT_BYTES = 128 * 1024 * 1024;

export class Slices {
  #key;
  #count;
  #onArrival;
  #kept = new Map();
  #bytes = 0;
  #coming = new Set();
  #failed = new Map();
  #wanted = [];

  /**
   * @param {string} key of the scan
   * @param {number} count of its slices
   * @param {function(number): void} onArrival called with the index of a slice that came, or failed to
   */
  constructor(key, count, onArrival) {
    this.#key = key;
    this.#count = count;
    this.#onArrival = onArrival;
  }

  /**
   * The pixels of a slice if they are here.
   * @param {number} index
   * @returns {Int16Array|undefined}
   */
  get(index) {
    return this.#kept.get(index);
  }

  /**
   * Why a slice did not come, if it did not.
   * @param {number} index
   * @returns {string|undefined}
   */
  problem(index) {
    return this.#failed.get(index);
  }

  /**
   * Ask for a slice and its neighbours, nearest first, the way the reader is going before the other.
   * @param {number} index
   * @param {number} direction 1 or -1
   */
  want(index, direction) {
    const near = [index];
    for (let step = 1; step <= AHEAD; step += 1) near.push(index + direction * step, index - direction * step);
    this.#wanted = near.filter((place) => place >= 0 && place < this.#count);
    this.#failed.delete(index);
    this.#fetchMore();
  }

  #fetchMore() {
    while (this.#coming.size < AT_ONCE) {
      const next = this.#wanted.find((i) => !this.#kept.has(i) && !this.#coming.has(i) && !this.#failed.has(i));
      if (next === undefined) return;
      this.#fetch(next);
    }
  }

  async #fetch(index) {
    this.#coming.add(index);
    try {
      this.#keep(index, await getSlice(this.#key, index));
    } catch (error) {
      this.#failed.set(index, error.message);
    }
    this.#coming.delete(index);
    this.#onArrival(index);
    this.#fetchMore();
  }

  /** Keep a slice; those kept longest and not wanted now make room. */
  #keep(index, pixels) {
    this.#kept.set(index, pixels);
    this.#bytes += pixels.byteLength;
    for (const [place, old] of this.#kept) {
      if (this.#bytes <= KEPT_BYTES) return;
      if (this.#wanted.includes(place)) continue;
      this.#kept.delete(place);
      this.#bytes -= old.byteLength;
    }
  }
}
