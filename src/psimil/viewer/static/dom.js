/**
 * Elements made from data. Text only ever becomes a text node, so no value can turn into markup.
 * @module
 */

const SVG = "http://www.w3.org/2000/svg";

/**
 * Set attributes and add children; false, null and undefined attributes are left out.
 * @param {Element} node
 * @param {Object<string, string|number|boolean|null|undefined>} attributes
 * @param {(Node|string|number|null)[]} children
 */
function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== false && value !== null && value !== undefined)
      node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(
    ...children.filter((child) => child !== null).map((child) => (child instanceof Node ? child : String(child))),
  );
  return node;
}

/**
 * An HTML element.
 * @param {string} tag
 * @param {Object<string, any>} attributes
 * @param {...(Node|string|number|null)} children
 * @returns {HTMLElement}
 */
export const element = (tag, attributes = {}, ...children) => fill(document.createElement(tag), attributes, children);

/**
 * An SVG element.
 * @param {string} tag
 * @param {Object<string, any>} attributes
 * @param {...(Node|string|number|null)} children
 * @returns {SVGElement}
 */
export const shape = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);

/**
 * The element with this id; the templates promise that it is there.
 * @param {string} id
 * @returns {any}
 */
export const byId = (id) => document.getElementById(id);

/**
 * Show a message above the page's content, or in its place when there is none yet.
 * @param {string} message
 */
export function fail(message) {
  const [box, main] = [byId("problem"), byId("main")];
  box.textContent = message;
  box.hidden = false;
  main.classList.toggle("empty", main.hasAttribute("aria-busy"));
  main.removeAttribute("aria-busy");
}
