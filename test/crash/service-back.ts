import { amount } from '../support/soak.ts'

/** Service must be back this soon after the broker's port (docs/architecture.md §4.1). */
const BACK_MS = 5_000

/** No test waits longer than this for the service. */
export const BACK_PATIENCE_MS = 3 * BACK_MS

/** `npm test` may share its machine with other work, so only the soak must keep the promise itself. */
export const BACK_LIMIT_MS = amount(BACK_PATIENCE_MS, BACK_MS)
