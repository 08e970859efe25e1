import type { NewJob } from '../job/job.ts'
import { type NativeMessage, nativeJob } from '../schemas/native-job.ts'
import type { Deps } from './deps.ts'

/**
 * A natively published message as a job of ours; throws `OjsError` where it is none. `schedule`: it
 * came by the delayed exchange, with this time in its headers.
 */
export function adoptedJob(
  deps: Deps,
  delivery: NativeMessage,
  schedule?: { dueAt: number | null },
): NewJob {
  const context = {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    prefix: deps.settings.prefix,
  }
  return nativeJob(delivery, context, schedule)
}
