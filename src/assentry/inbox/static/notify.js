// The number of waiting questions in the page's title and icon, and notifications while a page is open in this browser.
// Of several pages one shows them: the one that holds a lock. None does while somebody looks at any of them.
import { $, $$, t } from "./page.js";

const base = document.body.dataset.base;

// -- the title and the icon ----------------------------------------------------------------------
const count = $("#count"), icon = $("link[rel=icon]");
const mark = () => {
  const words = count.textContent.trim(), number = parseInt(words.replace(/\D/g, ""), 10) || 0;
  const title = document.title.replace(/^\(\d[\d,.]*\+?\) /, "");
  document.title = number ? `(${words}) ${title}` : title;
  icon.href = `${base}/static/${number ? "mark-waiting" : "mark"}.svg`;
  if (navigator.setAppBadge) (number ? navigator.setAppBadge(number) : navigator.clearAppBadge()).catch(() => {});
};
if (count) {
  new MutationObserver(mark).observe(count, { childList: true, characterData: true, subtree: true });
  mark();
}

// -- notifications -------------------------------------------------------------------------------
const SETTING = `assentry-notify:${base}`, SHOWN = `assentry-notified:${base}`, LOOKING = `assentry-looking:${base}`;
const can = "Notification" in window && isSecureContext && "locks" in navigator;
const isOn = () => can && Notification.permission === "granted" && localStorage.getItem(SETTING) === "on";
const read = () => { try { return JSON.parse(localStorage.getItem(SHOWN)) || {}; } catch { return {}; } };

const showSetting = () => {
  for (const button of $$("[data-notify]")) {
    button.hidden = !can || Notification.permission === "denied";
    button.textContent = isOn() ? t("Turn notifications off") : t("Turn notifications on");
  }
  for (const words of $$("[data-notify-state]")) {
    words.textContent = !can ? t("This browser shows none here.")
      : Notification.permission === "denied" ? t("They are blocked for this page: allow them in the browser's settings.")
        : isOn() ? t("They are on in this browser.") : t("They are off in this browser.");
  }
};
const toggle = async () => {
  if (isOn()) localStorage.setItem(SETTING, "off");
  else if (await Notification.requestPermission() === "granted") {
    localStorage.setItem(SHOWN, "{}"); // what was asked before is not news
    localStorage.setItem(SETTING, "on");
    look();
  }
  showSetting();
};
for (const button of $$("[data-notify]")) button.addEventListener("click", toggle);
addEventListener("storage", (event) => { if (event.key === SETTING) showSetting(); });
showSetting();

const open = (path) => {
  window.focus();
  // What somebody is writing stays: the question opens beside it.
  const written = $$("main form[method=post] :is(textarea, input)").some((field) => field.value !== field.defaultValue || field.checked !== field.defaultChecked);
  if (written) window.open(`${base}${path}`, "_blank");
  else location.assign(`${base}${path}`);
};
const show = (title, body, tag, path) => {
  const made = new Notification(title, { body, tag, icon: `${base}/static/mark-waiting.svg` });
  made.onclick = () => { made.close(); open(path); };
};

let leads = false, later = 0;
const ask = async (query) => {
  const answer = await fetch(`${base}/questions/new${query}`);
  return answer.ok && !answer.redirected ? answer.json() : null;
};
const look = async () => {
  if (!leads || !isOn()) return;
  const known = read(), seen = known.ids || [], begin = known.at || (await ask(""))?.at;
  const found = begin ? await ask(`?after=${begin}`) : null; // looks overlap: the first one finds what is no news
  if (!found) return;
  const fresh = known.at ? found.questions.filter((each) => !seen.includes(each.id)) : [];
  localStorage.setItem(SHOWN, JSON.stringify({ at: found.at, ids: [...new Set([...seen, ...found.questions.map((each) => each.id)])].slice(-200) }));
  const looked = (await navigator.locks.query()).held.some((lock) => lock.name === LOOKING);
  if (looked || !fresh.length) return;
  if (fresh.length > 3) show(t("{n} new questions for you", { n: fresh.length }), "", "assentry", "/questions");
  else for (const each of fresh) show(t("A question for you"), each.sentence, each.id, `/questions/${encodeURIComponent(each.id)}`);
};
if (can) {
  navigator.locks.request(SETTING, () => { leads = true; look().catch(() => {}); return new Promise(() => {}); }).catch(() => {});
  addEventListener("inbox-news", () => { clearTimeout(later); later = setTimeout(() => { look().catch(() => {}); }, 100); });
  let leave = null;
  const focus = () => {
    if (document.hasFocus() && !leave) navigator.locks.request(LOOKING, { mode: "shared" }, () => new Promise((done) => { leave = done; if (!document.hasFocus()) blur(); })).catch(() => {});
  };
  const blur = () => { leave?.(); leave = null; };
  addEventListener("focus", focus);
  addEventListener("blur", blur);
  focus();
}
