import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'
import { databaseOn, type TestLedger } from '../../support/gateway/test-ledger.ts'
import { Bouncer, hasBouncer } from '../../support/postgres/bouncer.ts'
import { temporaryDirectory } from '../../support/temporary-directory.ts'
import { sharedPostgres } from './server.ts'

const vhost = vhostForAll()
const server = sharedPostgres()
const directory = temporaryDirectory()
/** Fewer than the connections of a gateway: each transaction may come to another session. */
const SESSIONS = 2
const JOBS = 20

let bouncer: Bouncer
let ledger: TestLedger
let gateway: TestGateway

beforeAll(async () => {
  if (!hasBouncer) return
  ledger = await databaseOn(server())
  bouncer = new Bouncer(join(directory.path, 'bouncer'), server(), SESSIONS)
  await bouncer.start()
  gateway = await startTestGateway(vhost.url, { OJS_LEDGER: bouncer.url(ledger.url) })
})
afterAll(async () => {
  await gateway?.destroy()
  await bouncer?.kill9()
  await ledger?.remove()
  directory.remove()
})

async function push(): Promise<string[]> {
  const answers = await Promise.all(Array.from({ length: JOBS }, () => gateway.push('q')))
  expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([201]))
  return answers.map(({ body }) => body.job.id)
}

async function expectWorked(ids: readonly string[]): Promise<void> {
  const found: string[] = []
  while (found.length < ids.length) {
    const jobs = await gateway.fetch(['q'], { count: 10, wait_ms: 10_000 })
    found.push(...jobs.map(({ id }) => id))
    const answers = await Promise.all(jobs.map(({ id }) => gateway.ack(id)))
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([200]))
  }
  expect(new Set(found)).toEqual(new Set(ids))
}

test.skipIf(!hasBouncer)(
  'a gateway works through PgBouncer in transaction mode, and goes on when it is started again',
  async () => {
    await expectWorked(await push())
    const ids = await push()
    await bouncer.kill9()
    expect(await gateway.push('q')).toMatchObject({
      status: 503,
      body: { error: { details: { reason: 'ledger' } } },
    })
    await bouncer.start()
    await expect.poll(async () => (await gateway.request('GET', '/ojs/v1/health')).status).toBe(200)
    await expectWorked(ids)
  },
)
