/**
 * Reliability: the share of positives in bins of the probability, against the probability.
 * @module
 */

import { shape } from "./dom.js";

const SIZE = 220;
const LEFT = 34;
const BOTTOM = 30;

/**
 * @param {{mean: (number|null)[], share: (number|null)[], count: number[]}} bins
 * @returns {SVGElement}
 */
export function reliabilityPlot(bins) {
  const side = SIZE - LEFT - 8;
  const x = (value) => LEFT + side * value;
  const y = (value) => 8 + side * (1 - value);
  const most = Math.max(...bins.count, 1);
  const filled = bins.count.flatMap((count, bin) =>
    count && bins.mean[bin] !== null && bins.share[bin] !== null ? [[bins.mean[bin], bins.share[bin], count]] : [],
  );
  const text = (value, attributes) => shape("text", attributes, value);
  const ticks = [0, 0.5, 1].flatMap((at) => [
    shape("line", { x1: x(0), x2: x(1), y1: y(at), y2: y(at), class: "grid" }),
    text(at, { x: LEFT - 6, y: y(at) + 4, "text-anchor": "end" }),
    text(at, { x: x(at), y: y(0) + 15, "text-anchor": "middle" }),
  ]);
  const said = filled.map(([mean, share, n]) => `${share.toFixed(2)} of ${n} at ${mean.toFixed(2)}`).join("; ");
  return shape(
    "svg",
    {
      viewBox: `0 0 ${SIZE} ${SIZE - 8 + BOTTOM - 14}`,
      role: "img",
      "aria-label": `Share of positives by probability: ${said}`,
    },
    ...ticks,
    shape("line", { x1: x(0), y1: y(0), x2: x(1), y2: y(1), class: "ideal" }),
    shape("polyline", { points: filled.map(([mean, share]) => `${x(mean)},${y(share)}`).join(" "), class: "curve" }),
    ...filled.map(([mean, share, n]) =>
      shape("circle", { cx: x(mean), cy: y(share), r: 3 + 4 * Math.sqrt(n / most), class: "dot" }),
    ),
    text("probability", { x: x(0.5), y: y(0) + 28, "text-anchor": "middle" }),
  );
}
