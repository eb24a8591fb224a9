// The calls that wait: what will happen, the exact arguments, and the decision.
import { $, $$, make, say, shown } from "./dom.js";
import { showCall } from "./talk.js";

const open = new Map();  // by the id of a call
let made = 0;

const count = () => {
  $("#count").hidden = !open.size;
  $("#count").textContent = open.size;
  $("#empty").hidden = open.size > 0;
  document.title = document.title.replace(/^(\(\d+\) )?/, open.size ? `(${open.size}) ` : "");
};

export const kept = () => open.size ? ` ${open.size === 1 ? "The call that waits is kept" : `The ${open.size} calls that wait are kept`}; decide when the connection is back.` : "";

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

const happens = (asked) => {
  const { sentence, blocks = [], failed } = asked.preview || {};
  if (failed) return make("p", { class: "note stop" }, shown(`The preview failed: ${failed}. Judge by the exact arguments.`));
  if (blocks.length) return blocks.map(block);
  return make("p", null, shown(asked.kind === "input" ? "The tool has begun and needs an answer to go on." : sentence || `${asked.tool} runs with exactly these arguments.`));
};

const zone = (title, note, ...parts) => make("section", { class: "zone" }, make("h4", null, title, make("small", null, note)), parts);
const labelled = (words, field, kind) => make("label", null, make("span", { class: kind }, shown(words)), field);

// Show a call that waits. `decide` sends the decision, and returns false if it cannot be sent now.
export const ask = (asked, decide) => {
  if (open.has(asked.call_id)) return;
  const title = `ask-${++made}`, rows = asked.rows || [], allows = (verdict) => asked.allowed.includes(verdict);
  const sentence = asked.preview?.sentence || (typeof asked.prompt === "string" && asked.prompt) || `Run ${asked.tool}`;
  const card = make("article", { class: "ask", tabindex: 0, "aria-labelledby": title },
    make("header", null,
      make("p", { class: "crumbs" }, make("span", null, shown(asked.agent)), make("code", null, shown(asked.tool))),
      make("h3", { id: title }, shown(sentence)), make("p", { class: "why" }, shown(asked.reason))),
    zone("What will happen", asked.preview && !asked.preview.failed ? "the tool's own preview" : "no preview", make("div", { class: "blocks" }, happens(asked))),
    zone("Exact arguments", "complete", asked.rows
      ? make("table", null, make("tbody", null, rows.map(([name, json]) => make("tr", null, make("th", { scope: "row" }, shown(name)), make("td", null, value(json))))))
      : make("pre", { tabindex: 0 }, shown(asked.arguments))));

  const send = (decision) => {
    if (decide({ call_id: asked.call_id, digest: asked.digest, ...decision })) for (const each of $$("button", card)) each.disabled = true;
  };
  const button = (words, key, kind, usable, onclick) => usable ? make("button", { type: "button", class: kind, "data-key": key, onclick }, words, make("kbd", null, key.toUpperCase())) : null;
  const buttons = () => make("div", { class: "act", role: "group", "aria-label": "Your decision" },
    button(asked.kind === "doubt" ? "Run it again" : "Approve", "a", "go", allows("approve"), () => send({ approve: true })),
    button("Edit", "e", null, allows("edit") && asked.rows, edit),
    button("Answer", "i", null, allows("respond") && asked.kind !== "approval", answer),
    button("Always…", "l", null, allows("approve") && asked.kind === "approval", always),
    button("Reject…", "r", "no", allows("reject"), reject),
    make("p", { class: "ends" }, "You decide on exactly this ", make("code", { title: asked.digest }, asked.digest.slice(0, 8))));
  let foot = null;
  const swap = (node, focus) => { if (foot) foot.replaceWith(node); else card.append(node); foot = node; focus?.focus(); };
  const back = () => swap(buttons(), card);

  // A form in place of the buttons. `read` returns the decision, or throws words.
  const step = (parts, words, kind, read) => {
    const wrong = make("p", { class: "bad", role: "alert" });
    const onsubmit = (event) => { event.preventDefault(); try { send(read()); } catch (error) { wrong.textContent = error.message; } };
    const form = make("form", { onsubmit }, make("div", { class: "zone panel" }, parts, wrong),
      make("div", { class: "act" }, make("button", { class: kind }, words), make("button", { type: "button", "data-key": "escape", onclick: back }, "Back", make("kbd", null, "Esc"))));
    swap(form, $("textarea, input, button", form));
    form.scrollIntoView({ block: "nearest" });
  };
  const reject = () => {
    const why = make("textarea", { rows: 2, maxlength: 4000, placeholder: "The agent is told this" }), all = make("input", { type: "checkbox" });
    step([labelled("Your reason", why), make("label", { class: "check" }, all, shown(`Reject every later call of ${asked.tool}, too`))], "Reject", "stop",
      () => ({ approve: false, always: all.checked, message: why.value.trim() || null }));
  };
  const always = () => step(make("p", null, shown(`This call runs now. Every later call of ${asked.tool} by ${asked.agent} in this conversation runs without asking.`)), "Approve, always", "go", () => ({ approve: true, always: true }));
  const answer = () => {
    const words = make("textarea", { rows: 2, maxlength: 4000 });
    step(labelled("Your answer", words), "Send the answer", "go", () => {
      let given = words.value;
      if (asked.schema && asked.schema.type !== "string") try { given = JSON.parse(given); } catch { /* the server says what does not fit */ }
      return { approve: true, answer: given };
    });
  };
  const edit = () => {
    const fields = rows.map(([name, json]) => {
      const text = json.startsWith('"'), was = text ? JSON.parse(json) : json;
      const field = make(was.length > 60 || was.includes("\n") ? "textarea" : "input", { spellcheck: "false", oninput: () => field.classList.toggle("changed", field.value !== was) });
      field.value = was;
      // A value that was not touched goes back as it came, so that no number is rounded on its way.
      const read = () => {
        if (field.value === was) return json;
        if (text) return JSON.stringify(field.value);
        try { JSON.parse(field.value); } catch { throw new Error(`${name} must be a number, true, false, null, or other JSON.`); }
        return field.value;
      };
      return { name, field, was, read };
    });
    step(fields.map(({ name, field }) => labelled(name, field, "mono")), "Approve with changes", "go", () => {
      if (fields.every(({ field, was }) => field.value === was)) throw new Error("Nothing is changed.");
      return { approve: true, arguments: `{${fields.map(({ name, read }) => `${JSON.stringify(name)}:${read()}`).join(",")}}` };
    });
  };

  card.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || (event.key !== "Escape" && event.target.closest("input, textarea"))) return;
    const target = $(`[data-key="${CSS.escape(event.key.toLowerCase())}"]:enabled`, card);
    if (target) { event.preventDefault(); event.stopPropagation(); target.click(); }
  });
  const fail = (words) => {
    for (const each of $$("button", card)) each.disabled = false;
    if (!$(".bad", card)) card.append(make("p", { class: "bad", role: "alert" }));
    $(".bad", card).textContent = words;
  };
  swap(buttons());
  showCall({ ...asked, sentence: asked.preview?.sentence, waiting: true });
  open.set(asked.call_id, { card, fail });
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
export const refuse = (call_id, words) => { open.get(call_id)?.fail(words); return open.has(call_id); };
export const clear = () => { open.clear(); $("#cards").replaceChildren(); count(); };
