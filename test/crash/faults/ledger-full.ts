import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { v7 } from 'uuid'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { PrivateNode } from '../../support/broker/rabbit.ts'
import { eventually, type TestGateway } from '../../support/gateway/in-process.ts'
import { isOnPostgres } from '../../support/gateway/test-ledger.ts'
import { isSmallDiskPossible, SmallDisk } from '../../support/small-disk.ts'
import { samplesOf, scrape } from '../../telemetry/exposition-text.ts'
import { depthOf, fetched, nack, openStage, pushBatch, pushed, restOf } from './stage.ts'

/** A place for a ledger that can be filled until there is no room for another page. */
interface Disk {
  readonly path: string
  fill(): void
  free(): void
}

const CAUSES: [name: string, make: () => Disk, isPossible: boolean][] = [
  ['file system', smallFileSystem, isSmallDiskPossible],
  ['largest size of a file', limitedFiles, true],
]

export function ledgerFullFaults(node: PrivateNode): void {
  describe.each(CAUSES)('ledger full: %s', (_name, make, isPossible) => {
    // The errors of its file are SQLite's own.
    test.skipIf(!isPossible || isOnPostgres)(
      'writes are 503, none is half done, and they work again when there is room',
      async () => {
        const disk = make()
        const env = { OJS_LEDGER: `sqlite:${disk.path}` }
        const { gateway, admin } = await openStage(node, { env })
        const ids = await pushed(gateway, 'q', 4)
        const [toAck, toNack, toCancel, toFetch] = ids as [string, string, string, string]
        const first = await fetched(gateway, 'q', 3, { worker_id: 'w' })
        expect(first.map((job) => job.id)).toEqual([toAck, toNack, toCancel])

        disk.fill()
        await useUpLog(gateway)
        const { cursor } = (await gateway.request('GET', '/ojs/v1/events')).body
        const refused = [v7(), v7(), v7()]
        const job = (id?: string) => ({ id, type: 'a', args: [], options: { queue: 'q' } })
        const answers = [
          await gateway.push('q', { id: refused[0] }),
          await pushBatch(gateway, refused.slice(1).map(job)),
          await gateway.ack(toAck, { worker_id: 'w', attempt: 1 }),
          await nack(gateway, toNack, { worker_id: 'w' }),
          await gateway.cancel(toCancel),
          await gateway.request('POST', '/ojs/v1/workers/fetch', {
            queues: ['q'],
            wait_ms: 10_000,
          }),
        ]
        for (const { status, headers, body } of answers) {
          expect(status).toBe(503)
          expect(headers.get('retry-after')).toBe('1')
          expect(body.error).toMatchObject({ code: 'backend_error', details: { reason: 'ledger' } })
        }
        const health = await gateway.request('GET', '/ojs/v1/health')
        expect(health.status).toBe(503)
        expect(health.body.ledger).toMatchObject({ status: 'failing', error: expect.any(String) })
        expect(await stateOf(gateway)).toEqual({ ojs_healthy: 0, ojs_ledger_writable: 0 })
        await expectUntouched(gateway, ids, refused)
        const { events } = (await gateway.request('GET', `/ojs/v1/events?after=${cursor}`)).body
        expect(events).toEqual([])

        disk.free()
        await eventually(async () => (await gateway.push('q', { id: refused[0] })).status === 201)
        expect((await gateway.request('GET', '/ojs/v1/health')).status).toBe(200)
        expect(await stateOf(gateway)).toEqual({ ojs_healthy: 1, ojs_ledger_writable: 1 })
        expect((await gateway.ack(toAck, { worker_id: 'w', attempt: 1 })).status).toBe(200)
        expect((await nack(gateway, toNack, { requeue: true })).status).toBe(200)
        expect((await gateway.cancel(toCancel)).status).toBe(200)
        const late = await fetched(gateway, 'q', 3)
        expect(new Set(late.map(({ id }) => id))).toEqual(new Set([toNack, toFetch, refused[0]]))
        expect(late.map(({ attempt }) => attempt)).toEqual([1, 1, 1])
        for (const { id } of late) expect((await gateway.ack(id)).status).toBe(200)
        expect(await restOf(gateway, 'q')).toEqual([])
        await eventually(async () => (await depthOf(admin, 'ojs.queue.q')) === 0)
      },
    )
  })
}

/** The log's file still has pages of transactions before: larger and smaller writes until none fits in them. */
async function useUpLog(gateway: TestGateway): Promise<void> {
  const writes = [
    [() => gateway.push('other', {})],
    ['pause', 'resume'].map(
      (verb) => () => gateway.request('POST', `/ojs/v1/queues/other/${verb}`),
    ),
  ]
  for (const turns of writes) {
    let isRoom = true
    while (isRoom) for (const write of turns) isRoom &&= (await write()).status < 300
  }
}

async function stateOf(gateway: TestGateway) {
  const page = await scrape(gateway)
  return { ...samplesOf(page, 'ojs_healthy'), ...samplesOf(page, 'ojs_ledger_writable') }
}

async function expectUntouched(gateway: TestGateway, ids: string[], refused: string[]) {
  const jobs = await Promise.all(ids.map(async (id) => (await gateway.get(id)).body.job))
  expect(jobs.map(({ state, attempt }) => [state, attempt])).toEqual([
    ['active', 1],
    ['active', 1],
    ['active', 1],
    ['available', 0],
  ])
  for (const id of refused) expect((await gateway.get(id)).status).toBe(404)
}

function smallFileSystem(): Disk {
  const disk = new SmallDisk(8)
  onTestFinished(() => disk.remove())
  return { path: join(disk.dir, 'ojs.db'), fill: () => disk.fill(), free: () => disk.free() }
}

/** Limits the files of this process to what the write-ahead log, whose tail is a hole, has now: EFBIG. */
function limitedFiles(): Disk {
  const dir = mkdtempSync(join(tmpdir(), 'ojs-limited-'))
  onTestFinished(() => rmSync(dir, { recursive: true }))
  const path = join(dir, 'ojs.db')
  const limit = (bytes: number | 'unlimited') =>
    execFileSync('/usr/bin/prlimit', ['--pid', String(process.pid), `--fsize=${bytes}:`])
  onTestFinished(() => void limit('unlimited'))
  return {
    path,
    fill: () => void limit(statSync(`${path}-wal`).blocks * 512),
    free: () => void limit('unlimited'),
  }
}
