import { Heard } from './heard.ts'

/**
 * Runs what is inside: the next middleware, in the end the thing itself. May be called once, and
 * before the layer ends; a context given to it replaces the one that the inner layers see.
 */
export type Next<Context, Result> = (context?: Context) => Promise<Result>

// biome-ignore lint/suspicious/noConfusingVoidType: a layer without `return` is the usual one.
type Outcome<Result> = Result | void

/**
 * One layer of the onion (seed 004, "Middleware chain implementation"). What it returns is the
 * result of the layer; a layer that returns nothing keeps the result of its `next()`, so that
 * `await next()` as the last line loses none. A layer that never calls `next()` ends the chain.
 */
export type Middleware<Context, Result> = (
  context: Context,
  next: Next<Context, Result>,
) => Outcome<Result> | Promise<Outcome<Result>>

interface Entry<Context, Result> {
  /** Absent: it can neither be removed nor inserted around. */
  readonly name?: string
  readonly middleware: Middleware<Context, Result>
}

type Arguments<Context, Result> =
  | [middleware: Middleware<Context, Result>]
  | [name: string, middleware: Middleware<Context, Result>]

/**
 * An ordered chain of middleware; the first one is the outermost. Changes take effect for what is
 * run from then on, never for what is running.
 */
export class MiddlewareChain<Context, Result> {
  #entries: readonly Entry<Context, Result>[] = []

  /** Innermost so far. Throws `Error` for a name that is taken. */
  use(...args: Arguments<Context, Result>): this {
    this.#insert(this.#entries.length, entryOf(args))
    return this
  }

  /** Outermost. Throws `Error` for a name that is taken. */
  prepend(...args: Arguments<Context, Result>): this {
    this.#insert(0, entryOf(args))
    return this
  }

  /** Around `existing`. Throws `Error` where that is not there, or the name is taken. */
  insertBefore(existing: string, name: string, middleware: Middleware<Context, Result>): this {
    this.#insert(this.#indexOf(existing), entryOf([name, middleware]))
    return this
  }

  /** Directly inside `existing`. Throws `Error` where that is not there, or the name is taken. */
  insertAfter(existing: string, name: string, middleware: Middleware<Context, Result>): this {
    this.#insert(this.#indexOf(existing) + 1, entryOf([name, middleware]))
    return this
  }

  /** False: there was none of that name. */
  remove(name: string): boolean {
    const kept = this.#entries.filter((entry) => entry.name !== name)
    const isFound = kept.length < this.#entries.length
    this.#entries = kept
    return isFound
  }

  /** From the outermost to the innermost; `undefined` stands for one without a name. */
  get names(): (string | undefined)[] {
    return this.#entries.map(({ name }) => name)
  }

  /**
   * Runs `inner` inside all layers. Rejects with what a layer or `inner` threw, unless a layer caught
   * it, and with an `Error` when a layer called `next()` twice. The result is `undefined` where no
   * layer returned anything and `next()` was not called.
   */
  run(context: Context, inner: (context: Context) => Result | Promise<Result>): Promise<Result> {
    // Mostly there is no layer at all, and this is on the way of every job.
    if (this.#entries.length === 0) return alone(context, inner)
    return runFrom(this.#entries, 0, context, inner)
  }

  #insert(index: number, entry: Entry<Context, Result>): void {
    if (entry.name !== undefined && this.names.includes(entry.name)) {
      throw new Error(`There is a middleware named '${entry.name}' already.`)
    }
    // A new list: runs that have begun go on with the old one.
    this.#entries = this.#entries.toSpliced(index, 0, entry)
  }

  #indexOf(name: string): number {
    const index = this.#entries.findIndex((entry) => entry.name === name)
    if (index === -1) throw new Error(`There is no middleware named '${name}'.`)
    return index
  }
}

function entryOf<Context, Result>(args: Arguments<Context, Result>): Entry<Context, Result> {
  const entry = args.length === 1 ? { middleware: args[0] } : { name: args[0], middleware: args[1] }
  if (typeof entry.middleware !== 'function') throw new TypeError('A middleware is a function.')
  return entry
}

/** What a layer called with `next()`. */
interface Below<Result> {
  readonly done: Promise<Result>
  /** The same as the layer gets it: tells whether the layer has asked for it. */
  readonly heard: Heard<Result>
  isSettled: boolean
  result?: Result
}

/** As an async function would do it, without a frame of its own. */
function alone<Context, Result>(
  context: Context,
  inner: (context: Context) => Result | Promise<Result>,
): Promise<Result> {
  try {
    return Promise.resolve(inner(context))
  } catch (error) {
    return Promise.reject(error)
  }
}

async function runFrom<Context, Result>(
  entries: readonly Entry<Context, Result>[],
  index: number,
  context: Context,
  inner: (context: Context) => Result | Promise<Result>,
): Promise<Result> {
  const entry = entries[index]
  if (!entry) return await inner(context)
  const name = entry.name ?? '(no name)'
  let below: Below<Result> | undefined
  let misuse: Error | undefined
  let hasEnded = false
  const next: Next<Context, Result> = (replacement = context) => {
    // Whoever ran the chain has taken the end of this layer for its result: only the layer can be told.
    if (hasEnded) return Promise.reject(new Error(`Middleware '${name}' ${LATE}`))
    if (below) {
      misuse = new Error(`Middleware '${name}' called next() twice.`)
      return new Heard(Promise.reject(misuse))
    }
    below = observed(runFrom(entries, index + 1, replacement, inner))
    return below.heard
  }
  try {
    const outcome = await entry.middleware(context, next)
    if (misuse) throw misuse
    return await resultOf(outcome, below)
  } finally {
    hasEnded = true
  }
}

const LATE = 'called next() when it had ended: it has to await that, or return its promise.'

function observed<Result>(done: Promise<Result>): Below<Result> {
  const below: Below<Result> = { done, heard: new Heard(done), isSettled: false }
  done.then(
    (result) => {
      below.isSettled = true
      below.result = result
    },
    () => {
      below.isSettled = true
    },
  )
  return below
}

/**
 * A layer is not done before what it called is done: else a forgotten `await` would let a job be
 * acknowledged while its handler runs. An error that the layer caught stays caught; one that it
 * never asked for, because it had something else to do, is not.
 */
async function resultOf<Result>(
  outcome: Outcome<Result>,
  below: Below<Result> | undefined,
): Promise<Result> {
  if (below && !(below.isSettled && below.heard.isHeard)) await below.done
  // Without a result anywhere, `undefined` is the result; `Result` has to allow for it.
  return (outcome === undefined ? below?.result : outcome) as Result
}
