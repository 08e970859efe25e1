/** What every operator's command has: the server with its key, and how it prints. */
import { readFileSync } from 'node:fs'
import { HttpTransport, OJSClient } from '../../sdk/index.ts'
import { complain, print } from '../command.ts'
import { Mistake } from './exit-codes.ts'
import { documentOf, printEach, printTable, type Row } from './output.ts'
import { type TlsOptions, tlsFetch } from './tls-fetch.ts'

/** The options that every command takes. */
export interface CommonOptions extends TlsOptions {
  url?: string
  keyFile?: string
  json?: boolean
}

type Json = Record<string, unknown>

/** A server, and an output that is either for people or JSON, one document in a line. */
export class Session {
  readonly client: OJSClient
  readonly isJson: boolean
  readonly #transport: HttpTransport

  /** Throws `Mistake` for a URL, a key or a certificate that cannot be used. */
  constructor(options: CommonOptions, env: NodeJS.ProcessEnv) {
    this.isJson = options.json === true
    const auth = keyOf(options, env)
    const url = urlOf(options, env)
    const fetch = tlsFetch(options, env)
    try {
      this.#transport = new HttpTransport({ url, ...(auth && { auth }), ...(fetch && { fetch }) })
    } catch (error) {
      throw new Mistake(error instanceof Error ? error.message : String(error))
    }
    this.client = new OJSClient({ transport: this.#transport })
  }

  async ask(method: string, path: string, body?: object): Promise<Json> {
    const { body: answer } = await this.#transport.request({ method, path, body })
    return answer as Json
  }

  /** The items of a list, page after page, at most `most`. */
  async *items(path: string, member: string, most: number): AsyncGenerator<Json> {
    let place = ''
    for (let read = 0; read < most; ) {
      const separator = path.includes('?') ? '&' : '?'
      const limit = Math.min(100, most - read)
      const page = await this.ask('GET', `${path}${separator}limit=${limit}${place}`)
      const items = (page[member] ?? page['items'] ?? []) as Json[]
      yield* items
      read += items.length
      const { next_cursor: cursor, has_more: isMore } = (page['pagination'] ?? {}) as Json
      // A page that compares many jobs may end before it has found one.
      if (isMore !== true || (items.length === 0 && cursor === undefined)) return
      place = typeof cursor === 'string' ? `&cursor=${cursor}` : `&offset=${read}`
    }
  }

  /**
   * A list: as a table of these columns, or whole, one JSON document in a line. If there are more than `most`, it
   * says so on stderr: nobody should take a part for all.
   */
  async list(items: AsyncIterable<Json>, columns: readonly string[], most = MOST): Promise<number> {
    const shown = first(most, items)
    if (this.isJson) await printEach(documentsOf(shown))
    else {
      const rows: Row[] = []
      for await (const item of shown) rows.push(columns.map((column) => at(item, column)))
      printTable(columns.map(titleOf), rows)
    }
    return 0
  }

  /** One thing: its members in a table of two columns, or as JSON. */
  show(thing: object): number {
    if (this.isJson) print(documentOf(thing))
    else printTable(null, Object.entries(thing))
    return 0
  }
}

async function* documentsOf(items: AsyncIterable<Json>): AsyncGenerator<string> {
  for await (const item of items) yield documentOf(item)
}

async function* first(most: number, items: AsyncIterable<Json>): AsyncGenerator<Json> {
  let left = most
  for await (const item of items) {
    if (left === 0) return complain(`only the first ${most} are shown; see --limit`)
    yield item
    left -= 1
  }
}

/** The member of an item at `a.b`. */
function at(item: Json, path: string): unknown {
  return path.split('.').reduce<unknown>((value, name) => (value as Json | null)?.[name], item)
}

function titleOf(path: string): string {
  return path.split('.').at(-1)?.replaceAll('_', ' ') ?? path
}

function urlOf({ url }: CommonOptions, env: NodeJS.ProcessEnv): string {
  // Empty counts as unset, as in `config/readers.ts`.
  const scheme = env['OJS_TLS_CERT'] ? 'https' : 'http'
  return url ?? (env['OJS_URL'] || `${scheme}://127.0.0.1:${env['OJS_PORT'] || 8080}`)
}

/** Never from an option: every user of the machine can read the arguments of a process. */
function keyOf({ keyFile }: CommonOptions, env: NodeJS.ProcessEnv): string | undefined {
  const key = keyFile === undefined ? env['OJS_API_KEY'] : inFile(keyFile)
  if (!key) return undefined
  if (!/^[\x21-\x7e]+$/.test(key)) {
    throw new Mistake('The API key has a blank, a line end or a character that no key contains.')
  }
  return key
}

function inFile(path: string): string {
  try {
    const key = readFileSync(path, 'utf8').trim()
    if (key !== '') return key
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? error.code : error
    throw new Mistake(`'${path}' cannot be read (${code}).`)
  }
  throw new Mistake(`'${path}' is empty.`)
}

/** Of lists that nobody limits: far more than there are queues, workers or cron entries. */
export const MOST = 1_000_000

/** A name or id in a path. */
export function segment(text: string): string {
  if (text === '' || text === '.' || text === '..') throw new Mistake(`'${text}' is no name or id.`)
  return encodeURIComponent(text)
}
