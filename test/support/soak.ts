/** Whether this is `npm run soak`, which plays more and longer. */

/** Of the soak, from 0; it is in `OJS_CRASH_ROUND`. 0 in `npm test`. */
export const ROUND = Number(process.env['OJS_CRASH_ROUND'] ?? 0)

export const IS_SOAK = process.env['OJS_CRASH_ROUND'] !== undefined

/** How much of random work: `usual` in `npm test`, which has a budget of minutes. */
export function amount(usual: number, inSoak: number): number {
  return IS_SOAK ? inSoak : usual
}
