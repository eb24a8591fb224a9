// The calls that wait: what will happen, the exact arguments, and the decision.
import { decision } from "./decision.js";
import { $, make, say, shown } from "./dom.js";
import { showCall } from "./talk.js";

const open = new Map();  // by the id of a call
let made = 0;

const count = () => {
  $("#count").hidden = !open.size;
  $("#count").textContent = open.size;
  $("#empty").hidden = open.size > 0;
  document.title = document.title.replace(/^(\(\d+\) )?/, open.size ? `(${open.size}) ` : "");
};

export const kept = () => open.size ? ` What waits for you is kept; decide when the connection is back.` : "";

const value = (json) => {
  if (!json.startsWith('"')) return shown(json);
  const mark = () => make("span", { class: "qm" }, '"');
  return [mark(), ...shown(JSON.parse(json)), mark()];
};

const block = (each) => {
  if (each.type === "sentence") return make("p", { class: each.warning && "note" }, each.warning ? make("strong", null, "Warning: ") : null, shown(each.text));
  if (each.type === "money") return make("div", { class: "card" }, make("span", null, shown(each.label || "Amount")), make("strong", null, shown(`${each.amount} ${each.currency}`)));
  return make("pre", { tabindex: 0 }, shown(each.type === "text" ? each.text : JSON.stringify(each, null, 2)));
};

const happens = ({ preview, kind, tool }) => {
  if (preview?.failed) return make("p", { class: "note stop" }, shown(`The preview failed: ${preview.failed}. Judge by the exact arguments.`));
  if (preview?.blocks?.length) return preview.blocks.map(block);
  return make("p", null, shown(kind === "input" ? "The tool has begun and needs an answer to go on." : preview?.sentence || `${tool} runs with exactly these arguments.`));
};

const row = ([name, json]) => make("tr", null, make("th", { scope: "row" }, shown(name)), make("td", null, value(json)));
const zone = (title, note, ...parts) => make("section", { class: "zone" }, make("h4", null, title, make("small", null, note)), parts);

// Show a call that waits. `send` sends the decision, and returns false if that is not possible now.
export const ask = (asked, send) => {
  if (open.has(asked.call_id)) return;
  const id = `ask-${++made}`, { preview, rows } = asked;
  const sentence = preview?.sentence || (typeof asked.prompt === "string" && asked.prompt) || `Run ${asked.tool}`;
  const card = make("article", { class: "ask", tabindex: 0, "aria-labelledby": id },
    make("header", null,
      make("p", { class: "crumbs" }, make("span", null, shown(asked.agent)), make("code", null, shown(asked.tool))),
      make("h3", { id }, shown(sentence)), make("p", { class: "why" }, shown(asked.reason))),
    zone("What will happen", preview && !preview.failed ? "the tool's own preview" : "no preview", make("div", { class: "blocks" }, happens(asked))),
    zone("Exact arguments", "complete", rows ? make("table", null, make("tbody", null, rows.map(row))) : make("pre", { tabindex: 0 }, shown(asked.arguments))));
  showCall({ ...asked, sentence: preview?.sentence, waiting: true });
  open.set(asked.call_id, { card, refuse: decision(asked, card, send) });
  $("#cards").append(card);
  count();
  say(`Your approval is needed: ${sentence}`, "#urgent");
};

export const settle = (call_id) => {
  const known = open.get(call_id);
  if (!known) return;
  const focused = known.card.contains(document.activeElement);
  known.card.remove();
  open.delete(call_id);
  count();
  if (focused) ($(".ask") || $("#text")).focus();
};
// Show why a decision was refused; false if the call has no card.
export const refuse = (call_id, words) => { open.get(call_id)?.refuse(words); return open.has(call_id); };
export const clear = () => { open.clear(); $("#cards").replaceChildren(); count(); };
