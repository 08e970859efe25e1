/** Which jobs an action can touch, by their states. The gateway leaves the others alone. */

export type ActionName = 'retry' | 'cancel' | 'delete'

const ENDED: readonly string[] = ['completed', 'cancelled', 'discarded']

export function canTouch(action: ActionName, state: string): boolean {
  if (action === 'retry') return ENDED.includes(state) || state === 'retryable'
  return ENDED.includes(state) === (action === 'delete')
}
