/**
 * The sides of the patient at the edges of the image, as the server reads them from the files. Nothing here turns or
 * mirrors an image, so they hold however it is zoomed and moved.
 * @module
 */

import { byId } from "./dom.js";

const NAMES = { A: "front", P: "back", R: "right", L: "left", H: "head", F: "feet" };
const UNKNOWN = "Orientation unknown";

const named = (letters) => [...letters].map((letter) => NAMES[letter]).join(" and ");

/**
 * @param {{left: string, right: string, top: string, bottom: string}|null} edges null where they are unknown
 */
export function showEdges(edges) {
  for (const side of ["left", "right", "top", "bottom"]) byId(`edge-${side}`).textContent = edges?.[side] ?? "";
  byId("unoriented").textContent = edges ? "" : UNKNOWN;
  byId("strip-edges").textContent = edges
    ? `Every image: left edge ${edges.left}, right edge ${edges.right}, top ${edges.top}, bottom ${edges.bottom}.`
    : `${UNKNOWN}: the results do not say which side of the patient is where.`;
  byId("sides").textContent = edges
    ? `Left edge of the image: ${named(edges.left)} of the patient. Right edge: ${named(edges.right)}. Top: ${named(edges.top)}. Bottom: ${named(edges.bottom)}.`
    : UNKNOWN;
}
