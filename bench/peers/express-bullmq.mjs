/** The server that users would write: Express takes a job, BullMQ adds it. `argv`: modules, Redis's port. */
import { createRequire } from 'node:module'

const [modules = '', redisPort] = process.argv.slice(2)
/** Types of packages that are no dependencies are not to be had. @type {(name: string) => any} */
const load = createRequire(`${modules}/`)
const express = load('express')
const { Queue } = load('bullmq')
const connection = { host: '127.0.0.1', port: Number(redisPort) }

const queues = new Map()
/** @param {string} name */
function queueOf(name) {
  if (!queues.has(name)) queues.set(name, new Queue(name, { connection }))
  return queues.get(name)
}

const app = express()
app.disable('x-powered-by')
app.disable('etag')
app.use(express.json({ limit: '10mb' }))
app.post(
  '/jobs',
  async (
    /** @type {{ body: { type: string, args: unknown, queue: string } }} */ {
      body: { type, args, queue },
    },
    /** @type {{ status(code: number): { json(body: object): void } }} */ response,
  ) => {
    const { id } = await queueOf(queue).add(type, { args }, { removeOnComplete: true })
    response.status(201).json({ id })
  },
)
app.post(
  '/bulk',
  async (
    /** @type {{ body: { jobs: { type: string, args: unknown }[], queue: string } }} */ {
      body: { jobs, queue },
    },
    /** @type {{ status(code: number): { json(body: object): void } }} */ response,
  ) => {
    const opts = { removeOnComplete: true }
    const added = await queueOf(queue).addBulk(
      jobs.map(({ type, args }) => ({
        name: type,
        data: { args },
        opts,
      })),
    )
    response.status(201).json({ ids: added.map((/** @type {{ id: string }} */ { id }) => id) })
  },
)
const server = app.listen(0, '127.0.0.1', () => {
  process.send?.({ url: `http://127.0.0.1:${server.address().port}` })
})
process.on('disconnect', () => process.exit())
