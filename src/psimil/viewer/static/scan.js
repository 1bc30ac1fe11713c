/**
 * The page of one bag: a scan, a bag of images or a bag of features; every part shows the same instance.
 * @module
 */

import { getJson } from "./api.js";
import { Camera } from "./camera.js";
import { showCard } from "./card.js";
import { Cine } from "./cine.js";
import { byId, fail } from "./dom.js";
import { showEdges } from "./edges.js";
import { FeedbackForm } from "./feedback.js";
import { Filmstrip } from "./filmstrip.js";
import { listen } from "./gestures.js";
import { Heat } from "./heat.js";
import { bindingsOf, listenToKeys } from "./keys.js";
import { Mark } from "./mark.js";
import { Profile } from "./profile.js";
import { showScale } from "./scalebar.js";
import { Stage } from "./stage.js";
import { showTelling } from "./telling.js";
import { Tools } from "./tools.js";
import { fillValues, markValue } from "./values.js";
import { UNLIKE, announced, callOf, capital, probability, wordsOf } from "./words.js";

const REST = 250; // milliseconds without a move before the place is said
const key = location.pathname.split("/").pop();

const loaded = await Promise.all([getJson("/api/set"), getJson(`/api/bags/${key}${location.search}`)]).catch((error) =>
  fail(error.message),
);
if (loaded) open(...loaded);

/**
 * Build the parts and show the most probable instance, or the one in the address.
 * @param {any} set
 * @param {any} bag
 */
function open(set, bag) {
  const words = wordsOf(set.kind);
  const count = bag.instances.length;
  const pictured = bag.image.kind !== "none";
  document.title = `${bag.id} - psimil viewer`;
  byId("heading").textContent = `${capital(words.bag)} ${set.kind === "ct" ? bag.id : bag.id.replace(/^bag /, "")}`;
  for (const way of ["previous", "next"]) lead(byId(way), bag[way]);
  byId("back").href = `/worklist${location.search}`;
  byId("origin").textContent = capital(set.origin);
  byId("scan").classList.add(`shows-${bag.image.kind}`);
  byId("stage").hidden = !pictured;
  byId("telling").hidden = pictured;
  byId("strip-panel").hidden = !pictured;
  showCard(byId("card"), bag, set, words);
  name(bag, set, words);

  let [current, saying] = [-1, 0];
  const parts = [];
  byId("scan").hidden = false;
  if (pictured) {
    const stage = new Stage(bag, words);
    parts.push(stage, new Filmstrip(byId("strip"), bag, words, (index) => go(index)));
    const heat = bag.image.heat ? new Heat(bag) : null;
    if (heat) parts.push(heat);
    equip(stage, heat, { index: () => current, count, first: words.first, go }, bag.image, set, words);
  } else {
    parts.push({ show: (index) => showTelling(byId("telling"), bag, index, words) });
  }
  const joined = set.kind === "ct";
  parts.push(
    new Profile(byId("profile"), bag, {
      joined,
      ends: joined ? bag.image.ends : ["", ""],
      first: words.first,
      label: `Probability of each ${words.instance} with its interval; the threshold is ${bag.instance_threshold}`,
      onChoose: (index) => go(index),
    }),
  );
  const forms = byId("feedback");
  new FeedbackForm(forms, key, "bag").show(`this ${words.bag}`, bag, null);
  const instanceForm = new FeedbackForm(forms, key, "instance");
  parts.push({
    show: (index) => {
      const one = bag.instances[index];
      const called = one.called && !bag.called ? `${callOf(words, one, bag)}, so positive` : null;
      instanceForm.show(`${words.instance} ${index + words.first}`, one, index, called);
    },
  });
  const table = byId("values-table");
  const tabulate = () => {
    fillValues(table, bag, words, set.level, (index) => go(index));
    markValue(table, current);
  };
  if (pictured) byId("values").addEventListener("toggle", tabulate, { once: true });
  else tabulate();
  byId("values").open = !pictured;

  /** Show an instance everywhere, and say so unless it goes on by itself; beyond the ends there is none. */
  function go(wanted, say = true) {
    const index = Math.min(count - 1, Math.max(0, wanted));
    if (index === current) return;
    current = index;
    for (const part of parts) part.show(index);
    byId("slider").value = index + words.first;
    byId("slider").setAttribute("aria-valuetext", announced(words, bag.instances[index], count));
    markValue(table, index);
    clearTimeout(saying);
    saying = setTimeout(() => {
      if (say) byId("live").textContent = announced(words, bag.instances[index], count);
      history.replaceState(null, "", `#${index + words.first}`);
    }, REST);
  }
  const asked = Number.parseInt(location.hash.slice(1), 10) - words.first;
  go(Number.isInteger(asked) ? asked : mostProbable(bag.instances));
  byId("main").removeAttribute("aria-busy");
}

/** Camera, letters, scale, tools, keys and gestures around the stage. */
function equip(stage, heat, place, image, set, words) {
  const measured = image.kind === "hu";
  const size = measured ? image : { rows: image.thumb_rows, columns: image.thumb_columns, spacing: null };
  const camera = new Camera(byId("viewport"), byId("plane"), size);
  const mark = measured ? new Mark(stage, image) : null;
  if (mark) stage.whenPainted(() => mark.show());
  if (set.kind === "ct") showEdges(image.edges);
  byId("scale-box").hidden = !measured;
  if (measured) camera.watch(() => showScale(camera, image));
  const tools = new Tools(stage, camera, new Cine(stage, place), mark, heat);
  listen(stage, place, camera, tools);
  listenToKeys(bindingsOf(stage, place, camera, tools, words));
}

/** Index of the instance with the largest log-odds: the one to look at first. */
function mostProbable(instances) {
  return instances.reduce((best, one) => (one.log_odds > instances[best].log_odds ? one.index : best), 0);
}

/** A link to the case before or after, or none at the ends. */
function lead(link, to) {
  if (!to) return;
  link.href = `/bag/${encodeURIComponent(to)}${location.search}`;
  link.removeAttribute("aria-disabled");
}

/** Labels and hints that depend on what is shown. */
function name(bag, set, words) {
  byId("slider").min = words.first;
  byId("slider").max = bag.instances.length - 1 + words.first;
  byId("slider").setAttribute("aria-label", capital(words.instance));
  byId("viewport").setAttribute("aria-label", `${capital(words.instance)} viewer`);
  byId("profile-title").textContent = `Probability by ${words.instance}`;
  byId("profile-key").textContent =
    `${set.kind === "ct" ? "Band" : "Lines"}: ${Math.round(100 * set.level)} % interval. Dashes: ${words.instance} threshold ${probability(bag.instance_threshold)}. ` +
    (bag.instances.some((one) => one.truth === 1) ? "Marks below: known positive. " : "") +
    (bag.instances.some((one) => one.novel) ? `Marks above: ${UNLIKE}. ` : "") +
    "Click the chart to go there.";
  byId("keys").textContent =
    bag.image.kind === "hu"
      ? "Wheel, arrow keys or swipe: slices. Drag or keys 1 to 4: window. Ctrl and wheel, or pinch: zoom. All keys: ?"
      : `Wheel, arrow keys or swipe: ${words.instances}.` +
        (set.kind === "ct" ? " Thumbnails only; for full slices start psimil view with --dicom." : "");
}
