import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { inRoot } from '../paths.mjs'
import { messageOf } from '../process/errors.mjs'
import { isPortFree, nextFreePort } from '../process/ports.mjs'
import { say, waitingFor } from '../process/progress.mjs'
import { needsLongQueuePolicy, setLongQueuePolicy } from './long-queues.mjs'
import { PrivateBroker } from './private-broker.mjs'

/**
 * Starts the node of `npm start`. Its data stays in ./data/rabbitmq for the next start.
 * @param {string} sbin
 * @param {AbortSignal} [signal]
 * @returns {Promise<import('./find-broker.mjs').Broker>}
 */
export async function startOwnNode(sbin, signal) {
  const dir = inRoot('data', 'rabbitmq')
  // Other users of this machine must not read the messages in the queues.
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const isNew = !existsSync(join(dir, 'mnesia'))
  const node = await startedNode(sbin, dir, signal)
  // Only for a new node: later, the policy belongs to the user, who may have changed it.
  if (isNew && needsLongQueuePolicy(sbin) && !signal?.aborted) await keepLongQueuesOnDisk(node)
  return {
    url: node.url(),
    origin: `a private node on 127.0.0.1:${node.port}, data in ./data/rabbitmq`,
    stop: () => waitingFor('RabbitMQ to stop', () => node.stop()),
    exited: () => node.exited,
    restart: (signal) => node.restart(signal),
  }
}

/**
 * @param {string} sbin
 * @param {string} dir
 * @param {AbortSignal} [signal]
 */
async function startedNode(sbin, dir, signal) {
  const conf = readFileSync(inRoot('topology', 'rabbitmq.conf'), 'utf8')
  const advanced = readFileSync(inRoot('topology', 'advanced.config'), 'utf8')
  say('Starting a private RabbitMQ node (data in ./data/rabbitmq).')
  for (;;) {
    const port = await nextFreePort(5672)
    // With Erlang's default number of schedulers: a gateway in use depends on this node, not just a test.
    const node = new PrivateBroker({ sbin, dir, port, conf, advanced, erlArgs: '+sbwt none' })
    try {
      await waitingFor('RabbitMQ to start', () => node.start(signal))
      return node
    } catch (error) {
      if (signal?.aborted || (await isPortFree(port))) throw error
      say(`Port ${port} was taken by another program meanwhile.`)
    }
  }
}

/**
 * Sets the policy. A failure is only reported, because the node works without it too.
 * @param {PrivateBroker} node
 */
async function keepLongQueuesOnDisk(node) {
  try {
    await waitingFor('RabbitMQ to take its policy', () => setLongQueuePolicy(node))
  } catch (error) {
    say(`The policy that keeps long queues on disk could not be set: ${messageOf(error)}`)
  }
}
