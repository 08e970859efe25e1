/** The state of a job, a queue or a worker, in a word and a colour. */
import type { ReactNode } from 'react'
import { t } from '../text/text.ts'

/** Of a job, those before its end first. */
export const JOB_STATES = [
  'available',
  'active',
  'scheduled',
  'retryable',
  'pending',
  'completed',
  'cancelled',
  'discarded',
] as const

const COLOURS: Readonly<Record<string, string>> = {
  available: 'blue',
  scheduled: 'violet',
  pending: 'grey',
  active: 'cyan',
  running: 'cyan',
  retryable: 'amber',
  completed: 'green',
  cancelled: 'grey',
  discarded: 'red',
  failed: 'red',
  paused: 'amber',
  stale: 'red',
  stuck: 'red',
  quiet: 'amber',
  terminate: 'amber',
  stopped: 'amber',
  enabled: 'green',
  disabled: 'grey',
  draining: 'amber',
  up: 'green',
  blocked: 'red',
  down: 'red',
  closed: 'grey',
  flow: 'amber',
  ours: 'green',
  unread: 'grey',
  differs: 'amber',
  missing: 'red',
  foreign: 'grey',
}

export function State({ of }: { of: string }): ReactNode {
  const words: Readonly<Record<string, string>> = t.states
  return <span className={`state ${COLOURS[of] ?? 'grey'}`}>{words[of] ?? of}</span>
}
