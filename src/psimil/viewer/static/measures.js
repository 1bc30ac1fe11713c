/**
 * What is measured in a slice: lengths, and Hounsfield units in a rectangle.
 * @module
 */

/** @typedef {{x: number, y: number}} Point in columns and rows from the upper left corner of the image */

/**
 * The length of a line.
 * @param {Point} from
 * @param {Point} to
 * @param {[number, number]|null} spacing millimetres between rows and between columns
 * @returns {number} in millimetres, or in pixels where the spacing is unknown
 */
export function lengthOf(from, to, spacing) {
  const [down, across] = spacing ?? [1, 1];
  return Math.hypot((to.x - from.x) * across, (to.y - from.y) * down);
}

/**
 * Count, mean, standard deviation, least and largest value of the pixels whose middle is in a rectangle.
 * @param {Int16Array} pixels row after row
 * @param {{rows: number, columns: number}} image
 * @param {Point} from a corner
 * @param {Point} to the corner across
 * @returns {{width: number, height: number, mean: number, sd: number, least: number, most: number}|null} null when
 *   no pixel is in it
 */
export function statisticsOf(pixels, { rows, columns }, from, to) {
  const within = (end, most) => Math.min(most, Math.max(0, Math.round(end)));
  const between = (a, b, most) => [within(Math.min(a, b), most), within(Math.max(a, b), most)];
  const [left, right] = between(from.x, to.x, columns);
  const [top, bottom] = between(from.y, to.y, rows);
  const [width, height] = [right - left, bottom - top];
  if (width * height === 0) return null;
  let [sum, least, most] = [0, Infinity, -Infinity];
  const each = (use) => {
    for (let y = top; y < bottom; y += 1) for (let x = left; x < right; x += 1) use(pixels[y * columns + x]);
  };
  each((value) => {
    sum += value;
    least = Math.min(least, value);
    most = Math.max(most, value);
  });
  const mean = sum / (width * height);
  let squares = 0;
  each((value) => (squares += (value - mean) ** 2));
  return { width, height, mean, sd: Math.sqrt(squares / (width * height)), least, most };
}
