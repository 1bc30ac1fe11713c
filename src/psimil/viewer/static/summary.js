/**
 * Counts, scores and the model's card as lists of names and values.
 * @module
 */

import { element } from "./dom.js";
import { UNLIKE, capital } from "./words.js";

const SHORT = { auc: "AUC", ece: "ECE", f1: "F1" };

/** A name and its value in a description list. */
const fact = (name, value) => element("div", {}, element("dt", {}, name), element("dd", {}, value));

/**
 * @param {HTMLElement} list a dl
 * @param {any} set of results, from /api/set
 * @param {{bags: string, instances: string}} words
 */
export function tiles(list, set, words) {
  list.replaceChildren(
    fact(capital(words.bags), set.bags.toLocaleString("en")),
    fact(capital(words.instances), set.instances.toLocaleString("en")),
    fact("Called positive", set.positives_called.toLocaleString("en")),
    fact("To refer", set.to_refer.toLocaleString("en")),
    ...(set.has_novelty ? [fact(capital(UNLIKE), set.novel.toLocaleString("en"))] : []),
  );
}

/**
 * What is found inside bags; n/a where that is undefined.
 * @param {HTMLElement} list a dl
 * @param {Object<string, number|null>} scores of the model, or of the middle of the bag
 * @param {string|null} unit of the localisation error
 * @param {{bags: string, instance: string}} words
 */
export function inside(list, scores, unit, { bags, instance }) {
  const names = {
    auc: `${instance} AUC`,
    auc_within_bags: `${instance} AUC within ${bags}`,
    localisation_error: unit === null ? "localisation error" : `localisation error, ${unit}`,
  };
  list.replaceChildren(
    ...Object.entries(names).map(([key, name]) => fact(capital(name), scores[key]?.toFixed(3) ?? "n/a")),
  );
}

/**
 * @param {HTMLElement} list a dl
 * @param {Object<string, string|number|null>} values by name
 */
export function facts(list, values) {
  const shown = Object.entries(values).filter(([, value]) => value !== null && value !== "");
  list.replaceChildren(
    ...shown.map(([name, value]) =>
      fact(SHORT[name] ?? capital(name.replaceAll("_", " ")), typeof value === "number" ? value.toFixed(3) : value),
    ),
  );
}
