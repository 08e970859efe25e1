import { appendFileSync } from 'node:fs'
import type { Verdict } from '../support/checker/checker.ts'

/** The result of one scenario: a line of the file that `npm run soak` makes its table from. */
interface Result {
  scenario: string
  profile: string
  jobs: number
  failed: number
  faults: number
  lost: number
  executedTwice: number
  bound: number
  /** Until a PUSH was accepted again, after each fault that was timed. */
  servedMs: readonly number[]
  problems: readonly string[]
}

/** Set by scripts/soak.mjs. */
const FILE = process.env['OJS_CRASH_RESULTS']

export function recordResult(
  stage: { name: string; profile: string },
  verdict: Verdict,
  strikes: { count: number; servedMs: readonly number[] },
): void {
  if (FILE === undefined) return
  const result: Result = {
    scenario: stage.name,
    profile: stage.profile,
    jobs: verdict.accepted,
    failed: verdict.failed,
    faults: strikes.count,
    lost: verdict.lost,
    executedTwice: verdict.executedTwice,
    bound: verdict.bound,
    servedMs: strikes.servedMs,
    problems: verdict.problems,
  }
  appendFileSync(FILE, `${JSON.stringify(result)}\n`)
}
