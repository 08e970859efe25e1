import { readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'
import { DIALECTS } from '../../src/dialect.ts'
import { KNOWN_FAILURES } from '../conformance/known.ts'
import { APPENDIX_A } from '../http/endpoints.ts'

const ROOT = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(ROOT, 'docs/reference/http-conformance.md'), 'utf8')

/** The group of the tests that run for all endpoints: the page has one row for each of them. */
const EVERY = 'every endpoint'

/** Seed 001, Appendix B, with the status of each; workers report the first three. */
const APPENDIX_B: Readonly<Record<string, string>> = {
  handler_error: '--',
  timeout: '--',
  cancelled: '--',
  invalid_payload: '400',
  invalid_request: '400',
  not_found: '404',
  backend_error: '500',
  rate_limited: '429',
  duplicate: '409',
  queue_paused: '422',
  schema_validation: '400',
  unsupported: '422',
}

interface Proof {
  endpoint: string
  answer: string
  file: string
  what: string
}

const files = readdirSync(import.meta.dirname).filter((file) => file.endsWith('.services.test.ts'))
const sources = files.map((file) => readFileSync(join(import.meta.dirname, file), 'utf8'))
/** `describe('POST /ojs/v1/jobs'` and in it `it('201: stores a job'`. */
const TITLE = /^describe\('([^']+)'|^\s+it(?:\.each\([^\n]*\))?\(\s*'([^']+)'|^\s*\]\)\('([^']+)'/gm

const tests: Proof[] = files.flatMap((name, i) => {
  const file = name.split('.')[0] ?? ''
  let endpoint = ''
  return [...(sources[i] ?? '').matchAll(TITLE)].flatMap(([, group, title, last]) => {
    if (group !== undefined) endpoint = group
    const text = (title ?? last ?? '').replace(/, %s$/, '')
    const [, answer = '', what = ''] = /^([\w ]+): (.+)$/.exec(text) ?? []
    return group === undefined ? [{ endpoint, answer, file, what }] : []
  })
})

const rows: Proof[] = [
  ...page.matchAll(
    /^\| (?:`((?:GET|POST|DELETE) [^`]+)`|(every endpoint|failed executions)) \| (.+?) \| `(\w+)` \| (.+) \|$/gm,
  ),
].map(([, endpoint, group, answer = '', file = '', what = '']) => ({
  endpoint: endpoint ?? group ?? '',
  answer,
  file,
  what,
}))

const codes = [...page.matchAll(/^\| `(\w+)` \| (\d+|--) \| (yes|no) \| (.+) \|$/gm)]

describe('docs/reference/http-conformance.md', () => {
  it('names every test of this folder, and no other', () => {
    const text = ({ endpoint, answer, file, what }: Proof) =>
      `${endpoint} | ${answer} | ${file} | ${what}`
    expect(new Set(rows.map(text))).toEqual(new Set(tests.map(text)))
    expect(rows).toHaveLength(tests.length)
  })

  it('has every endpoint of Appendix A in its order, with its success and an error', () => {
    const endpoints = rows.map(({ endpoint }) => endpoint).filter((name) => / /.test(name))
    const listed = [...new Set(endpoints)].filter((name) => name !== EVERY)
    expect(listed.filter((name) => name !== 'failed executions')).toEqual([...APPENDIX_A])
    for (const endpoint of APPENDIX_A) {
      const answers = rows.filter((row) => row.endpoint === endpoint).map(({ answer }) => answer)
      expect(answers, endpoint).toContain(CREATES.has(endpoint) ? '201' : '200')
    }
  })

  it('has every code of Appendix B, each with an existing test', () => {
    const found = Object.fromEntries(codes.map(([, code, status]) => [code, status]))
    expect(found).toEqual(APPENDIX_B)
    for (const [, code, , , proofs = ''] of codes) {
      const named = [...proofs.matchAll(/`([^`]+\.ts)`: ([^<]+?)(?:<br>|$)/g)]
      expect(named.length, code).toBeGreaterThan(0)
      for (const [, file = '', title = ''] of named) {
        expect(readFileSync(join(ROOT, file), 'utf8'), `${file}: ${title}`).toContain(title)
      }
    }
  })

  it('names every known failure of the public suite', () => {
    for (const dialect of DIALECTS) {
      for (const path of Object.keys(KNOWN_FAILURES[dialect])) expect(page).toContain(`\`${path}\``)
    }
  })

  it('is linked by the README', () => {
    expect(readFileSync(join(ROOT, 'README.md'), 'utf8')).toContain(
      'docs/reference/http-conformance.md',
    )
  })
})

const CREATES: ReadonlySet<string> = new Set([
  'POST /ojs/v1/jobs',
  'POST /ojs/v1/jobs/batch',
  'POST /ojs/v1/cron',
  'POST /ojs/v1/workflows',
  'POST /ojs/v1/schemas',
])

it('every answer in printed.json is compared with one of the gateway by a test', () => {
  const path = join(import.meta.dirname, 'printed.json')
  const printed = Object.keys(JSON.parse(readFileSync(path, 'utf8')) as object)
  const used = printed.filter((key) => sources.some((text) => text.includes(`'${key}'`)))
  expect(used).toEqual(printed)
})
