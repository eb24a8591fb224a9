// The decision on a call that waits: its buttons, and the forms that some of them lead to.
import { $, $$, make, shown } from "./dom.js";

const labelled = (words, field, kind) => make("label", null, make("span", { class: kind }, shown(words)), field);
const area = (placeholder) => make("textarea", { rows: 2, maxlength: 4000, placeholder });

// Each form: its parts, the words and the look of its button, and a function that returns the decision or throws words.
const reject = ({ tool }) => {
  const why = area("The agent is told this"), all = make("input", { type: "checkbox" });
  const later = make("label", { class: "check" }, all, shown(`Reject every later call of ${tool}, too`));
  return [[labelled("Your reason", why), later], "Reject", "stop", () => ({ approve: false, always: all.checked, message: why.value.trim() || null })];
};
const always = ({ tool, agent }) => {
  const words = `This call runs now. Every later call of ${tool} by ${agent} in this conversation runs without asking.`;
  return [make("p", null, shown(words)), "Approve, always", "go", () => ({ approve: true, always: true })];
};
const answer = ({ schema }) => {
  const words = area();
  return [labelled("Your answer", words), "Send the answer", "go", () => {
    let given = words.value;
    if (schema && schema.type !== "string") try { given = JSON.parse(given); } catch { /* the server says what does not fit */ }
    return { approve: true, answer: given };
  }];
};
const edit = ({ rows }) => {
  const fields = rows.map(([name, json]) => {
    const text = json.startsWith('"'), was = text ? JSON.parse(json) : json, tag = /\n|.{60}/.test(was) ? "textarea" : "input";
    const field = make(tag, { spellcheck: "false", oninput: () => field.classList.toggle("changed", field.value !== was) });
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
  return [fields.map(({ name, field }) => labelled(name, field, "mono")), "Approve with changes", "go", () => {
    if (fields.every(({ field, was }) => field.value === was)) throw new Error("Nothing is changed.");
    return { approve: true, arguments: `{${fields.map(({ name, read }) => `${JSON.stringify(name)}:${read()}`)}}` };
  }];
};

// Put the buttons under a card. `send` sends the decision, and returns false if that is not possible now.
export const decision = (asked, card, send) => {
  const wrong = make("p", { class: "bad", role: "alert" });
  const allows = (verdict) => asked.allowed.includes(verdict), approval = asked.kind === "approval";
  let foot = null;
  const swap = (node, focus) => { foot?.replaceWith(node); foot = node; wrong.textContent = ""; focus?.focus(); };
  const decide = (made) => {
    if (!send({ call_id: asked.call_id, digest: asked.digest, ...made })) return;
    card.focus({ preventScroll: true });  // a button that is disabled loses the focus
    for (const each of $$("button", card)) each.disabled = true;
  };
  const button = (words, key, kind, onclick) => make("button", { type: "button", class: kind, "data-key": key.toLowerCase(), onclick }, words, make("kbd", null, key));
  const buttons = () => make("div", { class: "act", role: "group", "aria-label": "Your decision" },
    allows("approve") ? button(approval ? "Approve" : "Run it again", "A", "go", () => decide({ approve: true })) : null,
    allows("edit") && asked.rows ? button("Edit", "E", null, () => step(edit)) : null,
    allows("respond") && !approval ? button("Answer", "I", null, () => step(answer)) : null,
    allows("approve") && approval ? button("Always…", "L", null, () => step(always)) : null,
    allows("reject") ? button("Reject…", "R", "no", () => step(reject)) : null,
    make("p", { class: "ends" }, "You decide on exactly this ", make("code", { title: asked.digest }, asked.digest.slice(0, 8))));
  const step = (form) => {
    const [parts, words, kind, read] = form(asked);
    const onsubmit = (event) => { event.preventDefault(); try { decide(read()); } catch (error) { wrong.textContent = error.message; } };
    const node = make("form", { onsubmit, oninput: () => { wrong.textContent = ""; } }, make("div", { class: "zone panel" }, parts),
      make("div", { class: "act" }, make("button", { class: kind }, words), button("Back", "Esc", null, () => swap(buttons(), card))));
    swap(node, $("textarea, input, button", node));
    node.scrollIntoView({ block: "nearest" });
  };
  card.addEventListener("keydown", (event) => {
    const escape = event.key === "Escape";
    if (event.repeat || event.ctrlKey || event.metaKey || event.altKey || (!escape && event.target.closest("input, textarea"))) return;
    const target = $(`[data-key="${escape ? "esc" : CSS.escape(event.key.toLowerCase())}"]:enabled`, card);
    if (target) { event.preventDefault(); event.stopPropagation(); target.click(); }
  });
  swap(buttons());
  card.append(foot, wrong);
  return (words) => { for (const each of $$("button", card)) each.disabled = false; wrong.textContent = words; };
};
