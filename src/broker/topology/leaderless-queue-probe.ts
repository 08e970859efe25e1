/** Which queues exist without a leader, and the delete of those. */
import type { Channel, ChannelModel } from 'amqplib'
import type { Logger } from '../../logger.ts'
import { classify } from '../connection/channel-error.ts'
import type { Connection } from '../connection/connection.ts'
import { isInTime } from '../connection/reconnect.ts'
import type { ScratchChannel } from '../connection/temporary-channel.ts'
import type { Names } from '../names.ts'
import { lookFor } from './entity.ts'
import type { QueueEntity } from './topology.ts'

/** A queue with a leader answers at once; one without a leader after 65 s, by ending the connection. */
const ANSWER_MS = 5_000
/** RabbitMQ tries in vain for 5 s before it deletes a queue without a leader (3.10.8). */
const DELETE_MS = 30_000

type Answer = 'answered' | 'refused' | 'silent'

export interface ProbeDeps {
  connection: Connection
  names: Names
  logger: Logger
}

/** Those `entities` that exist, are empty, have no consumers and do not answer. Null: undetermined. */
export async function deadAmong(
  deps: ProbeDeps,
  scratch: ScratchChannel,
  entities: readonly QueueEntity[],
): Promise<QueueEntity[] | null> {
  const empty: QueueEntity[] = []
  for (const entity of entities) {
    const { presence, ready, consumers } = await lookFor(scratch, entity)
    if (presence === 'unavailable') return null
    // A queue whose leader does not answer within 250 ms also reports 0 messages and 0 consumers.
    if (presence === 'exists' && ready + consumers === 0) empty.push(entity)
  }
  if (empty.length === 0) return []
  // An older queue that nobody consumes. A message that `get` takes returns when the connection ends.
  const witness = deps.names.dueDeadLetters
  const names = [witness, ...empty.map(({ name }) => name)]
  const answers = await askEach(deps, names, ANSWER_MS, (channel, name) => channel.get(name))
  if (answers === null) return null
  const [witnessAnswer, ...queueAnswers] = answers
  const dead = empty.filter((_, i) => queueAnswers[i] === 'silent')
  return dead.length > 0 && witnessAnswer !== 'answered' ? null : dead
}

/** Deletes dead queues. True when all of them are deleted. */
export async function deleteDead(
  deps: ProbeDeps,
  queues: readonly QueueEntity[],
): Promise<boolean> {
  if (queues.length === 0) return true
  const names = queues.map(({ name }) => name)
  for (const entity of names) {
    const text = 'queue is dead since RabbitMQ restarted; it is deleted and declared again'
    deps.logger.warn({ entity }, text)
  }
  const answers = await askEach(deps, names, DELETE_MS, (channel, name) =>
    channel.deleteQueue(name),
  )
  return answers?.every((answer) => answer === 'answered') === true
}

/** Asks on a separate connection, because RabbitMQ may end it. Null: no such connection could be opened. */
async function askEach(
  { connection, logger }: ProbeDeps,
  names: readonly string[],
  ms: number,
  ask: (channel: Channel, name: string) => Promise<unknown>,
): Promise<Answer[] | null> {
  try {
    const { model, end } = await connection.openBeside('mend')
    const answerOf = async (name: string): Promise<Answer> => {
      let answer: Answer = 'silent'
      const answered = openOn(model)
        .then((channel) => ask(channel, name))
        .then(
          () => (answer = 'answered'),
          (error: unknown) => {
            // The end of the connection is no answer.
            if (classify(error).kind === 'unavailable') throw error
            answer = 'refused'
          },
        )
      await isInTime(answered, ms)
      return answer
    }
    return await Promise.all(names.map(answerOf)).finally(end)
  } catch (err) {
    logger.warn(
      { err, queues: names },
      'new queues could not be checked or deleted after a restart of RabbitMQ',
    )
    return null
  }
}

async function openOn(model: ChannelModel): Promise<Channel> {
  const channel = await model.createChannel()
  channel.on('error', () => {})
  return channel
}
