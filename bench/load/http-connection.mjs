import { connect } from 'node:net'

const HEAD_END = Buffer.from('\r\n\r\n')
const NOTHING = Buffer.alloc(0)
const ZERO = 48
const BUFFER_BYTES = 64 * 1024

/** @typedef {{ status: number, body: string }} Answer */

/**
 * An HTTP/1.1 keep-alive connection with one request or one pipeline in flight. It reads only the status and
 * Content-Length: a real HTTP client uses more CPU than the server that it measures.
 */
export class HttpConnection {
  /** @type {import('node:net').Socket} */
  #socket
  #kept = NOTHING
  /** @type {(status: number, body: Buffer) => void} */
  #answered
  /** @type {((error: Error) => void) | undefined} */
  #failed

  /** @param {string} url */
  static async open(url) {
    const { hostname, port } = new URL(url)
    const connection = new HttpConnection()
    await connection.#connect(hostname, Number(port))
    return connection
  }

  /**
   * `answered(status, body)`; the body is valid only during that call.
   * @param {Buffer} request
   * @param {(status: number, body: Buffer) => void} answered
   * @param {(error: Error) => void} failed
   */
  send(request, answered, failed) {
    this.#answered = answered
    this.#failed = failed
    this.#socket.write(request)
  }

  /**
   * As `send`, where the cost of a promise per request does not matter. The body is text.
   * @param {Buffer} request
   * @returns {Promise<Answer>}
   */
  request(request) {
    return new Promise((resolve, reject) => {
      this.send(request, (status, body) => resolve({ status, body: body.toString() }), reject)
    })
  }

  /**
   * HTTP pipelining: sends all requests in one write; resolves to the answers, in the same order.
   * @param {Buffer[]} requests
   * @returns {Promise<Answer[]>}
   */
  pipeline(requests) {
    return new Promise((resolve, reject) => {
      /** @type {Answer[]} */
      const answers = []
      const answered = (/** @type {number} */ status, /** @type {Buffer} */ body) => {
        answers.push({ status, body: body.toString() })
        if (answers.length === requests.length) resolve(answers)
      }
      this.send(Buffer.concat(requests), answered, reject)
    })
  }

  close() {
    this.#failed = undefined
    this.#socket.destroy()
  }

  /**
   * @param {string} host
   * @param {number} port
   * @returns {Promise<void>}
   */
  #connect(host, port) {
    return new Promise((resolve, reject) => {
      this.#failed = reject
      // One buffer for all reads: no stream machinery and no allocation per response.
      const onread = {
        buffer: Buffer.allocUnsafe(BUFFER_BYTES),
        callback: (/** @type {number} */ bytes, /** @type {Buffer} */ buffer) =>
          this.#read(buffer.subarray(0, bytes)),
      }
      this.#socket = connect({ host, port, noDelay: true, onread }, resolve)
      this.#socket.on('error', (error) => this.#failed?.(error))
      this.#socket.on('close', () => this.#failed?.(new Error('the server closed a connection')))
    })
  }

  /** @param {Buffer} chunk */
  #read(chunk) {
    let data = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    for (let end = endOfResponse(data); end <= data.length; end = endOfResponse(data)) {
      const status = digitAt(data, 9) * 100 + digitAt(data, 10) * 10 + digitAt(data, 11)
      const body = data.subarray(data.indexOf(HEAD_END) + HEAD_END.length, end)
      data = data.subarray(end)
      this.#answered(status, body)
    }
    this.#kept = data.length === 0 ? NOTHING : Buffer.from(data)
    return true
  }
}

/**
 * @param {Buffer} data
 * @param {number} index
 */
function digitAt(data, index) {
  return (data[index] ?? ZERO) - ZERO
}

/**
 * Infinity while the head is not complete.
 * @param {Buffer} data
 */
function endOfResponse(data) {
  const headEnd = data.indexOf(HEAD_END)
  if (headEnd < 0) return Number.POSITIVE_INFINITY
  const head = data.toString('latin1', 0, headEnd)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`an answer without Content-Length:\n${head}`)
  return headEnd + HEAD_END.length + Number(length)
}
