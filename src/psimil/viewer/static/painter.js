/**
 * Slices and thumbnails on the canvas.
 * @module
 */

import { shades } from "./window.js";

export class Painter {
  #canvas;
  #context;
  #image = null;
  #window = null;
  #shades = null;

  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.#canvas = canvas;
    this.#context = canvas.getContext("2d", { alpha: false });
  }

  /** Make the canvas as large as the image in pixels; style sheets scale it to its box. */
  #fit(rows, columns) {
    if (this.#canvas.width === columns && this.#canvas.height === rows) return;
    this.#canvas.width = columns;
    this.#canvas.height = rows;
    this.#image = null;
  }

  /**
   * @param {Int16Array} pixels Hounsfield units, row after row
   * @param {number} rows
   * @param {number} columns
   * @param {import("./window.js").Window} window
   */
  slice(pixels, rows, columns, window) {
    this.#fit(rows, columns);
    if (this.#window?.level !== window.level || this.#window?.width !== window.width) {
      this.#window = window;
      this.#shades = shades(window);
    }
    this.#image ??= this.#context.createImageData(columns, rows);
    const grey = new Uint32Array(this.#image.data.buffer);
    const table = this.#shades;
    for (let place = 0; place < grey.length; place += 1) grey[place] = table[pixels[place] + 32768];
    this.#context.putImageData(this.#image, 0, 0);
  }

  /**
   * One thumbnail of the sprite.
   * @param {HTMLImageElement} sprite
   * @param {{sprite_columns: number, thumb_rows: number, thumb_columns: number}} grid
   * @param {number} index
   */
  thumbnail(sprite, grid, index) {
    const { sprite_columns: across, thumb_rows: rows, thumb_columns: columns } = grid;
    this.#fit(rows, columns);
    const left = (index % across) * columns;
    const top = Math.floor(index / across) * rows;
    this.#context.drawImage(sprite, left, top, columns, rows, 0, 0, columns, rows);
  }

  /** Black, as before the first slice. */
  clear() {
    this.#context.fillRect(0, 0, this.#canvas.width, this.#canvas.height);
  }
}
