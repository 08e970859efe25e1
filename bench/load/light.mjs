// A light load of HTTP requests, as of a small application: PUSH, FETCH, ACK and a look at the job, one after another with
// pauses. Tells the latency of each request.

import { Agent, request as httpRequest } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '../child.mjs'

/** Between two requests of a connection, so that the gateway is idle most of the time. */
const PAUSE_MS = 20
const CONNECTIONS = 4
const TYPE = 'application/openjobspec+json'

const agent = new Agent({ keepAlive: true, maxSockets: CONNECTIONS })
/** @typedef {{ isOver: boolean, latencies: number[], failed: number, loops: Promise<void>[] }} Run */

/** @type {Run} */
let run

serve({ start, stop })

/** @param {{ url: string, queue: string }} target */
function start({ url, queue }) {
  run = { isOver: false, latencies: [], failed: 0, loops: [] }
  const of = run
  for (let n = 0; n < CONNECTIONS; n++) run.loops.push(loop(of, url, `${queue}.${n}`))
}

/** Returns what it took, in milliseconds, of each request since `start`. */
async function stop() {
  run.isOver = true
  await Promise.all(run.loops)
  return { latencies: run.latencies, failed: run.failed }
}

/**
 * @param {Run} of
 * @param {string} url
 * @param {string} queue
 */
async function loop(of, url, queue) {
  const worker = { worker_id: queue }
  while (!of.isOver) {
    await timed(of, url, 'POST', '/jobs', { type: 'bench.light', args: [1], options: { queue } })
    const body = { ...worker, queues: [queue], wait_ms: 5_000 }
    const { jobs = [] } = await timed(of, url, 'POST', '/workers/fetch', body)
    for (const { id } of jobs) {
      await timed(of, url, 'POST', '/workers/ack', { ...worker, job_id: id })
      await timed(of, url, 'GET', `/jobs/${id}`)
    }
  }
}

/**
 * @param {Run} of
 * @param {string} url
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 */
async function timed(of, url, method, path, body) {
  const begun = performance.now()
  const { status, answer } = await ask(url, method, path, body)
  of.latencies.push(performance.now() - begun)
  if (status >= 300) of.failed += 1
  await sleep(PAUSE_MS)
  return answer
}

/**
 * @returns {Promise<{ status: number, answer: any }>}
 * @param {string} url
 * @param {string} method
 * @param {string} path
 * @param {object} [body]
 */
function ask(url, method, path, body) {
  return new Promise((resolve, reject) => {
    const options = { agent, method, headers: { 'content-type': TYPE } }
    const sent = httpRequest(`${url}/ojs/v1${path}`, options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (part) => {
        text += part
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, answer: JSON.parse(text) }),
      )
    })
    sent.on('error', reject)
    sent.end(body && JSON.stringify(body))
  })
}
