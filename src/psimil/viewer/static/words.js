/**
 * Numbers and names as a reader sees them.
 * @module
 */

const KINDS = {
  ct: { bag: "scan", bags: "scans", instance: "slice", instances: "slices", first: 1 },
  images: { bag: "bag", bags: "bags", instance: "image", instances: "images", first: 0 },
  features: { bag: "bag", bags: "bags", instance: "instance", instances: "instances", first: 0 },
};

/** What is said of bags and instances whose novelty is above one half. */
export const UNLIKE = "unlike the training data";

/**
 * What bags and instances are called in a set of results, and the number of the first instance: slices are counted
 * from 1, as in DICOM reports, instances from 0, as in tables.
 * @param {string} kind "ct", "images" or "features"
 * @returns {{bag: string, bags: string, instance: string, instances: string, first: number}}
 */
export const wordsOf = (kind) => KINDS[kind] ?? KINDS.features;

/**
 * @param {string} text
 * @returns {string} with a capital
 */
export const capital = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/**
 * A count with its noun.
 * @param {number} n
 * @param {string} one
 * @param {string} many
 */
export const counted = (n, one, many) => `${n.toLocaleString("en")} ${n === 1 ? one : many}`;

/**
 * A probability with two decimals, three near 0 and 1; what is neither 0 nor 1 is never written as if it were.
 * @param {number} value
 * @returns {string}
 */
export function probability(value) {
  if (value > 0 && value < 0.0005) return "< 0.001";
  if (value >= 0.9995 && value < 1) return "> 0.999";
  return value.toFixed(value > 0 && value < 1 && (value < 0.01 || value >= 0.99) ? 3 : 2);
}

/**
 * A standard deviation after its sign.
 * @param {number} std
 * @returns {string}
 */
export const spread = (std) =>
  std > 0 && std < 0.0005 ? "± < 0.001" : `± ${std.toFixed(std > 0 && std < 0.005 ? 3 : 2)}`;

/**
 * The two ends of an interval.
 * @param {number} lower
 * @param {number} upper
 * @returns {string}
 */
export function interval(lower, upper) {
  const [from, to] = [probability(lower), probability(upper)];
  if (from !== to) return `${from} to ${to}`;
  return from.replace("<", "below").replace(">", "above");
}

/**
 * A number with a true minus sign.
 * @param {number} value
 * @param {number} digits after the point
 * @param {boolean} [plus] whether a positive number gets its sign
 */
export function signed(value, digits, plus = false) {
  const text = Math.abs(value).toFixed(digits);
  const sign = value < 0 && Number(text) !== 0 ? "−" : plus ? "+" : "";
  return sign + text;
}

/**
 * A measured value with at most four telling digits.
 * @param {number} value
 * @returns {string}
 */
export const measured = (value) => String(Number(value.toPrecision(4))).replace("-", "−");

/**
 * @param {number|boolean|null} label
 * @returns {string}
 */
export const labelled = (label) =>
  label === null || label === undefined ? "unknown" : label ? "positive" : "negative";

/**
 * "slice 12 of 30", or "instance 3 (0 to 9)" where the first has number 0.
 * @param {{instance: string, first: number}} words
 * @param {number} index from 0
 * @param {number} count
 */
export const placed = ({ instance, first }, index, count) =>
  first ? `${instance} ${index + first} of ${count}` : `${instance} ${index} (0 to ${count - 1})`;

/**
 * "slice 12 of 30, probability 0.93 ± 0.05": what is said when the reader moves; and if it is unlike the training data.
 * @param {{instance: string, first: number}} words
 * @param {{index: number, probability: number, std: number, novel: boolean}} instance
 * @param {number} count
 */
export const announced = (words, instance, count) =>
  `${placed(words, instance.index, count)}, probability ${probability(instance.probability)} ${spread(instance.std)}${instance.novel ? `, ${UNLIKE}` : ""}`;

/**
 * What an instance is called; in a bag called negative, none is "positive": it reaches the threshold of instances.
 * @param {{instance: string}} words
 * @param {{called: number|boolean}} instance
 * @param {{called: number|boolean}} bag
 */
export const callOf = (words, instance, bag) =>
  instance.called && !bag.called ? `above the ${words.instance} threshold` : labelled(instance.called);
