import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { describe, expect, it } from 'vitest'

const ROOT = resolve(import.meta.dirname, '../..')
const page = readFileSync(join(ROOT, 'docs/reference/amqp-conformance.md'), 'utf8')
const IDS = Array.from({ length: 32 }, (_, i) => `AMQP-${String(i + 1).padStart(3, '0')}`)

/** `AMQP-001 core: declares …`, one for each test of this folder that is named after an id. */
const tests = readdirSync(import.meta.dirname)
  .filter((file) => file.endsWith('.services.test.ts'))
  .flatMap((file) => {
    const text = readFileSync(join(import.meta.dirname, file), 'utf8')
    const named = text.matchAll(/^\s*it\(\s*'(AMQP-\d{3}) ([^']+)'/gm)
    return [...named].map(([, id, name]) => `${id} ${file.split('.')[0]}: ${name}`)
  })

/** Id, level, requirement and proofs of every row. */
const rows = [...page.matchAll(/^\| (AMQP-\d{3}) \| (.+?) \| (.+?) \| (.+) \|$/gm)].map(
  ([, id = '', level = '', requirement = '', proofs = '']) => ({
    id,
    level,
    requirement,
    proofs: proofs.split('<br>').map((proof) => proof.replace(/^`(\w+)`/, '$1')),
  }),
)

describe('docs/reference/amqp-conformance.md', () => {
  it('has one row for every requirement, in order', () => {
    expect(rows.map(({ id }) => id)).toEqual(IDS)
    for (const { level } of rows) expect(level).toMatch(/^[A-Z][a-z]+, (MUST|SHOULD)$/)
  })

  it('names at least one test for each requirement, and every test of this folder', () => {
    const listed = rows.flatMap(({ id, proofs }) => proofs.map((proof) => `${id} ${proof}`))
    expect(new Set(listed)).toEqual(new Set(tests))
    expect(listed).toHaveLength(tests.length)
  })

  it('links only to files that exist, and is linked by the README', () => {
    const links = [...page.matchAll(/\]\(([^)#]+)\)/g)].map(([, target = '']) => target)
    expect(links.length).toBeGreaterThan(0)
    for (const link of links)
      expect(existsSync(join(ROOT, 'docs/reference', link)), link).toBe(true)
    expect(readFileSync(join(ROOT, 'README.md'), 'utf8')).toContain(
      'docs/reference/amqp-conformance.md',
    )
  })
})
