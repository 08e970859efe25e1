import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import { ledgerCommand } from '../../src/cli/ledger.ts'
import { runOperate } from '../../src/cli/operate/program.ts'

afterEach(() => void vi.restoreAllMocks())

/** A server that answers every request with what `answer` makes of its URL. */
async function serverOf(answer: (url: URL) => object): Promise<string> {
  const server = createServer((request, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(answer(new URL(request.url ?? '', 'http://a'))))
  }).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function operate(line: string, url = 'http://127.0.0.1:1') {
  const out: string[] = []
  const err: string[] = []
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => out.push(String(text)) > 0)
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => err.push(String(text)) > 0)
  vi.spyOn(console, 'error').mockImplementation((text) => void err.push(`${text}\n`))
  const [name = '', ...args] = line.split(' ')
  const code = await runOperate(name, args, { OJS_URL: url })
  vi.restoreAllMocks()
  return { code, out: out.join(''), err: err.join('') }
}

it.each([
  ...['jobs list --limit 0', 'jobs list --limit -1', 'dead-letters list --limit 0'],
  ...['jobs cancel --queue a --yes --limit 0', 'dead-letters delete --queue a --limit -1'],
  'events tail --count 0',
])('%s makes no sense', async (line) => {
  const err = expect.stringContaining('It must be 1 or more.')
  expect(await operate(line)).toMatchObject({ code: 2, out: '', err })
})

it.each([
  ['check', 'foo'],
  ['check', 'postgres:'],
  ['copy', 'foo', 'bar'],
  ['copy', 'sqlite:', 'postgres:'],
])('ledger %s %s makes no sense', async (...args) => {
  const told = vi.spyOn(console, 'error').mockReturnValue()
  expect(await ledgerCommand.run(args, {})).toBe(2)
  expect(told).toHaveBeenCalledOnce()
})

/** A server with `total` jobs, alive or dead. */
function jobsOf(total: number) {
  return serverOf(({ searchParams }) => {
    const [limit, at] = ['limit', 'cursor'].map((name) => Number(searchParams.get(name) ?? 0))
    const ends = Math.min(total, (at ?? 0) + (limit ?? 0))
    const jobs = Array.from({ length: ends - (at ?? 0) }, (_, n) => ({
      id: `job-${(at ?? 0) + n}`,
    }))
    const pagination = { has_more: ends < total, next_cursor: String(ends) }
    return { jobs, items: jobs, pagination }
  })
}

it.each(['jobs list', 'dead-letters list'])('%s says if more match', async (list) => {
  const url = await jobsOf(250)
  for (const [limit, shown] of [
    ['', 50],
    [' --limit 100', 100],
    [' --limit 249', 249],
  ] as const) {
    for (const form of ['', ' --json']) {
      const { code, out, err } = await operate(`${list}${limit}${form}`, url)
      expect([code, out.match(/job-\d+/g)?.length]).toEqual([0, shown])
      expect(err).toBe(`ojs-rabbitmq: only the first ${shown} are shown; see --limit\n`)
    }
  }
  const all = await operate(`${list} --limit 250 --json`, url)
  expect(all).toMatchObject({ code: 0, err: '' })
  expect(all.out.trim().split('\n')).toHaveLength(250)
})

it('JSON has escapes for what a terminal would act on, and means the same', async () => {
  const odd = '\u001b[2J \u009b2J \u007f \u202e \u2028 \u{e0041} é 😀 \n'
  const url = await serverOf(() => ({ id: 'j', args: [odd], [odd]: 1 }))
  const { out } = await operate('operations show j --json', url)
  expect(out.trim()).not.toMatch(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u)
  expect(out).toContain('é 😀')
  expect(JSON.parse(out)).toEqual({ id: 'j', args: [odd], [odd]: 1 })
})
