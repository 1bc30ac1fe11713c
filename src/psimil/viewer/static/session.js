/**
 * Signing in: the token after # in the address becomes a cookie and leaves the address bar.
 * @module
 */

import { getJson, postJson } from "./api.js";
import { fail } from "./dom.js";

const token = location.hash.replace(/^#(token=)?/, "");
history.replaceState(null, "", "/");

const entered = token ? postJson("/session", { token }) : getJson("/api/set");
entered
  .then(() => location.replace("/worklist"))
  .catch(() =>
    fail(
      token
        ? "This link is not valid any more. Open the one that psimil view printed last in the terminal."
        : "This page opens with the link that psimil view printed in the terminal.",
    ),
  );
