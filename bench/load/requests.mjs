const TYPE = 'application/openjobspec+json'

export const JOB_TYPE = 'bench.push'

/** About as large as those of a real job: the body is some 250 bytes, the envelope some 600. */
export const ARGS = [
  'user-4711@example.com',
  { template: 'order_confirmation', locale: 'en-GB', order_id: 'ord_01HZX3J9Q2', total: 149.95 },
  ['https://example.com/orders/ord_01HZX3J9Q2', true, 42],
]

/**
 * The whole request as bytes, made once and sent repeatedly.
 * @param {string} url
 * @param {string} queue
 * @param {string} [padding]
 * @param {object} [options]
 */
export function pushRequest(url, queue, padding, options) {
  return post(url, '/ojs/v1/jobs', job(queue, padding, options))
}

const NUMBER = '0000000000'

/**
 * Makes a PUSH whose last argument is a different number each time. The number is counted up in place in the
 * same bytes, so ask for the next request only after the last one was answered. `unique`: a policy, or none.
 * @param {string} url
 * @param {string} queue
 * @param {{ first: number, unique?: object }} job
 */
export function numberedPush(url, queue, { first, unique }) {
  const request = post(url, '/ojs/v1/jobs', {
    type: JOB_TYPE,
    args: [...ARGS, NUMBER],
    options: { queue, ...(unique && { unique }) },
  })
  const at = request.indexOf(NUMBER)
  let last = first
  return () => {
    last += 1
    request.write(String(last).padStart(NUMBER.length, '0'), at, 'latin1')
    return request
  }
}

/**
 * @param {string} url
 * @param {string} queue
 * @param {number} count
 * @param {string} [padding]
 */
export function batchRequest(url, queue, count, padding) {
  return post(url, '/ojs/v1/jobs/batch', { jobs: Array(count).fill(job(queue, padding)) })
}

/**
 * A chain with `steps` steps.
 * @param {string} url
 * @param {string} queue
 * @param {number} steps
 */
export function chainRequest(url, queue, steps) {
  return post(url, '/ojs/v1/workflows', { type: 'chain', steps: Array(steps).fill(job(queue)) })
}

/**
 * A batch with one job for each of the options.
 * @param {string} url
 * @param {string} queue
 * @param {object[]} options
 */
export function jobsRequest(url, queue, options) {
  return post(url, '/ojs/v1/jobs/batch', {
    jobs: options.map((each) => job(queue, undefined, each)),
  })
}

/**
 * `padding` is an additional argument that makes a job larger.
 * @param {string} queue
 * @param {string} [padding]
 * @param {object} [options]
 */
function job(queue, padding, options) {
  const args = padding === undefined ? ARGS : [...ARGS, padding]
  return { type: JOB_TYPE, args, options: { queue, ...options } }
}

/**
 * @param {string} url
 * @param {string} queue
 * @param {string} workerId
 * @param {number} waitMs
 */
export function fetchRequest(url, queue, workerId, waitMs, count = 1) {
  const body = { queues: [queue], count, worker_id: workerId, wait_ms: waitMs }
  return post(url, '/ojs/v1/workers/fetch', body)
}

/**
 * @param {string} url
 * @param {string} jobId
 */
export function ackRequest(url, jobId) {
  return post(url, '/ojs/v1/workers/ack', { job_id: jobId })
}

/**
 * @param {string} url
 * @param {string} path
 */
export function getRequest(url, path) {
  return withoutBody('GET', url, path)
}

/**
 * @param {string} url
 * @param {string} jobId
 */
export function cancelRequest(url, jobId) {
  return withoutBody('DELETE', url, `/ojs/v1/jobs/${jobId}`)
}

/**
 * @param {string} method
 * @param {string} url
 * @param {string} path
 */
function withoutBody(method, url, path) {
  return Buffer.from(`${method} ${path} HTTP/1.1\r\nHost: ${new URL(url).host}\r\n\r\n`)
}

/**
 * @param {string} url
 * @param {string} path
 * @param {object} body
 */
function post(url, path, body) {
  const text = JSON.stringify(body)
  const head = [
    `POST ${path} HTTP/1.1`,
    `Host: ${new URL(url).host}`,
    `Content-Type: ${TYPE}`,
    `Content-Length: ${Buffer.byteLength(text)}`,
  ]
  return Buffer.from(`${head.join('\r\n')}\r\n\r\n${text}`)
}
