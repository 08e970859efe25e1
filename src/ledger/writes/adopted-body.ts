/** The job in the body of a message that is adopted. */
import { OjsError } from '../../errors.ts'
import type { NewJob } from '../../job/job.ts'
import type { AdoptableMessage } from '../leases.ts'

/** The job, or why the message is none. */
export function readBody(message: AdoptableMessage): NewJob | OjsError {
  try {
    const job = message.adopt()
    if (job.id === message.id) return job
    return new OjsError(
      'invalid_request',
      'The id in the body differs from the message_id of the message.',
    )
  } catch (error) {
    if (error instanceof OjsError) return error
    // Any error is about this message alone. Thrown on, it would fail the other job messages of this write,
    // and do so again at each redelivery.
    return new OjsError('invalid_request', 'The body of the message cannot be read as a job.', {
      cause: error,
    })
  }
}
