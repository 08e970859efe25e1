// The rules of deploy/prometheus on two gateways of one ledger, as each of them ends and starts again.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sharedPostgres } from '../ledger/postgres/server.ts'
import { vhostForAll } from '../support/broker/rabbit.ts'
import { Gateway } from '../support/gateway/gateway.ts'
import { databaseOn, type TestLedger } from '../support/gateway/test-ledger.ts'
import { type Prometheus, startPrometheus } from './prometheus.ts'

const PATIENCE_MS = 60_000
const NO_RABBITMQ_PAGE = 9
const vhost = vhostForAll()
const server = sharedPostgres()

let ledger: TestLedger
let one: Gateway
let other: Gateway
let prometheus: Prometheus

beforeAll(async () => {
  ledger = await databaseOn(server())
  const options = { amqpUrl: vhost.url, ledger }
  one = await Gateway.start(options)
  await one.untilHealthy()
  other = await Gateway.start(options)
  prometheus = await startPrometheus([one.url, other.url], NO_RABBITMQ_PAGE)
})
afterAll(async () => {
  await prometheus?.stop()
  await Promise.all([one?.dispose(), other?.dispose()])
  await ledger?.remove()
})

/** The newest value of each gateway: of `one`, of `other`; undefined: it has none. */
async function valuesOf(expr: string): Promise<(number | undefined)[]> {
  const samples = await prometheus.query(expr)
  return [one, other].map(({ url }) => {
    const of = samples.find(({ metric }) => metric['instance'] === new URL(url).host)
    return of && Number(of.value[1])
  })
}

/** What has rung for each gateway within the last 2 s, which are four evaluations. */
async function ringing(): Promise<string[]> {
  const rules = 'alertname=~"OjsUnhealthy|OjsStandbyGone",alertstate="firing"'
  const found = await prometheus.query(`count_over_time(ALERTS{${rules}}[2s])`)
  return [one, other].map(({ url }) =>
    found
      .filter(({ metric }) => metric['instance'] === new URL(url).host)
      .map(({ metric }) => `${metric['alertname']} ${metric['severity']}`)
      .join(', '),
  )
}

const NOTHING = ''
const GONE = 'OjsStandbyGone warning'
const UNHEALTHY = 'OjsUnhealthy critical'

async function until(roles: (number | undefined)[], alerts: string[]): Promise<void> {
  const poll = { timeout: PATIENCE_MS, interval: 250 }
  await expect.poll(() => valuesOf('ojs_standby'), poll).toEqual(roles)
  await expect.poll(ringing, poll).toEqual(alerts)
}

test('nothing rings while one serves and the other stands by', async () => {
  await until([0, 1], [NOTHING, NOTHING])
  expect(await valuesOf('up')).toEqual([1, 1])
  expect(await valuesOf('ojs_healthy')).toEqual([1, undefined])
  expect(await valuesOf('ojs_standby_ledger_reachable')).toEqual([undefined, 1])
})

test('a standby that is gone is a warning, until it is back', async () => {
  await other.kill9()
  await until([0, undefined], [NOTHING, GONE])
  await other.restart()
  await until([0, 1], [NOTHING, NOTHING])
})

test('when a standby takes over, the metrics of its process go on, and the one before is missed', async () => {
  const [, startedAt] = await valuesOf('process_start_time_seconds')
  const [, secondsOfCpu = 0] = await valuesOf('process_cpu_seconds_total')
  await one.kill9()
  await until([undefined, 0], [GONE, NOTHING])
  expect(await valuesOf('ojs_healthy')).toEqual([undefined, 1])
  expect(await valuesOf('process_start_time_seconds')).toEqual([undefined, startedAt])
  const [, secondsSince] = await valuesOf('process_cpu_seconds_total')
  expect(secondsSince).toBeGreaterThan(secondsOfCpu)
  await one.restart()
  await until([1, 0], [NOTHING, NOTHING])
})

test('if none serves any more, that is critical', async () => {
  await Promise.all([one.kill9(), other.kill9()])
  await until([undefined, undefined], [UNHEALTHY, UNHEALTHY])
})
