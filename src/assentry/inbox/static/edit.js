// The form of an edit or an answer: a check while one types, the problems at their fields, and the keys that send.
import { $, $$, say, t, tell, touched } from "./page.js";

const form = $("[data-live-form]"), answer = $("form.form[data-send]");

// -- fields ----------------------------------------------------------------------------------------
const grouped = (text) => {
  const found = /^(-?)([1-9]\d{4,})(\.\d+)?$/.exec(text.trim());
  return found ? found[1] + found[2].replace(/\B(?=(\d{3})+$)/g, "\u202f") + (found[3] || "") : "";
};
const noted = (field) => {
  if (!("defaultValue" in field)) return;
  const differs = field.value !== field.defaultValue;
  field.classList.toggle("changed", differs && field.type !== "radio");
  field.closest(".field")?.classList.toggle("touched", differs);
  const beside = field.matches(".num") && field.nextElementSibling;
  if (beside) beside.textContent = grouped(field.value);
};
const problem = (at, words) => {
  const place = document.getElementById(`e:${at}`), field = place?.closest(".field");
  if (!place) return;
  place.textContent = words;
  place.hidden = !words;
  field?.classList.toggle("wrong", Boolean(words));
  const control = document.getElementById(`v:${at}`);
  if (words) control?.setAttribute("aria-invalid", "true");
  else control?.removeAttribute("aria-invalid");
};
const toFirstWrong = (within) => {
  const field = $(".field.wrong :is(input:not([type=hidden]), select:not(.state), textarea)", within);
  field?.focus();
  return Boolean(field);
};
const begin = (within) => {
  if (toFirstWrong(within) || !matchMedia("(pointer: fine)").matches) return; // on a phone it would open the keyboard
  const field = $("input:not([type=hidden], [type=radio], [type=checkbox]), select:not(.state), textarea", within);
  field?.focus({ preventScroll: true });
  if (field?.select && !field.matches("textarea.code")) field.select();
};

if (answer && !form) { answer.addEventListener("input", (event) => noted(event.target)); begin(answer); }

// -- the check of an edit --------------------------------------------------------------------------
if (form) {
  const sender = $("#sender"), reviewer = $("#reviewer"), parts = ["headline", "review", "effect", "pinned"];
  let later = 0, turn = 0, stale = false, wanted = false, failed = false;
  const checked = () => !stale && !("pending" in $("#review").dataset);
  const show = () => {
    const ready = Boolean($("#send")) && checked();
    sender.hidden = false;
    sender.disabled = !ready;
    sender.classList.toggle("waits", !ready && !checked());
    reviewer.hidden = true;
    form.toggleAttribute("data-stale", stale);
  };
  const ask = async (what, mine) => {
    const data = new URLSearchParams(new FormData(form));
    data.set("do", what);
    const answered = await fetch(form.action, { method: "POST", body: data }).catch(() => null);
    if (mine !== turn) return false; // something was typed meanwhile
    if (!answered?.ok || answered.redirected) {
      [wanted, failed] = [false, true]; // the key that sends checks it again
      tell(t("The change could not be checked."));
      return false;
    }
    const made = new DOMParser().parseFromString(await answered.text(), "text/html");
    if (mine !== turn || !$("#review", made)) return false;
    for (const id of parts) $(`#${id}`).replaceWith($(`#${id}`, made));
    for (const each of $$(".field small.bad", form)) problem(each.id.slice(2), "");
    for (const each of $$("[data-problem]")) problem(each.dataset.problem, each.textContent);
    return true;
  };
  const check = async () => {
    const mine = ++turn;
    failed = false;
    if (!(await ask("live", mine))) return;
    stale = false;
    show();
    await preview(mine);
  };
  const preview = async (mine) => {
    if ("pending" in $("#review").dataset) {
      if (!(await ask("preview", mine))) return;
      show();
      say($("#headline").textContent);
    }
    if (wanted) { wanted = false; send(); }
  };
  // What is sent is what the last check showed: its form has the arguments, and anything typed since makes it stale.
  const send = () => {
    const ready = $("#send"), read = $("#read");
    if (!checked()) {
      wanted = true;
      say(t("The change is being checked, and is sent when it fits."));
      if (failed) check();
      return;
    }
    if (!ready) { if (!toFirstWrong(form)) say($("#review .note")?.textContent || t("Nothing is changed yet.")); return; }
    if (read && !read.checked) { read.focus(); say(t("Read the warning first.")); return; }
    ready.requestSubmit();
  };
  addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.repeat || $("dialog[open]")) return;
    event.preventDefault();
    send();
  });
  form.addEventListener("input", (event) => {
    stale = true;
    wanted = false;
    turn += 1; // an answer that is under way does not know of this
    show();
    noted(event.target);
    clearTimeout(later);
    later = setTimeout(check, 180);
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter && event.submitter.value !== "review") return; // "add", "remove", "as JSON": the server makes the form anew
    event.preventDefault(); // Enter in a field: check at once
    clearTimeout(later);
    check();
  });
  show();
  if (touched(form)) { stale = true; show(); check(); }
  else { begin(form); preview(turn); }
}
