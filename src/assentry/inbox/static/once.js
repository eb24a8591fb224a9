// A page that shows a secret once is the answer to a form: loading it anew must not send the form again.
import { $ } from "./page.js";

const shown = $("[data-once]");
if (shown) {
  history.replaceState(null, "", shown.dataset.once);
  delete shown.dataset.once;
}
