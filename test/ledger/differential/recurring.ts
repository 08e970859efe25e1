/** The calls that are about cron entries. */
import type { CronDefinition } from '../../../src/job/cron/entry.ts'
import type { NewJob } from '../../../src/job/job.ts'
import type { CronTick, RegisterTerms } from '../../../src/ledger/cron.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { ENTRY, type Given, QUEUE, verbs } from './call.ts'
import { carryOf, requestOf, stepOf, uniqueOf } from './made.ts'

const OVERLAPS = ['skip', 'allow', 'cancel_previous', 'enqueue'] as const
const MINUTE_MS = 60_000

function definitionOf({ call: { n } }: Given): CronDefinition {
  return {
    name: ENTRY(n),
    expression: n % 5 === 0 ? '0 * * * *' : '* * * * *',
    timezone: 'UTC',
    overlap: OVERLAPS[(n >> 1) % OVERLAPS.length] ?? 'skip',
    isEnabled: n % 7 !== 0,
    description: n % 3 === 0 ? 'ü' : null,
    template: stepOf(n),
  }
}

function termsOf(g: Given): RegisterTerms {
  const { n } = g.call
  return {
    nextRunAt: n % 7 === 0 ? null : g.now + (n % 4) * 30,
    createdAt: g.now,
    limit: n % 17 === 0 ? 1 : 2,
    isReplacing: n % 2 === 0,
    isKeepingQueued: n % 3 === 0,
    ...(n % 9 === 4 && g.entry !== null && { basis: g.entry }),
    keyed: { request: requestOf(g.call).request, now: g.now },
  }
}

/** The time at which the entry stands, or one at which it does not. */
function tickOf({ entry, call, now }: Given, at: number | null | undefined): CronTick {
  const right = { name: ENTRY(call.n), seq: entry?.seq ?? 0, at: at ?? now }
  return { ...right, at: right.at + (call.nonceOff === 0 ? 0 : 1) }
}

function makingOf(g: Given) {
  return { job: tickJobOf(g), now: g.now, isUnsettled: () => g.call.n % 11 === 0 }
}

function tickJobOf({ call: { n, job }, fresh, now }: Given): NewJob {
  const queue = QUEUE(job)
  const unique = n % 5 === 2 ? uniqueOf(n) : null
  const start = n % 8 === 0 ? ({ state: 'scheduled', dueAt: now + 20 } as const) : null
  const own = { id: `tick-${fresh}`, queue, createdAt: now, unique, carry: carryOf(n) }
  return newJob({ ...own, ...(start && { start }) })
}

export const CRON_VERBS = verbs({
  register: { weight: 3, run: (g) => g.ledger.cron.register(definitionOf(g), termsOf(g)) },
  trigger: {
    run: (g) => {
      const keyed = { request: requestOf(g.call).request, now: g.now }
      return g.ledger.cron.trigger(ENTRY(g.call.n), g.now, makingOf(g), keyed)
    },
  },
  removeEntry: { run: (g) => g.ledger.cron.remove(ENTRY(g.call.n), g.now) },
  fire: {
    weight: 6,
    run: (g) => {
      const { n } = g.call
      const tick = tickOf(g, g.entry?.nextRunAt)
      const { job, ...making } = makingOf(g)
      return g.ledger.cron.fire(tick, {
        ...making,
        job: n % 10 === 3 ? null : job,
        reason: n % 10 === 3 ? 'why' : undefined,
        nextRunAt: n % 23 === 0 ? null : tick.at + MINUTE_MS,
        maxQueued: 2,
      })
    },
  },
  reset: {
    run: (g) => g.ledger.cron.reset(tickOf(g, g.entry?.nextRunAt), g.now + (g.call.n % 90)),
  },
  releaseTick: {
    weight: 2,
    run: (g) => g.ledger.cron.release(tickOf(g, g.entry?.queued[0]), makingOf(g)),
  },
  drop: { run: (g) => g.ledger.cron.drop(tickOf(g, g.entry?.queued[0]), 'dropped') },
})
