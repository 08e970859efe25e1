import { describe, expect, it } from 'vitest'
import { MiddlewareChain } from '../../src/sdk/middleware.ts'

type Chain = MiddlewareChain<string[], string>

const newChain = (): Chain => new MiddlewareChain()

function noting(name: string) {
  return async (order: string[], next: () => Promise<string>) => {
    order.push(`${name}-before`)
    const result = await next()
    order.push(`${name}-after`)
    return result
  }
}

async function failing(): Promise<string> {
  throw new Error('boom')
}

/** Waits longer than the innermost function of a test takes. */
async function waitLonger(): Promise<void> {
  for (let turn = 0; turn < 3; turn++) await new Promise((resolve) => setImmediate(resolve))
}

async function awaitedLater<T>(inner: Promise<T>): Promise<T> {
  await waitLonger()
  return await inner
}

async function caught(run: () => Promise<unknown>): Promise<unknown> {
  try {
    return await run()
  } catch {
    return 'caught'
  }
}

async function orderOf(chain: Chain): Promise<string[]> {
  const order: string[] = []
  await chain.run(order, () => 'done')
  return order.filter((line) => line.endsWith('-before')).map((line) => line.slice(0, -7))
}

describe('order of the middleware', () => {
  it('is that of seed 004: the first registered is the outermost', async () => {
    const order: string[] = []
    const result = await newChain()
      .use(noting('first'))
      .use(noting('second'))
      .run(order, () => 'result')
    expect(order).toEqual(['first-before', 'second-before', 'second-after', 'first-after'])
    expect(result).toBe('result')
  })

  it('can be changed by name', async () => {
    const chain = newChain().use('logging', noting('logging')).use('metrics', noting('metrics'))
    chain.insertBefore('metrics', 'tracing', noting('tracing'))
    chain.insertAfter('logging', 'auth', noting('auth'))
    chain.prepend('outermost', noting('outermost'))
    chain.prepend(noting('nameless'))
    expect(chain.names).toEqual([undefined, 'outermost', 'logging', 'auth', 'tracing', 'metrics'])
    expect(chain.remove('logging')).toBe(true)
    expect(chain.remove('logging')).toBe(false)
    expect(await orderOf(chain)).toEqual(['nameless', 'outermost', 'auth', 'tracing', 'metrics'])
  })

  it('throws for a name that is taken, and for an anchor that does not exist', () => {
    const chain = newChain().use('logging', noting('logging'))
    expect(() => chain.use('logging', noting('other'))).toThrow("named 'logging' already")
    expect(() => chain.insertBefore('metrics', 'x', noting('x'))).toThrow("no middleware named 'm")
    expect(() => chain.insertAfter('metrics', 'x', noting('x'))).toThrow("no middleware named 'm")
    expect(chain.names).toEqual(['logging'])
  })

  it('throws for middleware that is no function', () => {
    const chain = newChain()
    // @ts-expect-error: a program without types
    expect(() => chain.use('logging')).toThrow(TypeError)
  })

  it('does not change for a call that is already running', async () => {
    const chain = newChain().use('outer', async (_order, next) => {
      chain.use('late', noting('late'))
      return next()
    })
    expect(await orderOf(chain)).toEqual([])
    chain.remove('outer')
    expect(await orderOf(chain)).toEqual(['late'])
  })
})

describe('result of the innermost function', () => {
  it('is returned if a layer returns nothing', async () => {
    const chain = newChain().use(async (_order, next) => {
      await next()
    })
    expect(await chain.run([], () => 'result')).toBe('result')
  })

  it('can be replaced by a layer', async () => {
    const chain = newChain().use(async (_order, next) => `${await next()}!`)
    expect(await chain.run([], () => 'result')).toBe('result!')
  })

  it('is not computed if a layer does not call next()', async () => {
    let isReached = false
    const chain = newChain().use(() => 'short')
    const result = await chain.run([], () => {
      isReached = true
      return 'result'
    })
    expect({ result, isReached }).toEqual({ result: 'short', isReached: false })
  })

  it.each([undefined, 'early'])(
    'is awaited by the chain if a layer calls next() without awaiting, and returns %s',
    async (early) => {
      const order: string[] = []
      const chain = newChain().use((_order, next) => {
        void next()
        return early
      })
      await chain.run(order, async () => {
        await new Promise((resolve) => setImmediate(resolve))
        order.push('handled')
        return 'result'
      })
      expect(order).toEqual(['handled'])
    },
  )

  it('is awaited by the chain if a layer only attaches then()', async () => {
    const order: string[] = []
    const chain = newChain().use((_order, next) => {
      void next().then(() => order.push('heard'))
    })
    await chain.run(order, async () => {
      await waitLonger()
      order.push('done')
      return 'result'
    })
    expect(order).toContain('done')
  })

  it('is computed from the context that a layer passes to next()', async () => {
    const seen = await newChain()
      .use((_order, next) => next(['replaced']))
      .run(['original'], (context) => context.join())
    expect(seen).toBe('replaced')
  })
})

describe('errors in the chain', () => {
  it('reject the run, also when thrown synchronously without any layer', async () => {
    const running = newChain().run([], () => {
      throw new Error('boom')
    })
    await expect(running).rejects.toThrow('boom')
  })

  it('pass through the layers, which may catch them', async () => {
    const order: string[] = []
    const failing = () => {
      throw new Error('boom')
    }
    const chain = newChain().use('outer', noting('outer'))
    await expect(chain.run(order, failing)).rejects.toThrow('boom')
    expect(order).toEqual(['outer-before'])
    chain.use(async (_order, next) => {
      try {
        return await next()
      } catch {
        return 'caught'
      }
    })
    expect(await chain.run([], failing)).toBe('caught')
    const swallowing = newChain().use((_order, next) => next().then(undefined, () => undefined))
    expect(await swallowing.run([], failing)).toBeUndefined()
  })

  it('reject the run although the layer did not await next()', async () => {
    const chain = newChain().use((_order, next) => {
      void next()
    })
    await expect(
      chain.run([], async () => {
        throw new Error('boom')
      }),
    ).rejects.toThrow('boom')
  })

  it.each<[string, (next: () => Promise<string>) => unknown]>([
    ['forgotten', (next) => void next()],
    ['kept for later', (next) => [next()]],
  ])(
    'reject the run although the layer ignored next() and ended later: promise %s',
    async (_name, call) => {
      const chain = newChain().use(async (_order, next) => {
        call(next)
        await waitLonger()
        return 'as if all were well'
      })
      await expect(chain.run([], failing)).rejects.toThrow('boom')
    },
  )

  it.each<[string, (next: () => Promise<string>) => Promise<unknown>]>([
    ['try', (next) => caught(async () => await next())],
    ['try, later', (next) => caught(() => awaitedLater(next()))],
    ['catch()', (next) => next().catch(() => 'caught')],
    ['then()', (next) => next().then(undefined, () => 'caught')],
    ['a race', (next) => caught(() => Promise.race([next(), waitLonger()]))],
    ['allSettled', (next) => Promise.allSettled([next(), waitLonger()])],
    ['an async function of its own', (next) => caught(async () => next())],
    ['a promise around it', (next) => caught(() => Promise.resolve(next()))],
  ])('do not reject the run if the layer caught them by %s', async (_name, layer) => {
    const chain = newChain().use(async (_order, next) => {
      await layer(next)
      await waitLonger()
      return 'instead'
    })
    expect(await chain.run([], failing)).toBe('instead')
  })

  it.each<[string, (next: () => Promise<string>) => unknown, string]>([
    ['thrown inside', (next) => void next(), 'boom'],
    ['from a second call of next()', (next) => void [next(), next()], 'called next() twice'],
  ])('cause no unhandled rejection if the layer ignores them: %s', async (_name, call, message) => {
    const unhandled: unknown[] = []
    const note = (reason: unknown) => unhandled.push(reason)
    process.on('unhandledRejection', note)
    const chain = newChain().use(async (_order, next) => {
      call(next)
      await waitLonger()
    })
    await expect(chain.run([], failing)).rejects.toThrow(message)
    await waitLonger()
    process.off('unhandledRejection', note)
    expect(unhandled).toEqual([])
  })

  it('reject a next() that a layer calls after it has ended, which runs nothing', async () => {
    let isReached = false
    let late: Promise<string> = Promise.resolve('not called')
    const chain = newChain().use('express', (_order, next) => {
      setImmediate(() => {
        late = next()
        late.catch(() => undefined)
      })
    })
    await chain.run([], () => {
      isReached = true
      return 'result'
    })
    await waitLonger()
    await expect(late).rejects.toThrow("'express' called next() after it had ended")
    expect(isReached).toBe(false)
  })

  it.each<[string, (next: () => Promise<string>) => Promise<unknown>]>([
    ['in a row', async (next) => [await next(), await next()]],
    ['at once', (next) => Promise.all([next(), next()])],
    ['unawaited', async (next) => void [next(), next().catch(() => undefined)]],
  ])('reject the run if a layer calls next() twice: %s', async (_name, twice) => {
    let runs = 0
    const chain = newChain().use('greedy', async (_order, next) => {
      await twice(next)
    })
    const run = chain.run([], () => {
      runs += 1
      return 'result'
    })
    await expect(run).rejects.toThrow("Middleware 'greedy' called next() twice.")
    expect(runs).toBe(1)
  })
})
