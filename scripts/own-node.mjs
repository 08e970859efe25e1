import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { needsLongQueuePolicy, setLongQueuePolicy } from './long-queues.mjs'
import { inRoot } from './paths.mjs'
import { isPortFree, nextFreePort } from './ports.mjs'
import { PrivateBroker } from './private-broker.mjs'
import { say, waitingFor } from './progress.mjs'

/** The node of `npm start`: its data stays in ./data/rabbitmq for the next start. */
export async function startOwnNode(sbin, signal) {
  const dir = inRoot('data', 'rabbitmq')
  // What is in the queues is not for the other users of this machine.
  mkdirSync(dir, { recursive: true, mode: 0o700 })
  const isNew = !existsSync(join(dir, 'mnesia'))
  const node = await startedNode(sbin, dir, signal)
  // Once: from then on it is its owner's, who may want it otherwise.
  if (isNew && needsLongQueuePolicy(sbin) && !signal?.aborted) await keepLongQueuesOnDisk(node)
  return {
    url: node.url(),
    origin: `a private node on 127.0.0.1:${node.port}, data in ./data/rabbitmq`,
    stop: () => waitingFor('RabbitMQ to stop', () => node.stop()),
    exited: () => node.exited,
    restart: (signal) => node.restart(signal),
  }
}

async function startedNode(sbin, dir, signal) {
  const conf = readFileSync(inRoot('topology', 'rabbitmq.conf'), 'utf8')
  const advanced = readFileSync(inRoot('topology', 'advanced.config'), 'utf8')
  say('Starting a private RabbitMQ node (data in ./data/rabbitmq).')
  for (;;) {
    const port = await nextFreePort(5672)
    // Erlang's own number of schedulers: this node is the gateway's only one, not a test's.
    const node = new PrivateBroker({ sbin, dir, port, conf, advanced, erlArgs: '+sbwt none' })
    try {
      await waitingFor('RabbitMQ to start', () => node.start(signal))
      return node
    } catch (error) {
      if (signal?.aborted || (await isPortFree(port))) throw error
      say(`Port ${port} was taken by somebody else meanwhile.`)
    }
  }
}

/** A node without that policy is still one that serves. */
async function keepLongQueuesOnDisk(node) {
  try {
    await waitingFor('RabbitMQ to take its policy', () => setLongQueuePolicy(node))
  } catch (error) {
    say(`RabbitMQ keeps long queues in its memory: ${error.message}`)
  }
}
