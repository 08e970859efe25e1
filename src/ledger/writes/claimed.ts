/** How many of the messages of a FETCH are looked at. */
import type { ClaimedMessage, ClaimResult, ClaimTerms } from '../leases.ts'

/** Decides the messages in their order. Once `atMost` of their jobs are claimed, it looks at no more of them. */
export function claimedUpTo(
  messages: readonly ClaimedMessage[],
  { atMost = messages.length }: Pick<ClaimTerms, 'atMost'>,
  decide: (message: ClaimedMessage) => ClaimResult,
): ClaimResult[] {
  let claimed = 0
  return messages.map((message) => {
    if (claimed >= atMost) return { verdict: 'surplus' }
    const result = decide(message)
    if (result.verdict === 'claimed') claimed += 1
    return result
  })
}
