import { execFile } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, expect, it } from 'vitest'
import { gatewayForAll } from '../operations/harness.ts'
import { startTestGateway } from '../support/gateway/in-process.ts'
import { type Block, blocks, README_URL, ROOT } from './blocks.ts'

// Runs the commands of README and guide in their order in one shell, as a reader would type them. Only the address is
// replaced.

const { vhost, gateway } = gatewayForAll()
const dir = mkdtempSync(join(tmpdir(), 'ojs-readme-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const ACCESS = 'docs/operate/access.md'
const curls = blocks.filter(({ language, code }) => language === 'sh' && code.includes('curl '))

/** Makes curl print each status to stderr, and npx run our build without an installation. */
const PRELUDE = `
curl() { command curl -w '\\n%{stderr}%{http_code}\\n' "$@"; }
npx() { shift; command node ${join(ROOT, 'dist/main.js')} "$@"; }
`

/** The output of one block. */
interface Outcome {
  lines: string[]
  /** The status of each answer, in order. */
  statuses: number[]
}

/** Runs the blocks one after another in one shell, and returns the output of each. */
async function run(given: readonly Block[], url: string, env: object = {}): Promise<Outcome[]> {
  const own = given.map(({ code }) => code.replaceAll(README_URL, url))
  const parts = own.map((code, i) => `{\n${code}\n} > ${dir}/${i}.out 2> ${dir}/${i}.err`)
  const script = join(dir, 'script.sh')
  writeFileSync(script, `${PRELUDE}\n${parts.join('\n')}\n`)
  const options = { cwd: dir, env: { ...process.env, ...env } }
  await promisify(execFile)('bash', ['-euo', 'pipefail', script], options)
  return given.map((_, i) => {
    const [out = '', err = ''] = ['out', 'err'].map((end) => {
      return readFileSync(join(dir, `${i}.${end}`), 'utf8')
    })
    const statuses = err.split('\n').filter((line) => /^\d{3}$/.test(line))
    return { lines: out.split('\n'), statuses: statuses.map(Number) }
  })
}

/** Expects success for every answer, except for those that the page shows as errors. */
function expectAsPrinted({ page, code }: Block, { lines, statuses }: Outcome): void {
  const said = [...code.matchAll(/# (\d{3}) (\w+)|^# .*"error":\{"code":"(\w+)"/gm)]
  const refused = statuses.filter((status) => status >= 400)
  expect(statuses.length, page).toBeGreaterThan(0)
  expect(refused, `${page}: ${lines.join('\n')}`).toHaveLength(said.length)
  for (const [i, [, status, name, printed]] of said.entries()) {
    if (status !== undefined) expect(refused[i]).toBe(Number(status))
    expect(lines.join('\n')).toContain(`"code":"${name ?? printed}"`)
  }
  for (const [, printed = ''] of code.matchAll(/^# (\{.*\})$/gm)) {
    const pattern = patternOf(printed)
    expect(lines, printed).toContainEqual(expect.stringMatching(pattern))
  }
}

/** `…` stands for anything, and an object may have more members than are printed. */
function patternOf(printed: string): RegExp {
  const escaped = printed.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
  const open = escaped.replaceAll('…', '.*').replaceAll('\\}', '(?:,.*)?\\}')
  return new RegExp(`^${open}$`)
}

it('the curl commands of README and guide get the printed answers', async () => {
  const open = curls.filter(({ page }) => page !== ACCESS)
  expect(open.length).toBeGreaterThan(3)
  const outcomes = await run(open, gateway.url)
  for (const [i, block] of open.entries()) {
    expectAsPrinted(block, outcomes[i] ?? { lines: [], statuses: [] })
  }
}, 60_000)

it("the README's commands about keys make keys that a gateway accepts", async () => {
  const [first] = curls
  const isAboutKeys = ({ page, code }: Block) => page === ACCESS && /ojs-rabbitmq key/.test(code)
  const making = blocks.filter(isAboutKeys)
  const tell = {
    page: ACCESS,
    language: 'sh',
    code: 'echo "$OJS_API_KEYS"; echo "$OJS_API_KEY"',
  }
  const told = (await run([...making, tell], ''))[making.length]
  const [OJS_API_KEYS = '', OJS_API_KEY = ''] = told?.lines ?? []
  expect(OJS_API_KEYS).toMatch(/^\w+:\w+:[0-9a-f]{64}$/)

  const locked = await startTestGateway(vhost.url, { OJS_API_KEYS, OJS_PREFIX: 'locked' })
  try {
    const variables = first?.code.split('\n').filter((line) => /^\w+=[^$]/.test(line)) ?? []
    const prelude = { page: ACCESS, language: 'sh', code: variables.join('\n') }
    const using = curls.filter((block) => block.page === ACCESS && !isAboutKeys(block))
    const outcomes = await run([prelude, ...using], locked.url, { OJS_API_KEY })
    for (const [i, block] of using.entries()) {
      expectAsPrinted(block, outcomes[i + 1] ?? { lines: [], statuses: [] })
    }
  } finally {
    await locked.destroy()
  }
}, 60_000)
