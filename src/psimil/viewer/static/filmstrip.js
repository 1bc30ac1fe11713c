/**
 * The filmstrip: every instance small, in a frame that tells its call, with its probability as text.
 * @module
 */

import { element } from "./dom.js";
import { UNLIKE, announced, callOf, capital, labelled, probability } from "./words.js";

const SIDE = 84; // pixels of the longest side of a picture

export class Filmstrip {
  #list;
  #buttons;
  #index = 0;

  /**
   * @param {HTMLElement} list an ol
   * @param {any} bag from /api/bags/{key}
   * @param {{instance: string}} words
   * @param {function(number): void} onChoose
   */
  constructor(list, bag, words, onChoose) {
    this.#list = list;
    this.#buttons = bag.instances.map((one) => button(one, bag, words, onChoose));
    list.replaceChildren(...this.#buttons.map((node) => element("li", {}, node)));
  }

  /**
   * Mark an instance and bring it in sight; only it can be reached with Tab, arrows do the rest.
   * @param {number} index
   */
  show(index) {
    const [before, now] = [this.#buttons[this.#index], this.#buttons[index]];
    before.removeAttribute("aria-current");
    before.tabIndex = -1;
    now.setAttribute("aria-current", "true");
    now.tabIndex = 0;
    this.#index = index;
    const item = now.parentElement;
    this.#list.scrollLeft = item.offsetLeft - (this.#list.clientWidth - item.offsetWidth) / 2;
  }
}

function button(one, bag, words, onChoose) {
  const known = one.truth === null ? "" : `, known ${labelled(one.truth)}`;
  const node = element(
    "button",
    {
      type: "button",
      tabindex: -1,
      class: `${one.called ? "is-positive" : "is-negative"}${one.novel ? " is-novel" : ""}`,
      title: one.novel ? capital(UNLIKE) : null,
      "aria-label": `${announced(words, one, bag.instances.length)}, ${callOf(words, one, bag)}${known}`,
    },
    picture(one.index, bag),
    element(
      "span",
      { class: "number" },
      element("span", { class: "which" }, one.index + words.first),
      probability(one.probability),
    ),
  );
  node.addEventListener("click", () => onChoose(one.index));
  return node;
}

/** A window on the sprite, scaled so that the longest side of a thumbnail is SIDE pixels. */
function picture(index, bag) {
  const { sprite_columns: across, thumb_rows: rows, thumb_columns: columns } = bag.image;
  const scale = SIDE / Math.max(rows, columns);
  const lines = Math.ceil(bag.instances.length / across);
  const node = element("span", { class: rows <= 64 ? "picture coarse" : "picture" });
  Object.assign(node.style, {
    width: `${columns * scale}px`,
    height: `${rows * scale}px`,
    backgroundImage: `url("/api/bags/${encodeURIComponent(bag.key)}/sprite")`,
    backgroundSize: `${across * columns * scale}px ${lines * rows * scale}px`,
    backgroundPosition: `${-(index % across) * columns * scale}px ${-Math.floor(index / across) * rows * scale}px`,
  });
  return node;
}
