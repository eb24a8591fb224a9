// A decision that can still be undone: the page holds the form back for some seconds, and then sends it exactly once.
// Nothing is recorded before. It is sent when the time is over, by a second press, or when the page is left.
import { $, firstDeadline, say, t, tell } from "./page.js";

const SECONDS = Number(document.body.dataset.undo || 0);
const MOST = 60000; // bytes that a browser still sends when a page is left
const DOUBLE = 400; // milliseconds in which a second press is an accident
let held = null; // { form, action, fields, since, timer, bar, state: "held" | "sending" | "unsure" | "over" }

/** Return true while a decision is held or on its way. */
export const isHeld = () => held !== null;

const decides = (form) => /\/questions\/([^/]+\/(decision|respond)|many)$/.test(new URL(form.action).pathname);
const isOfMany = (form) => form.id === "decide"; // the answer is a page of its own, which says what became of each

const said = (fields) => {
  const type = fields.get("type");
  if (type === "approve") return t("Approved");
  if (type === "reject") return t("Rejected");
  return type === "edit" ? t("Approved with changes") : t("Answered");
};

/** Hold the decision of a form. Returns false if it must be sent at once. */
const hold = (form, submitter) => {
  const fields = new URLSearchParams(new FormData(form, submitter));
  if (!SECONDS || String(fields).length > MOST || firstDeadline() < SECONDS * 1000 + 5000) return false;
  const bar = document.createElement("div");
  bar.className = "held";
  bar.innerHTML = "<p role=\"status\"><strong></strong> <span></span></p><button type=\"button\" class=\"undo\"></button><button type=\"button\" class=\"now\"></button>";
  held = { form, action: form.action, fields, since: Date.now(), bar, state: "held" };
  label($(".undo", bar), t("Undo"), "Z");
  label($(".now", bar), t("Send now"), "↵");
  $(".undo", bar).addEventListener("click", undo);
  $(".now", bar).addEventListener("click", () => sendNow());
  freeze(true);
  $(".act").append(bar);
  $(".act").classList.add("holding");
  $("strong", bar).textContent = said(fields);
  count();
  say(`${said(fields)}. ${t("It is sent in {n} seconds, unless you undo it.", { n: SECONDS })}`);
  return true;
};

const label = (button, words, key) => {
  const kbd = document.createElement("kbd");
  kbd.textContent = key;
  button.replaceChildren(words, kbd);
};

const count = () => {
  const rest = SECONDS * 1000 - (Date.now() - held.since);
  if (rest <= 0) { send(); return; }
  $("span", held.bar).textContent = t("Sent in {n} s.", { n: Math.ceil(rest / 1000) });
  held.timer = setTimeout(count, rest % 1000 || 1000);
};

// What is held is what was sent: nothing is typed meanwhile, nor into the form from which an edit was made.
// Of a form with its own buttons, the part without them: Undo is among these.
const freeze = (still) => { for (const each of [isOfMany(held.form) ? $(".body", held.form) : held.form, $("[data-live-form]")]) if (each) each.inert = still; };

const release = () => {
  clearTimeout(held.timer);
  held.bar.remove();
  $(".act")?.classList.remove("holding");
  freeze(false);
  held = null;
};

/** Forget the decision, if it was not sent. */
export const undo = () => {
  if (held?.state !== "held") return;
  release();
  tell(t("Undone. Nothing was sent."));
};

/** Forget the decision because somebody else was first; return true, and say so, if there was one. */
export const overtaken = () => {
  if (held?.state !== "held") return false;
  release();
  tell(t("Somebody else was first. Your decision was not sent."));
  return true;
};

/** Send the decision at once, by a second press that is no accident. */
export const sendNow = () => { if (held?.state === "held" && Date.now() - held.since > DOUBLE) send(); else if (held?.state === "unsure") send(); };

const body = () => {
  const fields = new URLSearchParams(held.fields);
  fields.set("held", String(held.waited ?? Date.now() - held.since));
  return fields;
};

/** Send what is held; then go to an address, or to what the server answers. A refusal is shown as its page. */
const send = async (then = null) => {
  if (held === null || held.state === "sending" || held.state === "over") return;
  clearTimeout(held.timer);
  held.waited ??= Date.now() - held.since;
  held.state = "sending";
  $("span", held.bar).textContent = t("Sending…");
  $(".undo", held.bar).hidden = $(".now", held.bar).hidden = true;
  const many = isOfMany(held.form), away = document.hidden; // a phone may end a page that is out of sight before the next one comes
  if (many && !away) { held.state = "over"; submitHeld(); return; }
  let answer;
  try {
    answer = await fetch(held.action, { method: "POST", body: body(), keepalive: true });
  } catch {
    held.state = "unsure"; // it may have arrived: the same decision again changes nothing
    $("strong", held.bar).textContent = t("No answer came.");
    $("span", held.bar).textContent = t("It is not known whether your decision arrived. Sending it again does no harm.");
    label($(".now", held.bar), t("Send again"), "↵");
    $(".now", held.bar).hidden = false;
    say(held.bar.textContent);
    return;
  }
  held.state = "over";
  if (many && answer.ok && !answer.redirected) { location.assign($("a.back").href); return; }
  if (answer.ok && answer.redirected && !many) {
    const to = new URL(answer.url), recorded = to.pathname === new URL(held.action).pathname.replace(/\/[^/]+$/, "");
    if (!recorded) to.searchParams.set("next", location.pathname + location.search); // the sign-in page, which says so
    if (recorded && then) then();
    else location.assign(to);
    return;
  }
  submitHeld(); // nothing was recorded: the same form again shows why
};

/** Send what is held as a form, and go to the page that answers it. */
const submitHeld = () => {
  const again = document.createElement("form");
  again.method = "post";
  again.action = held.action;
  for (const [name, value] of body()) {
    const field = document.createElement("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    again.append(field);
  }
  document.body.append(again);
  HTMLFormElement.prototype.submit.call(again);
};

addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog" || event.defaultPrevented) return;
  if (held !== null) { // another form, such as that of the search: the decision goes first
    event.preventDefault();
    event.stopImmediatePropagation();
    const submitter = event.submitter;
    if (form !== held.form) send(() => { held = null; form.requestSubmit(submitter); });
    else sendNow();
    return;
  }
  if (!(form.matches("[data-send]") || isOfMany(form)) || !decides(form) || (event.submitter?.name === "do" && event.submitter.value !== "send")) return;
  if (form.dataset.sent || !hold(form, event.submitter)) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

addEventListener("click", (event) => {
  const link = event.target.closest("a[href]");
  if (held === null || link === null || link.getAttribute("href").startsWith("#")) return;
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  event.stopImmediatePropagation();
  const way = link.href;
  if (held.state === "held") send(() => location.assign(way));
}, true);

addEventListener("keydown", (event) => {
  if (held === null || event.ctrlKey || event.metaKey || event.altKey) return;
  const single = document.body.dataset.keys !== "off" && !event.repeat;
  if (event.key === "Escape" || (event.key === "z" && single)) undo();
  else if (event.key === "Enter" && !event.target.closest("button, a, summary") && !event.repeat) sendNow();
  else if (event.key === "a" && single && held.fields.get("type") === "approve") sendNow();
  else if ((event.key === "j" || event.key === "k") && single) return; // to another question, by its link
  else if (event.key.length > 1) return;
  event.preventDefault();
  event.stopImmediatePropagation();
}, true);

// A phone may end a page that is out of sight without another word to it.
document.addEventListener("visibilitychange", () => {
  if (document.hidden && held?.state === "held" && matchMedia("(pointer: coarse)").matches) send();
});

addEventListener("pagehide", () => {
  if (held?.state !== "held") return;
  clearTimeout(held.timer);
  held.state = "over";
  navigator.sendBeacon(held.action, body());
});
