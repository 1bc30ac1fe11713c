/**
 * The worklist: every bag with its probability and uncertainty, sorted and filtered by the server.
 * @module
 */

import { getJson } from "./api.js";
import { columnsOf } from "./columns.js";
import { byId, element, fail } from "./dom.js";
import { reliabilityPlot } from "./reliability.js";
import { facts, inside, tiles } from "./summary.js";
import { capital, counted, wordsOf } from "./words.js";

const PAGE = 100;
const FILTERS = [
  ["all", "All"],
  ["refer", "To refer"],
  ["novel", "Unlike training"],
  ["positive", "Positive"],
  ["negative", "Negative"],
  ["disagreed", "Disagreed"],
  ["noted", "With notes"],
];

const set = await getJson("/api/set").catch((error) => fail(error.message));
if (set) start();

function start() {
  const words = wordsOf(set.kind);
  const columns = columnsOf(set, words);
  const sortable = columns.filter((column) => column.sort);
  const view = fromAddress(sortable);
  byId("heading").textContent = `Worklist of ${counted(set.bags, words.bag, words.bags)}`;
  tiles(byId("tiles"), set, words);
  facts(byId("model"), set.model);
  byId("thresholds").textContent = set.thresholds;
  byId("origin").textContent = capital(set.origin);
  if (set.reliability) {
    byId("reliability").hidden = false;
    byId("reliability-plot").replaceChildren(reliabilityPlot(set.reliability));
    facts(byId("scores"), set.scores ?? {});
  }
  if (set.inside) tellInside(set.inside, words);

  const change = (changes) => {
    Object.assign(view, { offset: 0 }, changes);
    history.replaceState(null, "", `/worklist?${new URLSearchParams(view)}`);
    return show();
  };
  byId("filters").replaceChildren(
    ...FILTERS.filter(([name]) => name !== "novel" || set.has_novelty).map(([name, label]) => {
      const button = element("button", { type: "button", "data-show": name }, label);
      button.addEventListener("click", () => change({ show: name }));
      return button;
    }),
  );
  byId("headers").replaceChildren(...columns.map((column) => header(column, view, change)));
  const sorter = byId("sorter");
  sorter.replaceChildren(...sortable.map((column) => element("option", { value: column.sort }, column.label)));
  sorter.addEventListener("change", () => change({ sort: sorter.value, descending: sorter.value !== "id" }));
  byId("earlier").addEventListener("click", () => change({ offset: Math.max(0, view.offset - PAGE) }));
  byId("later").addEventListener("click", () => change({ offset: view.offset + PAGE }));
  let latest = null;
  show();

  /** Fetch and draw what the view asks for; an answer that comes after a newer question is dropped. */
  async function show() {
    const asked = new URLSearchParams({ ...view, limit: PAGE }).toString();
    latest = asked;
    const found = await getJson(`/api/bags?${asked}`).catch((error) => fail(error.message));
    if (!found || latest !== asked) return;
    byId("rows").replaceChildren(...found.bags.map((bag) => row(bag, columns, new URLSearchParams(view))));
    mark(view);
    const last = view.offset + found.bags.length;
    const shown = found.total
      ? `${view.offset + 1} to ${last} of ${counted(found.total, words.bag, words.bags)}`
      : `No ${words.bags} here`;
    byId("status").textContent = shown;
    byId("caption").textContent = `${capital(words.bags)} with their predictions, ${shown}`;
    byId("pages").hidden = found.total <= PAGE;
    byId("earlier").disabled = view.offset === 0;
    byId("later").disabled = last >= found.total;
    byId("main").removeAttribute("aria-busy");
  }
}

/** How well positive instances are found inside bags, beside the middle of the bag where bags have an order. */
function tellInside({ model, middle, unit, n_both_kinds, n_positive }, words) {
  byId("inside").hidden = false;
  byId("inside-title").textContent = `Inside ${words.bags}`;
  inside(byId("inside-model"), model, unit, words);
  byId("inside-place").hidden = unit === null;
  byId("inside-place-title").textContent = `Middle of the ${words.bag}, whatever it shows`;
  inside(byId("inside-middle"), middle, unit, words);
  const both = `AUC within ${words.bags}: mean over ${counted(n_both_kinds, words.bag, words.bags)} with ${words.instances} of both kinds.`;
  const error = `Localisation error: from the most probable ${words.instance} to the nearest positive one, mean over ${counted(n_positive, words.bag, words.bags)}.`;
  byId("inside-note").textContent = unit === null ? both : `${both} ${error}`;
}

/** The view in the address, so that reloading and going back keep it. */
function fromAddress(sortable) {
  const query = new URLSearchParams(location.search);
  const among = (name, allowed) => (allowed.includes(query.get(name)) ? query.get(name) : allowed[0]);
  return {
    sort: among("sort", ["probability", ...sortable.map((column) => column.sort)]),
    descending: query.get("descending") !== "false",
    show: among(
      "show",
      FILTERS.map(([name]) => name),
    ),
    offset: Math.max(0, Number.parseInt(query.get("offset") ?? "0", 10) || 0),
  };
}

/** A header; where the server can sort by it, a button that sorts and then turns the order. */
function header(column, view, change) {
  if (!column.sort) return element("th", { scope: "col", class: column.name }, column.label);
  const button = element(
    "button",
    { type: "button", title: column.hint },
    column.label,
    element("span", { class: "arrow", "aria-hidden": "true" }),
  );
  button.addEventListener("click", () =>
    change({ sort: column.sort, descending: view.sort === column.sort ? !view.descending : column.sort !== "id" }),
  );
  return element("th", { scope: "col", class: column.name, "data-sort": column.sort }, button);
}

/** A line of the list; the link to its page keeps the order, so that the next one there is the next one here. */
function row(bag, columns, order) {
  const cells = columns.map((column, place) =>
    element(place ? "td" : "th", { class: column.name, scope: place ? null : "row" }, ...column.cell(bag, order)),
  );
  return element("tr", { "data-key": bag.key }, ...cells);
}

/** Say in the headers and filters what is shown. */
function mark(view) {
  for (const cell of document.querySelectorAll("th[data-sort]")) {
    if (cell.dataset.sort === view.sort) cell.setAttribute("aria-sort", view.descending ? "descending" : "ascending");
    else cell.removeAttribute("aria-sort");
  }
  for (const button of document.querySelectorAll("[data-show]")) {
    button.setAttribute("aria-pressed", String(button.dataset.show === view.show));
  }
  byId("sorter").value = view.sort;
}
