import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

// The rules of docs/metrics.md, judged by Prometheus itself.

const page = readFileSync(resolve(import.meta.dirname, '../../docs/metrics.md'), 'utf8')
/** Of Debian's package prometheus; found in the PATH, or where the variable says. */
const PROMTOOL = process.env['OJS_TEST_PROMTOOL'] ?? 'promtool'
const hasPromtool = spawnSync(PROMTOOL, ['--version']).status === 0

/** A series and its samples, one a minute, in promtool's notation. */
type Series = Record<string, string>

const Q = 'queue="email",instance="a"'
const WAITING: Series = {
  [`ojs_queue_depth{${Q},state="available"}`]: '5x60',
  [`ojs_queue_depth{${Q},state="active"}`]: '0x60',
  [`ojs_queue_paused{${Q}}`]: '0x60',
}
const WORK = `${Q},type="t"`

let folder: string
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'ojs-rules-'))
  const [, rules = ''] = page.match(/```yaml\n(groups:\n[\s\S]*?)```/) ?? []
  writeFileSync(join(folder, 'rules.yml'), rules)
})
afterAll(() => rmSync(folder, { recursive: true }))

function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { cwd: folder, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

/** Whether the alert is firing after an hour of this. */
function fires(alert: string, series: Series): boolean {
  const path = join(folder, 'case.yml')
  const input = Object.entries(series).map(([name, values]) => ({ series: name, values }))
  const expr = `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`
  const expectation = (value: number) => ({
    rule_files: ['rules.yml'],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: input,
        promql_expr_test: [{ expr, eval_time: '1h', exp_samples: [{ labels: '{}', value }] }],
      },
    ],
  })
  // JSON is YAML.
  const holds = (value: number) => {
    writeFileSync(path, JSON.stringify(expectation(value)))
    return promtool('test', 'rules', 'case.yml')
  }
  const no = holds(0)
  if (no.status === 0) return false
  const yes = holds(1)
  expect(yes, no.output).toMatchObject({ status: 0 })
  return true
}

describe.skipIf(!hasPromtool)(
  'alerts (skipped without promtool: Debian package prometheus)',
  () => {
    test('are rules for Prometheus', () => {
      expect(promtool('check', 'rules', 'rules.yml')).toMatchObject({ status: 0 })
    })

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'nobody takes any', WAITING],
      [false, 'one runs', { ...WAITING, [`ojs_queue_depth{${Q},state="active"}`]: '1x60' }],
      [false, 'some complete', { ...WAITING, [`ojs_job_completed_total{${WORK}}`]: '0+1x60' }],
      [false, 'all fail', { ...WAITING, [`ojs_job_attempts_failed_total{${WORK}}`]: '0+1x60' }],
      [false, 'all are cancelled', { ...WAITING, [`ojs_job_cancelled_total{${WORK}}`]: '0+1x60' }],
      [false, 'it is paused', { ...WAITING, [`ojs_queue_paused{${Q}}`]: '1x60' }],
      [true, 'another works', { ...WAITING, 'ojs_job_completed_total{queue="b"}': '0+1x60' }],
    ])('OjsQueueNotWorkedOff is %s where jobs wait and %s', (isFiring, _, series) => {
      expect(fires('OjsQueueNotWorkedOff', series)).toBe(isFiring)
    })

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'every attempt fails', { [`ojs_job_attempts_failed_total{${WORK}}`]: '0+5x60' }],
      [false, 'one in a while fails', { [`ojs_job_attempts_failed_total{${WORK}}`]: '0+0.1x60' }],
      [
        false,
        'others complete',
        {
          [`ojs_job_attempts_failed_total{${WORK}}`]: '0+5x60',
          [`ojs_job_completed_total{${WORK}}`]: '0+1x60',
        },
      ],
    ])('OjsEverythingFails is %s where %s', (isFiring, _, series) => {
      expect(fires('OjsEverythingFails', series)).toBe(isFiring)
    })

    const HEALTHY = { 'ojs_healthy{instance="a"}': '1x60' }

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'are stuck', { ...HEALTHY, [`ojs_ledger_tokens_stuck_seconds{${Q}}`]: '0+60x60' }],
      [false, 'are on their way', { ...HEALTHY, 'ojs_ledger_tokens_owed{instance="a"}': '7x60' }],
      [
        false,
        'cannot go because RabbitMQ is away',
        {
          'ojs_healthy{instance="a"}': '0x60',
          [`ojs_ledger_tokens_stuck_seconds{${Q}}`]: '0+60x60',
        },
      ],
    ])('OjsTokensOwed is %s where tokens %s', (isFiring, _, series) => {
      expect(fires('OjsTokensOwed', series)).toBe(isFiring)
    })

    test.each([true, false])('OjsHealthWarns is %s', (isFiring) => {
      const series = { 'ojs_health_warnings{code="queue_lost"}': isFiring ? '1x60' : '1x20 stale' }
      expect(fires('OjsHealthWarns', series)).toBe(isFiring)
    })
  },
)
