/**
 * Windows of Hounsfield units: which are black, which are white, and the shades between.
 * @module
 */

/** @typedef {{name: string, level: number, width: number}} Window */

/** The windows of psimil.ct.scans.windows; a test holds both lists together. */
export const WINDOWS = [
  { name: "Brain", level: 40, width: 80 },
  { name: "Blood", level: 80, width: 200 },
  { name: "Soft tissue", level: 40, width: 380 },
  { name: "Bone", level: 600, width: 2800 },
];

const LEVELS = [-2000, 4000];
const WIDTHS = [1, 6000];

const within = (value, [low, high]) => Math.min(high, Math.max(low, Math.round(value)));

/**
 * A window with level and width in range, named when it is one of the known.
 * @param {number} level
 * @param {number} width
 * @returns {Window}
 */
export function windowOf(level, width) {
  const own = { level: within(level, LEVELS), width: within(width, WIDTHS) };
  const known = WINDOWS.find((window) => window.level === own.level && window.width === own.width);
  return { name: known?.name ?? "Own", ...own };
}

/**
 * The shade of every 16-bit value, 0 for black to 255 for white, as opaque grey pixels.
 * @param {Window} window
 * @returns {Uint32Array} (65536,) pixels; value v is at v + 32768
 */
export function shades({ level, width }) {
  const table = new Uint32Array(65536);
  const low = level - width / 2;
  for (let place = 0; place < 65536; place += 1) {
    const grey = Math.round(255 * Math.min(1, Math.max(0, (place - 32768 - low) / width)));
    table[place] = 0xff000000 | (grey << 16) | (grey << 8) | grey;
  }
  return table;
}
