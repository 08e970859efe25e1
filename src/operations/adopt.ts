import type { NewJob } from '../job/job.ts'
import { type NativeMessage, nativeJob } from '../schemas/native-job.ts'
import type { Deps } from './deps.ts'

/** A natively published message as a job of ours; throws `OjsError` where it is none. */
export function adoptedJob(deps: Deps, delivery: NativeMessage): NewJob {
  return nativeJob(delivery, {
    newId: deps.newId,
    now: deps.clock.now(),
    wall: deps.clock.wall(),
    timeoutMs: deps.settings.timeoutMs,
    prefix: deps.settings.prefix,
  })
}
