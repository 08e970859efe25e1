/**
 * A logger that ends the round at any warning; on a sound machine there are none.
 * @param {(error: unknown) => void} fail
 */
export function complainTo(fail) {
  const complain = (/** @type {string} */ message, /** @type {{ error?: unknown }} */ details) => {
    fail(new Error(`${message} ${JSON.stringify(details)}`, { cause: details.error }))
  }
  return { info() {}, warn: complain, error: complain }
}
