/** Needs the built command line; the server is the test's own, so that its operation never ends. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join, resolve } from 'node:path'
import { text } from 'node:stream/consumers'
import { expect, it, onTestFinished } from 'vitest'

const MAIN = join(resolve(import.meta.dirname, '../..'), 'dist/main.js')
const GOES_ON =
  'ojs-rabbitmq: the operation goes on in the server; how far it is: ojs-rabbitmq operations show op-1'

/** A server whose operation is on its way for ever; `asked` resolves when its progress is asked for. */
async function endlessServer() {
  const operation = { id: 'op-1', action: 'cancel', state: 'running', matched: 1, expected: 9 }
  let tell = () => {}
  const asked = new Promise<void>((resolve) => {
    tell = resolve
  })
  const server = createServer((request, response) => {
    if (request.method === 'GET') tell()
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(JSON.stringify(operation))
  }).listen(0, '127.0.0.1')
  const close = () => {
    server.close()
    server.closeAllConnections()
  }
  onTestFinished(close)
  await once(server, 'listening')
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, close }
}

function guarded<Child extends ChildProcess>(child: Child): Child {
  onTestFinished(() => void child.kill('SIGKILL'))
  return child
}

const ARGS = [MAIN, 'jobs', 'cancel', '--queue', 'a', '--yes', '--url']

it('Ctrl-C at the progress bar gives the terminal back, and says that the operation goes on', async () => {
  const { url } = await endlessServer()
  // `script` runs it on a terminal of its own, and answers 128 + the signal that ended it.
  const command = ['exec', process.execPath, ...ARGS, url].join(' ')
  const child = guarded(spawn('script', ['-qefc', command, '/dev/null']))
  const shown = text(child.stdout)
  await new Promise<void>((resolve) => {
    child.stdout.on('data', (part) => String(part).includes('jobs |') && resolve())
  })
  child.stdin.write('\x03')
  expect((await once(child, 'exit'))[0]).toBe(130)
  const output = await shown
  for (const [off, on] of [
    ['\x1b[?25l', '\x1b[?25h'],
    ['\x1b[?7l', '\x1b[?7h'],
  ] as const) {
    expect(output.lastIndexOf(off)).toBeGreaterThan(-1)
    expect(output.lastIndexOf(on)).toBeGreaterThan(output.lastIndexOf(off))
  }
  expect(output).toContain(GOES_ON)
})

it('says so also without a terminal, and ends by the signal', async () => {
  const { url, asked } = await endlessServer()
  const child = guarded(spawn(process.execPath, [...ARGS, url]))
  const complaint = text(child.stderr)
  await asked
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([null, 'SIGTERM'])
  expect(await complaint).toBe(`${GOES_ON}\n`)
})

it('says so if the gateway is lost meanwhile', async () => {
  const { url, asked, close } = await endlessServer()
  const child = guarded(spawn(process.execPath, [...ARGS, url]))
  const complaint = text(child.stderr)
  await asked
  close()
  expect((await once(child, 'exit'))[0]).toBe(4)
  expect(await complaint).toMatch(new RegExp(`^${GOES_ON}\\nojs-rabbitmq: .*op-1`))
})
