import { execFile } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { eventually } from '../support/gateway/in-process.ts'
import { gatewayForAll } from './harness.ts'

// Seed 001, Appendix C, as it is printed: the commands run, and their answers have the form that
// the text shows. Only the host and the id of the job are replaced.
const TEXT = readFileSync(new URL('appendix-c.md', import.meta.url), 'utf8')
const THEIR_HOST = 'https://jobs.example.com'
const THEIR_ID = '019414d4-8b2e-7c3a-b5d1-f0e2a3b4c5d6'

/** Replaces jq on a machine without it, for the two filters that the text uses. */
const STAND_IN = `command -v jq > /dev/null || jq() { node -e '
  const value = JSON.parse(require("fs").readFileSync(0))
  console.log(JSON.stringify(process.argv[1] === "." ? value : value[process.argv[1].slice(1)]))
' "$1"; }
`

const steps = [...TEXT.matchAll(/^### (Step [^\n]*)\n+```bash\n(.*?)```\n+```json\n(.*?)```/gms)]

const { gateway } = gatewayForAll()

it('Appendix C has six steps', () => {
  expect(steps.map(([, title]) => title?.slice(0, 6))).toEqual(
    [1, 2, 3, 4, 5, 6].map((n) => `Step ${n}`),
  )
})

it('the commands of Appendix C run as printed, except for host and id', async () => {
  let id = THEIR_ID
  const answers: unknown[] = []
  for (const [, title, command = '', printed = ''] of steps) {
    const ours = command.replaceAll(THEIR_HOST, gateway.url).replaceAll(THEIR_ID, id)
    let answer: unknown
    // FETCH without `wait_ms` waits one second, which may be too short for the pushed job to arrive.
    await eventually(async () => {
      answer = JSON.parse(await bash(ours))
      return !isNothing(answer)
    })
    const theirs: unknown = JSON.parse(printed)
    expect({ is: formOf(answer) }, title).toMatchObject({ is: formOf(theirs) })
    if (title?.startsWith('Step 2')) id = (answer as { job: { id: string } }).job.id
    answers.push(answer)
  }
  expect(answers.slice(1)).toMatchObject([
    { job: { state: 'available', attempt: 0, max_attempts: 5, queue: 'email' } },
    { jobs: [{ id, state: 'active', attempt: 1, timeout_ms: 30_000 }] },
    { state: 'running', jobs_extended: [id] },
    { acknowledged: true, job_id: id, state: 'completed' },
    'completed',
  ])
})

/** The answer of a FETCH that got no job. */
function isNothing(answer: unknown): boolean {
  return JSON.stringify(answer) === '{"jobs":[]}'
}

/** Replaces each value by its type, since the text shows another job, at another time. */
function formOf(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(formOf)
  if (typeof value !== 'object' || value === null) return typeof value
  return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, formOf(item)]))
}

async function bash(command: string): Promise<string> {
  const args = ['-euo', 'pipefail', '-c', STAND_IN + command]
  return (await promisify(execFile)('bash', args)).stdout
}
