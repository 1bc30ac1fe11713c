/**
 * Every instance in a table: the profile and the filmstrip in words and numbers.
 * @module
 */

import { element } from "./dom.js";
import { UNLIKE, callOf, capital, interval, labelled, measured, probability, signed, spread } from "./words.js";

const PAGE = 500;
const VERDICTS = { agree: "agrees", disagree: "disagrees" };

/**
 * Fill the table; rows beyond the first 500 come when they are asked for.
 * @param {HTMLElement} table
 * @param {any} bag from /api/bags/{key}
 * @param {{instance: string, first: number}} words
 * @param {number} level of the intervals
 * @param {function(number): void} onChoose
 */
export function fillValues(table, bag, words, level, onChoose) {
  const placed = bag.instances.some((one) => one.position !== null);
  const known = bag.instances.some((one) => one.truth !== null);
  const novelty = bag.instances.some((one) => one.novelty !== null);
  const telling = bag.instances.some((one) => one.telling.length);
  const owed = bag.instances.some((one) => one.owed !== null);
  const heads = [
    capital(words.instance),
    ...(placed ? ["Position"] : []),
    "Probability",
    "Uncertainty",
    `${Math.round(100 * level)} % interval`,
    ...(novelty ? ["Novelty"] : []),
    "Model",
    ...(known ? ["Known"] : []),
    ...(telling ? ["Telling features"] : []),
    ...(owed ? ["Owed to itself", "Owed to its bag"] : []),
    "Reader",
  ];
  const row = (one) => {
    const choose = element("button", { type: "button", class: "quiet" }, one.index + words.first);
    choose.addEventListener("click", () => onChoose(one.index));
    const number = (value, text) => element("td", { class: "number", "data-value": value }, text);
    return element(
      "tr",
      { "data-index": one.index },
      element("th", { scope: "row" }, choose),
      ...(placed ? [number(one.position, `${signed(one.position, 1)} mm`)] : []),
      number(one.probability, probability(one.probability)),
      number(one.std, spread(one.std)),
      element("td", { class: "number" }, interval(one.lower, one.upper)),
      ...(novelty
        ? [number(one.novelty, probability(one.novelty) + (one.novel ? `, ${UNLIKE}` : ""))]
        : []),
      element("td", {}, capital(callOf(words, one, bag))),
      ...(known ? [element("td", {}, one.truth === null ? "" : capital(labelled(one.truth)))] : []),
      ...(telling ? [element("td", { class: "telling" }, named(one.telling))] : []),
      ...(owed ? [one.owed.own, one.owed.bag].map((value) => number(value, signed(value, 2, true))) : []),
      element("td", {}, one.verdict ? capital(VERDICTS[one.verdict]) : ""),
    );
  };
  const body = element("tbody");
  const more = element("button", { type: "button" }, "Show more");
  const add = () => {
    const from = body.children.length;
    body.append(...bag.instances.slice(from, from + PAGE).map(row));
    more.hidden = body.children.length === bag.instances.length;
  };
  more.addEventListener("click", add);
  add();
  table.replaceChildren(
    element("caption", { class: "unseen" }, `Predictions of every ${words.instance}`),
    element("thead", {}, element("tr", {}, ...heads.map((name) => element("th", { scope: "col" }, name)))),
    body,
  );
  table.after(more);
}

/** The first features in words: name, value and effect. */
const named = (telling) =>
  telling
    .slice(0, 3)
    .map(({ name, value, effect }) => `${name} ${measured(value)} (${signed(effect, 2, true)})`)
    .join(", ");

/**
 * Mark the row of an instance.
 * @param {HTMLElement} table
 * @param {number} index
 */
export function markValue(table, index) {
  table.querySelector("[aria-current]")?.removeAttribute("aria-current");
  table.querySelector(`tr[data-index="${index}"]`)?.setAttribute("aria-current", "true");
}
