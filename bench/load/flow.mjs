import { serve } from '../child.mjs'
import { HttpConnection } from './http-connection.mjs'
import { ackRequest, fetchRequest, pushRequest } from './requests.mjs'
import { countedWindow, faultLine } from './window.mjs'

/** Producers are faster than workers, so they wait while so many jobs are in flight. */
const MAX_BACKLOG = 1024
const WAIT_MS = 2000

serve({ flow })

/** @typedef {{ pushed: number, acked: number, isOver: boolean, paused: ((value: unknown) => void)[] }} State */

/**
 * Runs `connections` producers and as many workers (FETCH one, ACK it); counts acknowledged jobs.
 * @param {{ url: string, queue: string, connections: number, seconds: number, watch: import('../meter.mjs').Watched }} load
 */
async function flow({ url, queue, connections, seconds, watch }) {
  const { fault, fail } = faultLine()
  const open = () =>
    Promise.all(Array.from({ length: connections }, () => HttpConnection.open(url)))
  const [producers, workers] = await Promise.all([open(), open()])
  /** @type {State} */
  const state = { pushed: 0, acked: 0, isOver: false, paused: [] }

  const producing = producers.map((connection) => produce(connection, url, queue, state))
  const working = workers.map((connection, index) => work(connection, url, queue, index, state))
  const finished = Promise.all([...producing, ...working])
  finished.catch(fail)
  const round = await countedWindow({ done: () => state.acked, seconds, watch, fault })
  state.isOver = true
  resume(state)
  await finished
  for (const connection of [...producers, ...workers]) connection.close()
  return round
}

/**
 * @param {import('../load/http-connection.mjs').HttpConnection} connection
 * @param {string} url
 * @param {string} queue
 * @param {State} state
 */
async function produce(connection, url, queue, state) {
  const request = pushRequest(url, queue)
  while (!state.isOver) {
    if (state.pushed - state.acked >= MAX_BACKLOG) {
      await new Promise((resolve) => state.paused.push(resolve))
      continue
    }
    const { status, body } = await connection.request(request)
    if (status !== 201) throw new Error(`PUSH answered ${status}: ${body}`)
    state.pushed += 1
  }
}

/**
 * @param {import('../load/http-connection.mjs').HttpConnection} connection
 * @param {string} url
 * @param {string} queue
 * @param {number} index
 * @param {State} state
 */
async function work(connection, url, queue, index, state) {
  const request = fetchRequest(url, queue, `bench-worker-${index}`, WAIT_MS)
  while (!state.isOver || state.acked < state.pushed) {
    const fetched = await connection.request(request)
    if (fetched.status !== 200) throw new Error(`FETCH answered ${fetched.status}: ${fetched.body}`)
    const [job] = JSON.parse(fetched.body).jobs
    if (!job) continue
    const { status, body } = await connection.request(ackRequest(url, job.id))
    if (status !== 200) throw new Error(`ACK answered ${status}: ${body}`)
    state.acked += 1
    resume(state)
  }
}

/** @param {State} state */
function resume(state) {
  for (const proceed of state.paused.splice(0)) proceed(undefined)
}
