/**
 * Requests to the server that sent this page, and to no other.
 * @module
 */

/** A request that the server did not grant; the message can be shown. */
export class RequestFailed extends Error {}

/**
 * What to tell the reader about an answer that is not a success.
 * @param {Response} response
 * @returns {Promise<string>}
 */
async function reason(response) {
  if (response.status === 401) return "This session has ended. Open the link that psimil view printed in the terminal.";
  const body = await response.json().catch(() => ({}));
  return typeof body.error === "string" ? body.error : `The server answered with ${response.status}.`;
}

/**
 * @param {string} path
 * @param {RequestInit} [options]
 * @returns {Promise<Response>}
 */
async function request(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { credentials: "same-origin", ...options });
  } catch {
    throw new RequestFailed("The viewer does not answer. Is psimil view still running in the terminal?");
  }
  if (!response.ok) throw new RequestFailed(await reason(response));
  return response;
}

/**
 * The JSON at a path.
 * @param {string} path
 * @returns {Promise<any>}
 */
export const getJson = async (path) => (await request(path)).json();

/**
 * Send JSON.
 * @param {string} path
 * @param {any} body
 * @returns {Promise<Response>}
 */
export const postJson = (path, body) =>
  request(path, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

/**
 * Hounsfield units of one slice, row after row.
 * @param {string} key of the scan
 * @param {number} index of the slice
 * @returns {Promise<Int16Array>}
 */
export async function getSlice(key, index) {
  const response = await request(`/api/bags/${encodeURIComponent(key)}/slices/${index}`);
  return new Int16Array(await response.arrayBuffer());
}
