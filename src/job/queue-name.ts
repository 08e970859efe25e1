/** Valid names of OJS queues. */
import { invalidField } from '../errors.ts'

const PATTERN = /^[a-z0-9][a-z0-9\-.]*$/
const MAX_LENGTH = 128

// An OJS queue `dlx.email` would be the broker queue `ojs.queue.dlx.email`, which is the dead
// letter queue of `email`; likewise the others (OJS core).
const RESERVED = ['dlx.', 'retry.', 'control.', 'ojs.']

/** Whether an OJS queue may be called so, with no regard to names that are reserved. */
export function isQueueName(name: string): boolean {
  return name.length <= MAX_LENGTH && PATTERN.test(name)
}

/** Throws `OjsError` 400 when `name`, from the request's `field`, is no valid OJS queue name. */
export function checkQueueName(name: string, prefix: string, field: string): void {
  if (!isQueueName(name)) {
    throw invalidField(
      field,
      `The '${field}' field must be 1 to ${MAX_LENGTH} characters of a-z, 0-9, '-' and '.', and start with a letter or digit.`,
      { validation: 'pattern', received: name.slice(0, 150) },
    )
  }
  const starts = prefix === '' ? RESERVED : [...RESERVED, `${prefix}.ojs.`]
  const reserved = starts.find((start) => name.startsWith(start))
  if (reserved !== undefined) {
    throw invalidField(field, `The '${field}' field must not start with '${reserved}'.`, {
      validation: 'reserved',
      received: name,
    })
  }
}
