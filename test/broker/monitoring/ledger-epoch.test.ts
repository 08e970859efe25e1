import type { Channel } from 'amqplib'
import { expect, it } from 'vitest'
import type { Connection } from '../../../src/broker/connection/connection.ts'
import type { ScratchChannel } from '../../../src/broker/connection/temporary-channel.ts'
import { LedgerEpoch } from '../../../src/broker/monitoring/ledger-epoch.ts'
import { createNames } from '../../../src/broker/names.ts'

const NOW = Date.UTC(2026, 10, 28, 12)
const names = createNames('tenant1')
const refusal = (code: number, text: string) => Object.assign(new Error(text), { code })

/** A RabbitMQ with exchanges, a ledger with epochs, and gateways that begin anew at each `start`. */
function stage() {
  const exchanges = new Set<string>()
  const state = {
    exchanges,
    epochs: [] as number[],
    now: NOW,
    generation: 1,
    /** The step that fails. */
    failsAt: null as 'commit' | 'declare' | 'delete' | 'look' | 'refused' | null,
  }
  const lost = (at: typeof state.failsAt) => {
    if (state.failsAt === at) throw new Error('connection closed')
  }
  const channel = {
    checkExchange: async (name: string) => {
      lost('look')
      if (!exchanges.has(name)) throw refusal(404, `no exchange '${name}'`)
    },
    assertExchange: async (name: string, _: string, options: object) => {
      lost('declare')
      if (state.failsAt === 'refused') throw refusal(403, 'ACCESS_REFUSED')
      expect(options).toEqual({ durable: true, internal: true })
      exchanges.add(name)
    },
    deleteExchange: async (name: string) => {
      lost('delete')
      exchanges.delete(name)
    },
  }
  const scratch = {
    run: (use: (channel: Channel) => unknown) => use(channel as unknown as Channel),
  } as unknown as ScratchChannel
  const start = (declare: 'lazy' | 'never' = 'lazy') => {
    const epoch = new LedgerEpoch({
      connection: state as unknown as Connection,
      names,
      logger: { debug() {}, info() {}, warn() {}, error() {} },
      hooks: {
        epochs: {
          all: async () => state.epochs,
          record: async (next, before) => {
            lost('commit')
            state.epochs = [next, before].filter((one) => one > 0)
          },
        },
      },
      options: { declare },
      now: () => state.now,
    })
    /** As the queue watch does: the origin is declared after a successful look. */
    const look = async () => {
      const done = await epoch.look(scratch)
      if (done) exchanges.add(names.origin)
      return done
    }
    return { look, codes: () => epoch.warnings().map(({ code }) => code) }
  }
  const ledgers = () => [...exchanges].filter((name) => name !== names.origin)
  return { state, start, ledgers }
}

/** The warnings of a gateway that starts now. */
async function codesOf({ start }: ReturnType<typeof stage>): Promise<string[]> {
  const { look, codes } = start()
  expect(await look()).toBe(true)
  return codes()
}

it('the newest epoch has an exchange that says when the ledger was in use, the others have none', async () => {
  const { state, start, ledgers } = stage()
  const { look } = start()
  await look()
  expect(ledgers()).toEqual(['tenant1.ojs.system.ledger.2026-11-28T12:00:00.000Z'])
  state.now += 299_999
  await look()
  expect(ledgers()).toHaveLength(1)
  state.now += 1
  await look()
  expect(ledgers()).toEqual(['tenant1.ojs.system.ledger.2026-11-28T12:05:00.000Z'])
  expect(state.epochs).toEqual([NOW + 300_000, NOW])
})

it('an older ledger, another RabbitMQ of the past and another ledger are warned of, until the next start', async () => {
  for (const age of [1, 2, 3]) {
    const all = stage()
    const { state } = all
    const backups = []
    for (let i = 0; i < 4; i++) {
      backups.push([...state.epochs])
      expect(await codesOf(all)).toEqual([])
    }
    state.epochs = backups.at(-age) ?? []
    expect(await codesOf(all)).toEqual(state.epochs.length > 0 ? ['ledger_is_older'] : [])
    expect(await codesOf(all)).toEqual([])
  }
  const all = stage()
  await codesOf(all)
  all.state.epochs = [12_345]
  expect(await codesOf(all)).toEqual(['ledger_is_older'])
})

it.each(['commit', 'declare', 'delete', 'look'] as const)(
  'a gateway that is killed before the %s of a renewal finds its epoch again',
  async (failsAt) => {
    for (const tries of [1, 2, 3]) {
      const all = stage()
      const { state, start, ledgers } = all
      await codesOf(all)
      state.now += 300_000
      const running = start()
      state.failsAt = failsAt
      for (let i = 0; i < tries; i++) {
        expect(await running.look().catch(() => false)).toBe(false)
        state.now += 300_000
      }
      state.failsAt = null
      expect(await codesOf(all)).toEqual([])
      expect(await codesOf(all)).toEqual([])
      expect(ledgers()).toHaveLength(1)
    }
  },
)

it('a running gateway goes on after a renewal that failed', async () => {
  for (const failsAt of ['commit', 'declare', 'delete'] as const) {
    const all = stage()
    const { state, start, ledgers } = all
    const running = start()
    await running.look()
    for (let i = 0; i < 3; i++) {
      state.now += 300_000
      state.failsAt = failsAt
      await running.look().catch(() => false)
      state.failsAt = null
      expect(await running.look()).toBe(true)
      expect(ledgers()).toHaveLength(1)
    }
    expect(await codesOf(all)).toEqual([])
  }
})

it('a RabbitMQ that lost its data has the epoch again before it has an origin', async () => {
  const all = stage()
  const { state, start, ledgers } = all
  const running = start()
  await running.look()
  state.exchanges.clear()
  state.generation += 1
  await running.look()
  expect(ledgers()).toHaveLength(1)
  expect(await codesOf(all)).toEqual([])
  state.exchanges.clear()
  expect(await codesOf(all)).toEqual([])
})

it('where RabbitMQ refuses, or nothing may be declared, there is nothing to compare', async () => {
  const all = stage()
  await codesOf(all)
  all.state.failsAt = 'refused'
  await codesOf(all)
  all.state.exchanges.delete([...all.ledgers()][0] ?? '')
  expect(all.state.epochs).toEqual([])
  all.state.failsAt = null
  expect(await codesOf(all)).toEqual([])

  const never = stage()
  never.state.epochs = [1]
  never.state.exchanges.add(names.origin)
  const { look, codes } = never.start('never')
  expect([await look(), codes(), never.ledgers()]).toEqual([true, [], []])
})
