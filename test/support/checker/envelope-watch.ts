import { request as ask, createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { assertEnvelopes } from './envelope.ts'

/** A proxy between a client and a gateway that checks every job that passes. */
export interface EnvelopeWatch {
  /** The URL for the client. */
  readonly url: string
  /** Jobs seen so far. */
  readonly seen: number
  /** What was wrong with them. */
  readonly complaints: readonly string[]
  close(): void
}

/** Starts a proxy for one gateway on a free port. It changes nothing. */
export async function watchEnvelopes(gatewayUrl: string): Promise<EnvelopeWatch> {
  const complaints: string[] = []
  let seen = 0
  const look = (request: IncomingMessage, text: string) => {
    try {
      const body: unknown = JSON.parse(text || '{}')
      seen += assertEnvelopes(request.url ?? '', body)
    } catch (error) {
      complaints.push(`${request.method} ${request.url}: ${String(error)}`)
    }
  }
  const server = createServer((request, response) => forward(gatewayUrl, request, response, look))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return {
    url: `http://127.0.0.1:${port}`,
    get seen() {
      return seen
    },
    complaints,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

function forward(
  gatewayUrl: string,
  request: IncomingMessage,
  response: ServerResponse,
  look: (request: IncomingMessage, text: string) => void,
): void {
  const { method, headers, url } = request
  const upstream = ask(new URL(url ?? '/', gatewayUrl), { method, headers }, (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders)
    const chunks: Buffer[] = []
    answer.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      response.write(chunk)
    })
    answer.on('end', () => {
      const isJson = answer.headers['content-type']?.includes('json')
      if (isJson) look(request, Buffer.concat(chunks).toString())
      response.end()
    })
  })
  upstream.on('error', () => response.destroy())
  // A poll that its client gives up is given up at the gateway, too.
  response.on('close', () => upstream.destroy())
  request.pipe(upstream)
}
