import { request } from 'node:http'

const GUEST = `Basic ${Buffer.from('guest:guest').toString('base64')}`

/**
 * Sends one request, as guest, to the management plugin of a node on this machine. Resolves to the status and
 * the text of the body. Not with `fetch`, whose idle connection would delay the node's stop by 5 s.
 * @param {number} port
 * @param {'GET' | 'PUT' | 'POST' | 'DELETE'} method
 * @param {string} path
 * @param {unknown} [body]
 * @returns {Promise<{ status: number, text: string }>}
 */
export function managementRequest(port, method, path, body) {
  return new Promise((resolve, reject) => {
    const headers = { authorization: GUEST, 'content-type': 'application/json' }
    const options = { port, host: '127.0.0.1', method, path: `/api${path}`, headers, agent: false }
    const sent = request(options, (response) => {
      let text = ''
      response.setEncoding('utf8')
      response.on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    sent.on('error', reject)
    sent.end(body === undefined ? undefined : JSON.stringify(body))
  })
}
