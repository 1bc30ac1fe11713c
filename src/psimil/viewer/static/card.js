/**
 * The card of a bag: what the model says, how sure it is, and what is known.
 * @module
 */

import { badge, badges } from "./columns.js";
import { element } from "./dom.js";
import { intervalBar } from "./interval.js";
import { capital, interval, labelled, probability, spread } from "./words.js";

/**
 * @param {HTMLElement} box
 * @param {any} bag from /api/bags/{key}
 * @param {{level: number}} set from /api/set
 * @param {{bag: string, instance: string, instances: string}} words
 */
export function showCard(box, bag, set, words) {
  const positives = bag.instances.filter((one) => one.called).length;
  const known = bag.truth === null ? [] : [badge(`Known ${labelled(bag.truth)}`, "plain")];
  const shown = [
    element(
      "p",
      { class: "verdict" },
      element("span", { class: "quiet-text" }, "Probability"),
      element("span", { class: "large number", "data-value": bag.probability }, probability(bag.probability)),
      element("span", { class: "number quiet-text", "data-value": bag.std }, spread(bag.std)),
      element("span", { class: "grow" }),
      ...badges(bag),
      ...known,
    ),
    intervalBar(bag, bag.threshold),
    element(
      "p",
      {},
      `${Math.round(100 * set.level)} % interval ${interval(bag.lower, bag.upper)}, ${words.bag} threshold ${probability(bag.threshold)}.`,
    ),
    element("p", { class: "why" }, bag.why),
    element(
      "p",
      { class: "quiet-text" },
      `${capital(words.instances)} that reach the ${words.instance} threshold ${probability(bag.instance_threshold)}: ${positives} of ${bag.instances.length}.`,
    ),
  ];
  if (bag.difference) shown.push(element("p", { class: "difference" }, bag.difference));
  if (bag.notes) shown.push(element("p", { class: "note" }, `Reading note: ${bag.notes}`));
  box.replaceChildren(...shown);
}
