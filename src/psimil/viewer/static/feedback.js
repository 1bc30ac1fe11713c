/**
 * The reader's verdict and note on a bag or an instance, saved as soon as they are given.
 * @module
 */

import { postJson } from "./api.js";
import { element } from "./dom.js";
import { capital, labelled } from "./words.js";

const VERDICTS = [
  ["agree", "Agree"],
  ["disagree", "Disagree"],
  ["none", "No verdict"],
];

let sending = Promise.resolve();

export class FeedbackForm {
  #bag;
  #instance = null;
  #found;
  #name;
  #legend = element("legend");
  #note;
  #status = element("span", { class: "quiet-text", role: "status" });
  #form;

  /**
   * @param {HTMLElement} box the form is added to
   * @param {string} bag key
   * @param {string} name of the form, one word
   */
  constructor(box, bag, name) {
    this.#bag = bag;
    this.#name = name;
    this.#note = element("textarea", { rows: 2, maxlength: 2000, id: `${name}-note` });
    const choices = VERDICTS.map(([value, label]) =>
      element("label", {}, element("input", { type: "radio", name: `${name}-verdict`, value }), label),
    );
    this.#form = element(
      "form",
      { class: "feedback", id: `${name}-feedback` },
      element(
        "fieldset",
        {},
        this.#legend,
        element("div", { class: "verdicts" }, ...choices),
        element("div", { class: "about" }, element("label", { for: `${name}-note` }, "Note"), this.#status),
        element("div", { class: "writing" }, this.#note, element("button", { type: "submit" }, "Save")),
      ),
    );
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#save();
    });
    this.#form.addEventListener("change", () => this.#save());
    box.append(this.#form);
  }

  get #verdict() {
    const { value } = this.#form.elements[`${this.#name}-verdict`];
    return value === "none" ? null : value;
  }

  /**
   * Ask about something else.
   * @param {string} thing what is asked about
   * @param {{called: number|boolean, verdict: string|null, note: string|null}} found is kept up to date
   * @param {number|null} instance index, or null for the bag
   * @param {string|null} [called] what it is called, where that needs more words than its label
   */
  show(thing, found, instance, called = null) {
    this.#instance = instance;
    this.#found = found;
    this.#legend.textContent = `${capital(thing)}: ${called ?? labelled(found.called)}. Do you agree?`;
    this.#form.elements[`${this.#name}-verdict`].value = found.verdict ?? "none";
    this.#note.value = found.note ?? "";
    this.#status.textContent = "";
  }

  /** Send the form; answers come one after the other, so the last one given is the one that stays. */
  #save() {
    const [found, before] = [this.#found, { verdict: this.#found.verdict, note: this.#found.note }];
    const said = { verdict: this.#verdict, note: this.#note.value.trim() };
    if (said.verdict === before.verdict && said.note === before.note) return;
    Object.assign(found, said);
    this.#status.textContent = "Saving";
    const entry = { bag: this.#bag, instance: this.#instance, ...said };
    sending = sending
      .then(() => postJson("/api/feedback", entry))
      .then(
        () => this.#tell(found, "Saved"),
        (error) => {
          Object.assign(found, before);
          this.#tell(found, `Not saved. ${error.message}`);
        },
      );
  }

  /** Say it only while the form still asks about the same thing. */
  #tell(found, message) {
    if (found === this.#found) this.#status.textContent = message;
  }
}
