import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

// Tests the alert rules of deploy/prometheus with Prometheus's own `promtool`.

const ROOT = resolve(import.meta.dirname, '../..')
const RULES = readFileSync(join(ROOT, 'deploy/prometheus/alerts.yml'), 'utf8')
/** From Debian's package prometheus: in the PATH, or at the path of the variable. */
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
  writeFileSync(join(folder, 'rules.yml'), RULES)
})
afterAll(() => rmSync(folder, { recursive: true }))

function promtool(...args: string[]): { status: number | null; output: string } {
  const { status, stdout, stderr } = spawnSync(PROMTOOL, args, { cwd: folder, encoding: 'utf8' })
  return { status, output: stdout + stderr }
}

/** Runs promtool on an hour of these samples: whether this query has these answers then, by their labels. */
function answers(expr: string, series: Series, expected: Record<string, number>) {
  const input = Object.entries(series).map(([name, values]) => ({ series: name, values }))
  const samples = Object.entries(expected).map(([labels, value]) => ({ labels, value }))
  const expectation = {
    rule_files: ['rules.yml'],
    evaluation_interval: '1m',
    tests: [
      {
        interval: '1m',
        input_series: input,
        promql_expr_test: [{ expr, eval_time: '1h', exp_samples: samples }],
      },
    ],
  }
  // promtool reads YAML, of which JSON is a part.
  writeFileSync(join(folder, 'case.yml'), JSON.stringify(expectation))
  return promtool('test', 'rules', 'case.yml')
}

/** Whether the alert fires after an hour of these samples. */
function fires(alert: string, series: Series): boolean {
  const expr = `count(ALERTS{alertname="${alert}",alertstate="firing"}) or vector(0)`
  const silent = answers(expr, series, { '{}': 0 })
  if (silent.status === 0) return false
  const firing = answers(expr, series, { '{}': 1 })
  expect(firing, silent.output).toMatchObject({ status: 0 })
  return true
}

test('docs/reference/metrics.md explains each alert, in the order of the rules', () => {
  const page = readFileSync(join(ROOT, 'docs/reference/metrics.md'), 'utf8')
  const explained = [...page.matchAll(/^\| `(Ojs\w+)` \|/gm)].map(([, name]) => name)
  const alerts = [...RULES.matchAll(/- alert: (\w+)/g)].map(([, name]) => name)
  expect(explained).toEqual(alerts)
})

describe.skipIf(!hasPromtool)(
  'alerts of deploy/prometheus (skipped without promtool: Debian package prometheus)',
  () => {
    test('are valid rules for Prometheus', () => {
      expect(promtool('check', 'rules', 'rules.yml')).toMatchObject({ status: 0 })
    })

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'none is taken', WAITING],
      [false, 'one runs', { ...WAITING, [`ojs_queue_depth{${Q},state="active"}`]: '1x60' }],
      [false, 'some complete', { ...WAITING, [`ojs_job_completed_total{${WORK}}`]: '0+1x60' }],
      [false, 'all fail', { ...WAITING, [`ojs_job_attempts_failed_total{${WORK}}`]: '0+1x60' }],
      [false, 'all are cancelled', { ...WAITING, [`ojs_job_cancelled_total{${WORK}}`]: '0+1x60' }],
      [false, 'the queue is paused', { ...WAITING, [`ojs_queue_paused{${Q}}`]: '1x60' }],
      [
        true,
        'only another queue completes jobs',
        { ...WAITING, 'ojs_job_completed_total{queue="b"}': '0+1x60' },
      ],
    ])('OjsQueueNotWorkedOff fires: %s, if jobs wait and %s', (isFiring, _, series) => {
      expect(fires('OjsQueueNotWorkedOff', series)).toBe(isFiring)
    })

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'every attempt fails', { [`ojs_job_attempts_failed_total{${WORK}}`]: '0+5x60' }],
      [
        false,
        'an attempt fails only now and then',
        { [`ojs_job_attempts_failed_total{${WORK}}`]: '0+0.1x60' },
      ],
      [
        false,
        'other attempts complete',
        {
          [`ojs_job_attempts_failed_total{${WORK}}`]: '0+5x60',
          [`ojs_job_completed_total{${WORK}}`]: '0+1x60',
        },
      ],
    ])('OjsEverythingFails fires: %s, if %s', (isFiring, _, series) => {
      expect(fires('OjsEverythingFails', series)).toBe(isFiring)
    })

    const of = (instance: string, ledger = '') =>
      `{job="ojs-rabbitmq",instance="${instance}"${ledger && `,ledger="${ledger}"`}}`
    const alone = (instance: string, healthy = '1x60'): Series => ({
      [`up${of(instance)}`]: '1x60',
      [`ojs_healthy${of(instance)}`]: healthy,
    })
    const gone = (instance: string, ledger = '', up = '1x10 0x50'): Series => ({
      [`up${of(instance, ledger)}`]: up,
      [`ojs_healthy${of(instance, ledger)}`]: '1x10 stale',
      [`ojs_standby${of(instance, ledger)}`]: '0x10 stale',
    })
    const serves = (instance: string, ledger = '', healthy = '1x60'): Series => ({
      [`up${of(instance, ledger)}`]: '1x60',
      [`ojs_healthy${of(instance, ledger)}`]: healthy,
      [`ojs_standby${of(instance, ledger)}`]: '0x60',
    })
    const standsBy = (instance: string, ledger = '', reachable = '1x60'): Series => ({
      [`up${of(instance, ledger)}`]: '1x60',
      [`ojs_standby${of(instance, ledger)}`]: '1x60',
      [`ojs_standby_ledger_reachable${of(instance, ledger)}`]: reachable,
    })
    const tookOver = (instance: string): Series => ({
      [`up${of(instance)}`]: '1x60',
      [`ojs_healthy${of(instance)}`]: '_x11 1x49',
      [`ojs_standby${of(instance)}`]: '1x10 0x50',
      [`ojs_standby_ledger_reachable${of(instance)}`]: '1x10 stale',
    })

    /** `during`: these values for as long as the gateway serves. */
    const worked = (instance: string, during: (x: string) => string): Series => {
      const its = `job="ojs-rabbitmq",instance="${instance}",queue="email"`
      return {
        [`ojs_queue_depth{${its},state="available"}`]: during('5'),
        [`ojs_queue_depth{${its},state="active"}`]: during('0'),
        [`ojs_job_completed_total{${its},type="t"}`]: during('0+1'),
        [`ojs_job_attempts_failed_total{${its},type="t"}`]: during('0+2'),
        [`ojs_dead_letter_depth{${its}}`]: during('7'),
      }
    }

    type Firing = 'OjsUnhealthy' | 'OjsStandbyGone' | 'OjsLedgersMixed' | null
    test.each<[what: string, firing: Firing, series: Series]>([
      [
        'one serves and the others stand by',
        null,
        { ...serves('a'), ...standsBy('b'), ...standsBy('c') },
      ],
      ['all stand by', 'OjsUnhealthy', { ...standsBy('a'), ...standsBy('b', '', '0x60') }],
      ['the only one stands by', 'OjsUnhealthy', standsBy('a')],
      [
        'the active one is unhealthy',
        'OjsUnhealthy',
        { ...serves('a', '', '0x60'), ...standsBy('b') },
      ],
      [
        'the active one is gone, and no other serves',
        'OjsUnhealthy',
        { ...gone('a'), ...standsBy('b') },
      ],
      ['all are gone', 'OjsUnhealthy', { ...gone('a'), ...gone('b') }],
      ['none is scraped', 'OjsUnhealthy', { 'up{job="rabbitmq"}': '1x60' }],
      [
        'the active one is gone, and another took over',
        'OjsStandbyGone',
        { ...gone('a'), ...tookOver('b') },
      ],
      ['a standby is gone', 'OjsStandbyGone', { ...serves('a'), ...gone('b') }],
      [
        'a standby has lost the ledger',
        'OjsStandbyGone',
        { ...serves('a'), ...standsBy('b', '', '1x9 0x50') },
      ],
      [
        'the active one changed, and the other stands by',
        null,
        { ...tookOver('a'), ...standsBy('b') },
      ],
      [
        'one took over while queues are worked off that have dead letters',
        null,
        {
          ...standsBy('a'),
          ...tookOver('b'),
          ...worked('a', (x) => `${x}x10 stale`),
          ...worked('b', (x) => `_x11 ${x}x49`),
        },
      ],
      [
        'a standby has been away for a moment',
        null,
        { ...serves('a'), ...standsBy('b'), [`up${of('b')}`]: '1x57 0x3' },
      ],
      ['each has a ledger of its own on SQLite', null, { ...alone('a'), ...alone('b') }],
      [
        'one of two on SQLite is gone',
        'OjsUnhealthy',
        { ...alone('a'), ...alone('b', '1x10 stale'), [`up${of('b')}`]: '1x10 0x50' },
      ],
      ['one on SQLite is unhealthy', 'OjsUnhealthy', alone('a', '0x60')],
      [
        'two ledgers have labels',
        null,
        { ...serves('a', 'x'), ...standsBy('b', 'x'), ...serves('c', 'y'), ...standsBy('d', 'y') },
      ],
      [
        'all of one of two ledgers are gone',
        'OjsUnhealthy',
        { ...serves('a', 'x'), ...standsBy('b', 'x'), ...gone('c', 'y'), ...gone('d', 'y') },
      ],
      [
        'two ledgers have no labels',
        'OjsLedgersMixed',
        { ...serves('a'), ...standsBy('b'), ...serves('c') },
      ],
      [
        'one of two ledgers without labels is on SQLite',
        'OjsLedgersMixed',
        { ...serves('a'), ...alone('b') },
      ],
    ])('of gateways, if %s, fires only: %s', (_, firing, series) => {
      const expr = 'group by (alertname) (ALERTS{alertstate="firing"})'
      const expected = firing === null ? {} : { [`{alertname="${firing}"}`]: 1 }
      expect(answers(expr, series, expected)).toMatchObject({ status: 0 })
    })

    const HEALTHY = { 'ojs_healthy{instance="a"}': '1x60' }

    test.each<[isFiring: boolean, what: string, series: Series]>([
      [true, 'are stuck', { ...HEALTHY, [`ojs_ledger_tokens_stuck_seconds{${Q}}`]: '0+60x60' }],
      [false, 'are on their way', { ...HEALTHY, 'ojs_ledger_tokens_owed{instance="a"}': '7x60' }],
      [
        false,
        'are stuck, but the gateway is unhealthy',
        {
          'ojs_healthy{instance="a"}': '0x60',
          [`ojs_ledger_tokens_stuck_seconds{${Q}}`]: '0+60x60',
        },
      ],
    ])('OjsJobMessagesOwed fires: %s, if job messages %s', (isFiring, _, series) => {
      expect(fires('OjsTokensOwed', series)).toBe(isFiring)
    })

    test.each([true, false])(
      'OjsHealthWarns fires: %s, as long as health has a warning',
      (isFiring) => {
        const series = {
          'ojs_health_warnings{code="queue_lost"}': isFiring ? '1x60' : '1x20 stale',
        }
        expect(fires('OjsHealthWarns', series)).toBe(isFiring)
      },
    )
  },
)
