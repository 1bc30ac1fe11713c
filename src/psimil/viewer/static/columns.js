/**
 * Columns of the worklist: their headers and cells.
 * @module
 */

import { element } from "./dom.js";
import { intervalBar } from "./interval.js";
import { UNLIKE, capital, interval, labelled, probability, spread } from "./words.js";

const VERDICTS = { agree: "agrees", disagree: "disagrees" };

/**
 * @typedef {{name: string, sort: string|null, label: string, hint?: string, cell: function(any, string): (Node|string)[]}} Column
 */

/**
 * A small mark with words in it.
 * @param {string} text
 * @param {string} name of the class
 * @param {string|null} [title] more words, for whoever points at it or has the page read out
 */
export const badge = (text, name, title = null) =>
  element(
    "span",
    { class: `badge ${name}`, title },
    text,
    title && element("span", { class: "unseen" }, `: ${title}`),
  );

/**
 * What the model says of a bag, in one to three marks; why it is referred is said where the mark is pointed at.
 * @param {{called: number|boolean, refer: boolean, reason: string, novel: boolean}} bag
 * @returns {HTMLElement[]}
 */
export const badges = (bag) => [
  badge(bag.called ? "Positive" : "Negative", bag.called ? "positive" : "negative"),
  ...(bag.refer ? [badge("Refer", "refer", bag.reason)] : []),
  ...(bag.novel ? [badge(capital(UNLIKE), "novel")] : []),
];

/** What readers and the reader of files left about a bag. */
function remarks(bag) {
  const verdict = bag.verdict ? [badge(`Reader ${VERDICTS[bag.verdict]}`, bag.verdict)] : [];
  const notes = bag.n_notes ? [badge(bag.n_notes === 1 ? "1 note" : `${bag.n_notes} notes`, "plain")] : [];
  return [...verdict, ...notes];
}

/**
 * @param {any} set of results, from /api/set
 * @param {{bag: string, instances: string}} words
 * @returns {Column[]}
 */
export function columnsOf(set, words) {
  const number = (value, text) => element("span", { class: "number", "data-value": value }, text);
  return [
    {
      name: "id",
      sort: "id",
      label: capital(words.bag),
      cell: (bag, order) => [element("a", { href: `/bag/${encodeURIComponent(bag.key)}?${order}` }, bag.id)],
    },
    {
      name: "probability",
      sort: "probability",
      label: "Probability",
      cell: (bag) => [number(bag.probability, probability(bag.probability)), intervalBar(bag, set.threshold)],
    },
    {
      name: "interval",
      sort: null,
      label: `${Math.round(100 * set.level)} % interval`,
      cell: (bag) => [interval(bag.lower, bag.upper)],
    },
    {
      name: "uncertainty",
      sort: "uncertainty",
      label: "Uncertainty",
      hint: "standard deviation of the probability",
      cell: (bag) => [number(bag.std, spread(bag.std))],
    },
    ...(set.has_novelty
      ? [
          {
            name: "novelty",
            sort: "novelty",
            label: "Novelty",
            hint: `above 0.5: ${UNLIKE}`,
            cell: (bag) => [number(bag.novelty, probability(bag.novelty))],
          },
        ]
      : []),
    { name: "called", sort: null, label: "Model", cell: badges },
    ...(set.has_truth
      ? [
          {
            name: "truth",
            sort: "truth",
            label: "Known",
            cell: (bag) => [bag.truth === null ? "" : capital(labelled(bag.truth))],
          },
        ]
      : []),
    { name: "size", sort: "size", label: capital(words.instances), cell: (bag) => [number(bag.size, bag.size)] },
    { name: "reader", sort: null, label: "Reader", cell: remarks },
  ];
}
