/** A slot: commits groups through one connection, and knows after a lost answer whether a group was committed. */
import type { Answer, Connection, Statement } from './connection.ts'
import { failureOf, kindOf } from './sql-errors.ts'

/**
 * One group of writes: load – decide – store. `decide` is pure: it runs again when the group met another one,
 * or when its first try was lost.
 */
export interface Group {
  /** Locks and reads the rows that `decide` needs, in one order (by id), or two groups could deadlock. */
  load: readonly Statement[]
  /** Returns what to store; or what else to load before it can say that. */
  decide(loaded: readonly Answer[]): readonly Statement[] | Group
}

/** Another process has taken the slot: this one may write no more. */
export class Fenced extends Error {
  override readonly name = 'Fenced'
}

/** Some value of the group cannot be stored. Nothing of it was written; its other writes may be, without it. */
export class DataError extends Error {
  override readonly name = 'DataError'
}

/** Whether the group was committed is unknown, because no host answers. */
export class Undecided extends Error {
  override readonly name = 'Undecided'
}

export interface SlotOptions {
  schema: string
  /** Of the ledger's slots; from 1. */
  id: number
  /** A UUID of this process: it tells our own epoch, when the answer to a `take` was lost, from another's. */
  owner: string
  /** Opens a connection to the writable host. */
  connect: () => Promise<Connection>
  /** Only the gateway that has the lease may take the slot (`Leadership`). */
  needsLease?: boolean
}

/** Every fence is in a WHERE, which looks again after a wait; a database may have another level as its default. */
const BEGIN: Statement = { text: 'BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE' }

/** How often a group that meets others is tried before its writers hear of it. */
const MOST_TRIES = 10

/**
 * Commits one group after the other. The row of the slot is lock, fence and group number in one: a group that
 * the network held up, and that arrives after somebody took the slot, does nothing; and what the row says
 * after a take-over is final, because taking it waits for a backend that is still committing.
 */
export class Slot {
  #options
  #connection: Connection | null = null
  #epoch = 0
  #group = 0
  /** The number of a group of which it is unknown whether it was committed. */
  #undecided: number | null = null

  constructor(options: SlotOptions) {
    this.#options = options
  }

  /**
   * Takes the slot from whoever had it; that process can write through it no more. Rejects with `Fenced` if the
   * lease that it needs has run out meanwhile.
   */
  async take(): Promise<void> {
    const { schema, id, owner, needsLease } = this.#options
    const held = `FROM ${schema}.leader WHERE owner = $2 AND until > clock_timestamp()`
    const text = `INSERT INTO ${schema}.slots AS old (id, owner, epoch, last_group)
      SELECT $1::int, $2::uuid, 1, 0 ${needsLease ? held : ''}
      ON CONFLICT (id) DO UPDATE SET owner = excluded.owner, epoch = old.epoch + 1,
        before_owner = CASE WHEN old.owner = excluded.owner THEN old.before_owner ELSE old.owner END,
        before_group = CASE WHEN old.owner = excluded.owner THEN old.before_group ELSE old.last_group END
      RETURNING epoch, last_group`
    const row = await this.#askRow({ text, values: [id, owner] })
    if (!row) throw new Fenced(`slot ${id} was not taken: the lease is not ours any more`)
    this.#group = row.last_group
  }

  /**
   * Resolves when the group is committed, exactly once, whatever happened to the connection meanwhile. Rejects
   * with `Fenced`, `DataError`, the error of `decide`, or another fault of the server; then nothing of the
   * group was written. With `Undecided` that is not known yet: `settle` says it, and has to be called before the
   * next group. Not concurrently.
   */
  async commit(group: Group): Promise<void> {
    if (this.#undecided !== null) throw new Undecided('the group before is undecided')
    const number = this.#group + 1
    for (let tries = 1; ; tries++) {
      try {
        return await this.#try(group, number)
      } catch (error) {
        if (error instanceof ConnectionLost) {
          if (await this.#settleNow(number)) return
        } else if (kindOf(error) !== 'repeat') throw explained(error)
        if (tries === MOST_TRIES) throw error
      }
    }
  }

  async #settleNow(number: number): Promise<boolean> {
    this.#undecided = number
    try {
      return await this.settle()
    } catch (error) {
      if (error instanceof Fenced) throw error
      throw new Undecided('it is unknown whether the group was committed', { cause: error })
    }
  }

  /**
   * After `Undecided`: whether that group was committed. If it was not, it never will be. Rejects while no host
   * answers, and with `Fenced` if another process has the slot and it was not. (If a third one has it, that is not
   * known any more.)
   */
  async settle(): Promise<boolean> {
    const number = this.#undecided
    if (number === null) throw new Error('no group is undecided')
    const { schema, id, owner } = this.#options
    await this.close()
    // Not by epoch: the answer to an earlier try of this very statement may have been lost.
    const text = `UPDATE ${schema}.slots SET epoch = epoch + 1 WHERE id = $1 AND owner = $2
      RETURNING epoch, last_group`
    const row = await this.#askRow({ text, values: [id, owner] })
    if (!row && !(await this.#wasCommitted(number)))
      throw new Fenced(`slot ${id} is not ours any more`)
    this.#group = row?.last_group ?? number
    this.#undecided = null
    return this.#group >= number
  }

  /** Before another process took the slot, whose epoch is none of ours. */
  async #wasCommitted(number: number): Promise<boolean> {
    const { schema, id, owner } = this.#options
    const text = `SELECT FROM ${schema}.slots
      WHERE id = $1 AND before_owner = $2 AND before_group >= $3`
    const asked = { text, values: [id, owner, number] }
    const [answer] = await this.#asked(await this.#connected(), [asked])
    return answer?.rows.length === 1
  }

  async close(): Promise<void> {
    const connection = this.#connection
    this.#connection = null
    await connection?.close()
  }

  /** One flush if there is nothing to load, else one more for each load. */
  async #try(group: Group, number: number): Promise<void> {
    const connection = await this.#connected()
    let unsent: readonly Statement[] = [BEGIN, this.#fence(number)]
    let next = group.load.length === 0 ? group.decide([]) : group
    while ('load' in next) {
      const loaded = await this.#asked(connection, [...unsent, ...next.load])
      next = await this.#decided(connection, next, loaded.slice(unsent.length))
      unsent = []
    }
    await this.#end(connection, [...unsent, ...next], number)
  }

  async #decided(connection: Connection, group: Group, loaded: Answer[]) {
    try {
      return group.decide(loaded)
    } catch (error) {
      await connection.ask([{ text: 'ROLLBACK' }])
      throw new DecisionFailed(error)
    }
  }

  #fence(number: number): Statement {
    const { schema, id } = this.#options
    return { text: `SELECT ${schema}.take_slot($1, $2, $3)`, values: [id, this.#epoch, number] }
  }

  async #end(connection: Connection, statements: readonly Statement[], number: number) {
    const answers = await this.#asked(connection, [...statements, { text: 'COMMIT' }])
    // COMMIT of a failed transaction rolls back, and does not fail.
    if (answers.at(-1)?.command !== 'COMMIT') throw new Error('the group was rolled back')
    this.#group = number
  }

  async #asked(connection: Connection, statements: readonly Statement[]): Promise<Answer[]> {
    const results = await connection.ask(statements)
    const failure = failureOf(results)
    if (failure?.kind === 'lost') throw new ConnectionLost(failure.error)
    if (failure) {
      await connection.ask([{ text: 'ROLLBACK' }])
      throw failure.error
    }
    return results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
  }

  /** Not one that ended meanwhile: what is asked there was never sent, but would count as undecided. */
  async #connected(): Promise<Connection> {
    if (this.#connection?.isLost) await this.close()
    this.#connection ??= await this.#options.connect()
    return this.#connection
  }

  async #askRow(statement: Statement): Promise<{ epoch: number; last_group: number } | undefined> {
    const [answer] = await this.#asked(await this.#connected(), [statement])
    const row = answer?.rows[0] as { epoch: number; last_group: number } | undefined
    if (row) this.#epoch = row.epoch
    return row
  }
}

class ConnectionLost extends Error {
  override readonly name = 'ConnectionLost'
  constructor(cause: unknown) {
    super('the connection to PostgreSQL was lost', { cause })
  }
}

/** Keeps what a writer's callback threw apart from errors of the server. */
class DecisionFailed extends Error {
  override readonly name = 'DecisionFailed'
  constructor(cause: unknown) {
    super('the decision failed', { cause })
  }
}

function explained(error: unknown): unknown {
  if (error instanceof DecisionFailed) return error.cause
  const kind = kindOf(error)
  if (kind === 'fenced') return new Fenced('the slot is not ours any more', { cause: error })
  if (kind === 'data') return new DataError('a value cannot be stored', { cause: error })
  return error
}
