/** Names of queues, and the prefix of all names, in the environment. */
import { PREFIX, PREFIX_RULE } from '../broker/names.ts'
import { messageOf } from '../errors.ts'
import { checkQueueName } from '../job/queue-name.ts'
import { list } from './readers.ts'

export function queueNames(text: string, prefix: string, mistakes: string[]): string[] {
  const names = list(text)
  if (names.length === 0) mistakes.push('OJS_QUEUES names no queue')
  for (const name of names) {
    try {
      checkQueueName(name, prefix, 'OJS_QUEUES')
    } catch (error) {
      mistakes.push(messageOf(error))
    }
  }
  return names
}

export function prefix(text: string, mistakes: string[]): string {
  if (text !== '' && !PREFIX.test(text)) mistakes.push(`OJS_PREFIX ${PREFIX_RULE}`)
  return text
}
