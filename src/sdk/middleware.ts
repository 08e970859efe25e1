/** An ordered chain of middleware, for enqueueing and for handlers. */
import { ObservedPromise } from './async/observed-promise.ts'

/**
 * Runs the next middleware, or the innermost function after the last one. May be called once, and only before
 * its middleware ends. A context given to it replaces the one that the inner middleware see.
 */
export type Next<Context, Result> = (context?: Context) => Promise<Result>

// biome-ignore lint/suspicious/noConfusingVoidType: most middleware return nothing.
type Outcome<Result> = Result | void

/**
 * One middleware (seed 004, "Middleware chain implementation"). Its result is what it returns. If it returns
 * nothing, its result is that of its `next()`, so that `await next()` as the last line does not lose it. A
 * middleware that never calls `next()` ends the chain.
 */
export type Middleware<Context, Result> = (
  context: Context,
  next: Next<Context, Result>,
) => Outcome<Result> | Promise<Outcome<Result>>

interface Entry<Context, Result> {
  /** Absent: the entry cannot be removed, and nothing can be inserted around it. */
  readonly name?: string
  readonly middleware: Middleware<Context, Result>
}

type Arguments<Context, Result> =
  | [middleware: Middleware<Context, Result>]
  | [name: string, middleware: Middleware<Context, Result>]

/**
 * An ordered chain of middleware; the first one is the outermost. A change affects later runs only, not those
 * that have begun.
 */
export class MiddlewareChain<Context, Result> {
  #entries: readonly Entry<Context, Result>[] = []

  /** Adds the middleware as the innermost. Throws `Error` if the name is taken. */
  use(...args: Arguments<Context, Result>): this {
    this.#insert(this.#entries.length, entryOf(args))
    return this
  }

  /** Adds the middleware as the outermost. Throws `Error` if the name is taken. */
  prepend(...args: Arguments<Context, Result>): this {
    this.#insert(0, entryOf(args))
    return this
  }

  /** Adds it directly around `existing`. Throws `Error` if `existing` is missing or the name is taken. */
  insertBefore(existing: string, name: string, middleware: Middleware<Context, Result>): this {
    this.#insert(this.#indexOf(existing), entryOf([name, middleware]))
    return this
  }

  /** Adds it directly inside `existing`. Throws `Error` if `existing` is missing or the name is taken. */
  insertAfter(existing: string, name: string, middleware: Middleware<Context, Result>): this {
    this.#insert(this.#indexOf(existing) + 1, entryOf([name, middleware]))
    return this
  }

  /** Removes the middleware. False: there was none of that name. */
  remove(name: string): boolean {
    const kept = this.#entries.filter((entry) => entry.name !== name)
    const isFound = kept.length < this.#entries.length
    this.#entries = kept
    return isFound
  }

  /** The names from the outermost to the innermost; `undefined` for a middleware without a name. */
  get names(): (string | undefined)[] {
    return this.#entries.map(({ name }) => name)
  }

  /**
   * Runs `inner` inside all middleware. Rejects with what a middleware or `inner` threw unless an outer one
   * caught it, and with an `Error` if a middleware called `next()` twice. Resolves with `undefined` if a
   * middleware did not call `next()` and no middleware returned a result.
   */
  run(context: Context, inner: (context: Context) => Result | Promise<Result>): Promise<Result> {
    // Shortcut for the usual case of no middleware: this runs for every job.
    if (this.#entries.length === 0) return alone(context, inner)
    return runFrom(this.#entries, 0, context, inner)
  }

  #insert(index: number, entry: Entry<Context, Result>): void {
    if (entry.name !== undefined && this.names.includes(entry.name)) {
      throw new Error(`There is a middleware named '${entry.name}' already.`)
    }
    // A new list, because runs that have begun go on with the old one.
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
  if (typeof entry.middleware !== 'function')
    throw new TypeError('A middleware must be a function.')
  return entry
}

/** The run of everything inside one middleware, begun by its `next()`. */
interface Below<Result> {
  readonly done: Promise<Result>
  /** The promise that the middleware gets from `next()`; records whether the middleware has used it. */
  readonly heard: ObservedPromise<Result>
  isSettled: boolean
  result?: Result
}

/** Calls `inner` as an async function would, but without a frame of its own. */
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
    // The caller of the chain has already got this middleware's result, so only the middleware can be told.
    if (hasEnded) return Promise.reject(new Error(`Middleware '${name}' ${LATE}`))
    if (below) {
      misuse = new Error(`Middleware '${name}' called next() twice.`)
      return new ObservedPromise(Promise.reject(misuse))
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

const LATE = 'called next() after it had ended: it must await next() or return its promise.'

function observed<Result>(done: Promise<Result>): Below<Result> {
  const below: Below<Result> = { done, heard: new ObservedPromise(done), isSettled: false }
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
 * The result of a middleware. It is not done before the call of its `next()` is done: otherwise a forgotten
 * `await` would acknowledge a job while its handler runs. An error that the middleware caught stays caught;
 * an error of a `next()` that it never awaited is thrown here.
 */
async function resultOf<Result>(
  outcome: Outcome<Result>,
  below: Below<Result> | undefined,
): Promise<Result> {
  if (below && !(below.isSettled && below.heard.isHeard)) await below.done
  // If nothing returned a result, the result is `undefined`; `Result` has to allow for that.
  return (outcome === undefined ? below?.result : outcome) as Result
}
