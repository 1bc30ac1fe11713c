/**
 * The camera: how large the image is drawn in the viewport, and which part of it.
 * @module
 */

const MOST = 16; // times as large as the whole image in the viewport

export class Camera {
  #viewport;
  #plane;
  #image;
  #onChange = [];
  #zoom = 1;
  #x = 0; // middle of the image beside the middle of the viewport, in pixels of the screen
  #y = 0;

  /**
   * @param {HTMLElement} viewport
   * @param {HTMLElement} plane that holds the canvas and the marks on it
   * @param {{rows: number, columns: number, spacing: [number, number]|null}} image
   */
  constructor(viewport, plane, image) {
    this.#viewport = viewport;
    this.#plane = plane;
    this.#image = image;
    new ResizeObserver(() => this.#apply()).observe(viewport);
    this.#apply();
  }

  /** @returns {number} times as large as the whole image in the viewport */
  get zoom() {
    return this.#zoom;
  }

  /** Pixels of the screen that a column of the image is wide. */
  get columnWidth() {
    return (this.#zoom * this.#fitted[0]) / this.#image.columns;
  }

  /** Width and height of the whole image in the viewport; pixels that are not square are drawn as they are. */
  get #fitted() {
    const { rows, columns, spacing } = this.#image;
    const [tall, wide] = spacing ? [rows * spacing[0], columns * spacing[1]] : [rows, columns];
    const scale = Math.min(this.#viewport.clientWidth / wide, this.#viewport.clientHeight / tall);
    return [wide * scale, tall * scale];
  }

  /**
   * Have a function called now and whenever the image is drawn in another way.
   * @param {function(): void} listener
   */
  watch(listener) {
    this.#onChange.push(listener);
    listener();
  }

  /**
   * Zoom in or out; the point of the image under a point of the screen stays there.
   * @param {number} factor
   * @param {{x: number, y: number}|null} [at] on the screen; the middle where none is given
   */
  zoomBy(factor, at = null) {
    const box = this.#viewport.getBoundingClientRect();
    const [across, down] = at ? [at.x - box.left - box.width / 2, at.y - box.top - box.height / 2] : [0, 0];
    const zoom = Math.min(MOST, Math.max(1, this.#zoom * factor));
    const grown = zoom / this.#zoom;
    this.#x = across - (across - this.#x) * grown;
    this.#y = down - (down - this.#y) * grown;
    this.#zoom = zoom;
    this.#apply();
  }

  /**
   * Move the image.
   * @param {number} right in pixels of the screen
   * @param {number} down
   */
  panBy(right, down) {
    this.#x += right;
    this.#y += down;
    this.#apply();
  }

  /** The whole image, in the middle. */
  reset() {
    [this.#zoom, this.#x, this.#y] = [1, 0, 0];
    this.#apply();
  }

  /**
   * The place in the image, in columns and rows from its upper left corner, of a point of the screen.
   * @param {{clientX: number, clientY: number}} point
   * @returns {{x: number, y: number}}
   */
  toImage({ clientX, clientY }) {
    const box = this.#plane.getBoundingClientRect();
    const { rows, columns } = this.#image;
    return { x: ((clientX - box.left) / box.width) * columns, y: ((clientY - box.top) / box.height) * rows };
  }

  /** Draw; the middle of the viewport never leaves the image, so that it cannot be lost. */
  #apply() {
    const [width, height] = this.#fitted.map((side) => side * this.#zoom);
    const near = (value, most) => Math.min(most, Math.max(-most, value));
    this.#x = this.#zoom > 1 ? near(this.#x, width / 2) : 0;
    this.#y = this.#zoom > 1 ? near(this.#y, height / 2) : 0;
    Object.assign(this.#plane.style, {
      width: `${width}px`,
      height: `${height}px`,
      transform: `translate(-50%, -50%) translate(${this.#x}px, ${this.#y}px)`,
    });
    this.#viewport.dataset.zoom = this.#zoom.toFixed(3);
    this.#viewport.classList.toggle("is-zoomed", this.#zoom > 1);
    for (const listener of this.#onChange) listener();
  }
}
