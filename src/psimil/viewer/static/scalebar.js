/**
 * The scale bar: a round length beside the image, in pixels where the files do not say how large those are.
 * @module
 */

import { byId } from "./dom.js";

const SHARE = 0.25; // of the width of the viewport that it takes at most

/**
 * The largest of 1, 2, 5, 10, 20, 50, ... that is not above a number.
 * @param {number} most above 0
 * @returns {number}
 */
export function round(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  return power * [5, 2, 1].find((step) => step * power <= most * (1 + 1e-9));
}

/**
 * Draw the bar for what the camera shows.
 * @param {import("./camera.js").Camera} camera
 * @param {{spacing: [number, number]|null}} image
 */
export function showScale(camera, { spacing }) {
  const unit = camera.columnWidth / (spacing ? spacing[1] : 1); // pixels of the screen for a millimetre
  const length = round((SHARE * byId("viewport").clientWidth) / unit || 1);
  byId("scale").style.width = `${length * unit}px`;
  byId("scale-text").textContent = spacing ? `${length} mm` : `${length} px, size of pixels unknown`;
}
