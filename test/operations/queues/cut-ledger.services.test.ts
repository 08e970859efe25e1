import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { expect, it, onTestFinished } from 'vitest'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { isOnPostgres } from '../../support/gateway/test-ledger.ts'

const vhost = vhostForAll()

// PostgreSQL checks its own log.
it.skipIf(isOnPostgres)(
  'a gateway that is killed with kill -9 warns only if its -wal was damaged, until the next start',
  async () => {
    const gateway = await Gateway.start({ amqpUrl: vhost.url })
    onTestFinished(() => gateway.dispose())
    const { client } = gateway
    const log = `${gateway.ledgerPath}-wal`
    const pushMany = async () => {
      await gateway.untilHealthy()
      const job = { type: 'test.job', args: [1] }
      const all = Array.from({ length: 20 }, () => client.send('POST', '/ojs/v1/jobs', job))
      for (const { status } of await Promise.all(all)) expect(status).toBe(201)
    }
    const reasons = async () => {
      const { body } = await client.health()
      const warnings = body['warnings'] as { code: string; details: { reason?: string } }[]
      return warnings.map(({ code, details }) => [code, details.reason])
    }
    const flipEarly = () => {
      const bytes = readFileSync(log)
      bytes[2_000] = (bytes[2_000] ?? 0) ^ 4
      writeFileSync(log, bytes)
    }

    await pushMany()
    await gateway.kill9()
    await gateway.restart()
    expect(await reasons()).toEqual([])
    await pushMany()
    await gateway.kill9()
    flipEarly()
    await gateway.restart()
    expect(await reasons()).toEqual([['ledger_cut_short', 'damaged']])
    await gateway.kill9()
    rmSync(log)
    await gateway.restart()
    expect(await reasons()).toEqual([['ledger_cut_short', 'missing']])
    await gateway.restart()
    expect(await reasons()).toEqual([])
  },
)
