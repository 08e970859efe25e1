/** Service is back this soon after the broker's port is (architecture §4.1). */
const BACK_MS = 5_000

/** Nobody waits for it any longer. */
export const BACK_PATIENCE_MS = 3 * BACK_MS

/** `npm test` may share its machine with other work: only the soak is held to the promise itself. */
export const BACK_LIMIT_MS =
  process.env['OJS_CRASH_ROUND'] === undefined ? BACK_PATIENCE_MS : BACK_MS
