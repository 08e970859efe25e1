import { connect } from 'node:net'

const HEAD_END = Buffer.from('\r\n\r\n')
const NOTHING = Buffer.alloc(0)
const ZERO = 48
const BUFFER_BYTES = 64 * 1024

/**
 * An HTTP/1.1 keep-alive connection with one request or one pipeline in flight. It reads only the status and
 * Content-Length: a real HTTP client uses more CPU than the server that it measures.
 */
export class HttpConnection {
  #socket
  #kept = NOTHING
  #answered
  #failed

  static async open(url) {
    const { hostname, port } = new URL(url)
    const connection = new HttpConnection()
    await connection.#connect(hostname, Number(port))
    return connection
  }

  /** `answered(status, body)`; the body is valid only during that call. */
  send(request, answered, failed) {
    this.#answered = answered
    this.#failed = failed
    this.#socket.write(request)
  }

  /** As `send`, where the cost of a promise per request does not matter. The body is text. */
  request(request) {
    return new Promise((resolve, reject) => {
      this.send(request, (status, body) => resolve({ status, body: body.toString() }), reject)
    })
  }

  /** HTTP pipelining: sends all requests in one write; resolves to the answers, in the same order. */
  pipeline(requests) {
    return new Promise((resolve, reject) => {
      const answers = []
      const answered = (status, body) => {
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

  #connect(host, port) {
    return new Promise((resolve, reject) => {
      this.#failed = reject
      // One buffer for all reads: no stream machinery and no allocation per response.
      const onread = {
        buffer: Buffer.allocUnsafe(BUFFER_BYTES),
        callback: (bytes, buffer) => this.#read(buffer.subarray(0, bytes)),
      }
      this.#socket = connect({ host, port, noDelay: true, onread }, resolve)
      this.#socket.on('error', (error) => this.#failed?.(error))
      this.#socket.on('close', () => this.#failed?.(new Error('the server closed a connection')))
    })
  }

  #read(chunk) {
    let data = this.#kept.length === 0 ? chunk : Buffer.concat([this.#kept, chunk])
    for (let end = endOfResponse(data); end <= data.length; end = endOfResponse(data)) {
      const status = (data[9] - ZERO) * 100 + (data[10] - ZERO) * 10 + (data[11] - ZERO)
      const body = data.subarray(data.indexOf(HEAD_END) + HEAD_END.length, end)
      data = data.subarray(end)
      this.#answered(status, body)
    }
    this.#kept = data.length === 0 ? NOTHING : Buffer.from(data)
    return true
  }
}

/** Infinity while the head is not complete. */
function endOfResponse(data) {
  const headEnd = data.indexOf(HEAD_END)
  if (headEnd < 0) return Number.POSITIVE_INFINITY
  const head = data.latin1Slice(0, headEnd)
  const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
  if (length === undefined) throw new Error(`an answer without Content-Length:\n${head}`)
  return headEnd + HEAD_END.length + Number(length)
}
