import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { serveCommand } from '../../src/cli/serve.ts'
import { temporaryDirectory } from '../support/temporary-directory.ts'

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

let directory: ReturnType<typeof temporaryDirectory>
beforeEach(() => {
  directory = temporaryDirectory()
})
afterEach(() => {
  vi.restoreAllMocks()
  directory.remove()
})

function listeners(): number[] {
  return SIGNALS.map((signal) => process.listenerCount(signal))
}

function serve(env: NodeJS.ProcessEnv = {}): Promise<number> {
  return serveCommand.run([], {
    OJS_PORT: '0',
    OJS_AMQP_URL: 'amqp://127.0.0.1:1',
    OJS_LEDGER: `sqlite:${directory.path}/ojs.db`,
    OJS_LOG_LEVEL: 'silent',
    ...env,
  })
}

it.each(SIGNALS)(
  'serve stops on %s, and then leaves further signals to their defaults',
  async (signal) => {
    const before = listeners()
    const over = serve()
    expect(listeners()).toEqual(before.map((count) => count + 1))
    // Only calls the listener that `serve` has added, because others of this process would end it.
    process.rawListeners(signal).at(-1)?.call(process, signal)
    expect(listeners()).toEqual(before)
    expect(await over).toBe(0)
  },
)

it('serve shows the carriage return of a value from a file with Windows line ends', async () => {
  const told = vi.spyOn(console, 'error').mockReturnValue()
  expect(await serve({ OJS_PORT: '8080\r', OJS_DECLARE: 'often' })).toBe(1)
  const [lines] = told.mock.calls
  expect(String(lines).split('\n')).toEqual([
    "OJS_PORT must be an integer from 0 to 65535, not '8080\\u{d}'",
    "OJS_DECLARE must be one of eager, lazy, never, not 'often'",
  ])
  told.mockRestore()
})

it('serve stops when the npx that ran it is gone', async () => {
  const before = listeners()
  const parent = vi.spyOn(process, 'ppid', 'get').mockReturnValue(4711)
  const over = serve({ npm_lifecycle_event: 'npx' })
  parent.mockReturnValue(1)
  expect(await over).toBe(0)
  expect(listeners()).toEqual(before)
})
