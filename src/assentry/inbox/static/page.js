// What every script of the pages needs: to find elements, to say something to a screen reader, and the reader's language.
export const $ = (query, from = document) => from.querySelector(query);
export const $$ = (query, from = document) => [...from.querySelectorAll(query)];

const texts = JSON.parse(document.body.dataset.texts || "{}");

/** Return a text in the reader's language, with values in the place of names: t("{n} left", { n: 3 }). */
export const t = (text, values = {}) => (texts[text] || text).replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));

const asked = $("[data-deadline]"), clock = $("[data-now]"), ahead = clock ? Number(clock.dataset.now) - Date.now() : 0; // of the server's clock

/** Return the milliseconds until the question's deadline; infinitely many if it has none, or its end changes nothing. */
export const timeLeft = () => (asked ? Number(asked.dataset.deadline) - Date.now() - ahead : Infinity);

/** Return the milliseconds until the first deadline of the questions that this page decides on. */
export const firstDeadline = () => Math.min(timeLeft(), ...$$(".compare [data-until]").map((each) => Number(each.dataset.until) - Date.now() - ahead));

/** Have a screen reader say something. */
export const say = (words) => { $("#said").textContent = words; };

/** Say something to everybody: to a screen reader, and on the screen for some seconds. */
export const tell = (words) => {
  const toast = $("#toast");
  say(words);
  toast.textContent = words;
  toast.hidden = false;
  clearTimeout(tell.timer);
  tell.timer = setTimeout(() => { toast.hidden = true; }, 6000);
};

/** True if a form holds something else than the server sent: typed before a script ran, or kept by the browser. */
export const touched = (form) => [...form.elements, ...$$("option", form)].some((field) => (/^(checkbox|radio)$/.test(field.type) ? field.checked !== field.defaultChecked : field.selected !== field.defaultSelected || ("defaultValue" in field && field.value !== field.defaultValue)));
