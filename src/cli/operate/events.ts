/** `ojs-rabbitmq events tail`: what happens, as it happens. */
import type { EventsOptions } from '../../sdk/index.ts'
import { complain, printable } from '../command.ts'
import { EXIT } from './exit-codes.ts'
import { count as counted } from './filters.ts'
import type { Group } from './group.ts'
import { documentOf, printEach } from './output.ts'

interface TailOptions {
  queue?: string
  job?: string
  types?: string
  lastEventId?: string
  count?: number
}

export const eventsGroup: Group = {
  build(group, run) {
    group
      .command('tail')
      .description('print events until it is interrupted; with --job until the job ends')
      .option('--queue <queues>', 'several with commas')
      .option('--job <id>', 'the changes of one job')
      .option('--types <types>', "several with commas; 'job.*': by prefix")
      .option('--last-event-id <id>', 'go on behind this event')
      .option('--count <number>', 'end after so many', counted)
      .action(
        run(async (session, options: TailOptions) => {
          const { queue, job: jobId, types, lastEventId, count } = options
          const ends = new AbortController()
          const asked = { queue, jobId, types: types?.split(','), lastEventId, ...connecting() }
          const events = session.client.events({ ...asked, signal: ends.signal })
          const shown = session.isJson ? documentOf : lineOf
          await printEach(linesOf(events, shown, count), ends)
          return EXIT.done
        }),
      )
  },
}

async function* linesOf<Event>(
  events: AsyncIterable<Event>,
  shown: (event: Event) => string,
  count = Number.POSITIVE_INFINITY,
): AsyncGenerator<string> {
  let left = count
  for await (const event of events) {
    yield shown(event)
    left -= 1
    if (left <= 0) return
  }
}

/** Without a first connection the command fails as others do; a later one may take its time, and says so. */
function connecting(): Pick<EventsOptions, 'onOpen' | 'onLost'> {
  let standing: 'never' | 'open' | 'lost' = 'never'
  return {
    onOpen() {
      if (standing === 'lost') complain('connected again')
      standing = 'open'
    },
    onLost(reason) {
      if (standing === 'never') throw reason
      if (standing === 'open') complain(`${reason.message.replace(/\.$/, '')}; connecting again`)
      standing = 'lost'
    },
  }
}

function lineOf({ type, data }: { type: string; data: Record<string, unknown> }): string {
  const { timestamp = '-', queue = '-', job_id: id = '-', from, to, type: jobType } = data
  const change = to === undefined ? [] : [`${from ?? 'new'} → ${to}`]
  const parts = [timestamp, type, queue, id, ...(jobType === undefined ? [] : [jobType]), ...change]
  return printable(parts.map(String).join('  '))
}
