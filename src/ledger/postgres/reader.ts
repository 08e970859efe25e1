/** Reads of committed rows, on a connection of their own. */
import { unavailable } from '../../errors.ts'
import type { Connection, Row, Statement } from './connection.ts'
import { closed } from './group/groups.ts'
import { comparable } from './nul.ts'
import { kindOf } from './sql-errors.ts'

export class Reader {
  readonly #connect: () => Promise<Connection>
  #connection: Promise<Connection> | null = null
  readonly #mayRead: () => Promise<boolean>
  #isClosed = false

  /** `mayRead`: false while another gateway may be active, whose writes would be missing in what is done. */
  constructor(connect: () => Promise<Connection>, mayRead = async () => true) {
    this.#connect = connect
    this.#mayRead = mayRead
  }

  /** The rows of one statement. Rejects with 503 when no host answers. */
  async rows(text: string, values: readonly unknown[] = []): Promise<readonly Row[]> {
    if (this.#isClosed) throw closed()
    if (!(await this.#mayRead())) throw unavailable('Another gateway may be active.', 'ledger')
    try {
      return await this.#ask({ text, values }).catch((error: unknown) => {
        // The server may have been restarted since the last read.
        if (this.#isClosed || kindOf(error) !== 'lost') throw error
        return this.#ask({ text, values })
      })
    } catch (error) {
      throw unavailable('The ledger cannot be read.', 'ledger', error)
    }
  }

  /** The rows of `page` in its order, and the number that `total` finds, of one moment. */
  async page(
    total: string,
    page: string,
    values: readonly unknown[],
  ): Promise<{ rows: readonly Row[]; total: number }> {
    const text = `SELECT t.total AS "_total", p.* FROM (${total}) AS t (total)
      LEFT JOIN (SELECT row_number() OVER () AS "_place", l.* FROM (${page}) l) p ON true
      ORDER BY "_place"`
    const found = await this.rows(text, values)
    const rows = found.filter(({ _place }) => _place !== null)
    return {
      rows: rows.map(({ _total, _place, ...row }) => row),
      total: Number(found[0]?.['_total']),
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    await this.#forget()
  }

  async #ask({ text, values = [] }: Statement): Promise<readonly Row[]> {
    this.#connection ??= this.#connect()
    const asked = this.#connection
    try {
      const [result] = await (await asked).ask([{ text, values: values.map(comparable) }])
      if (result?.status !== 'fulfilled') throw result?.reason
      return result.value.rows
    } catch (error) {
      if (this.#connection === asked && kindOf(error) === 'lost') await this.#forget()
      throw error
    }
  }

  async #forget(): Promise<void> {
    const connection = this.#connection
    this.#connection = null
    await connection?.then((open) => open.close()).catch(() => {})
  }
}
