import { afterAll, beforeAll, onTestFinished } from 'vitest'
import { managementRequest } from '../../../scripts/broker/management-api.mjs'
import { type Admin, connectAdmin } from '../../broker/harness.ts'
import type { PrivateNode, Vhost } from '../../support/broker/rabbit.ts'
import { eventually, startTestGateway, type TestGateway } from '../../support/gateway/in-process.ts'

/** Everything that one fault needs: a vhost, an administrator in it, and a gateway. */
export interface Stage {
  readonly vhost: Vhost
  readonly admin: Admin
  readonly gateway: TestGateway
}

export interface StageOptions {
  env?: Record<string, string>
  overrides?: Parameters<typeof startTestGateway>[2]
  /** Called before the gateway starts. */
  prepare?(admin: Admin, vhost: Vhost): Promise<unknown>
}

export const PROFILES = ['classic', 'quorum'] as const

/** A gateway in the test's own process; all of the stage is removed when the test ends. */
export async function openStage(node: PrivateNode, options: StageOptions = {}): Promise<Stage> {
  const { stage, close } = await open(node, options)
  onTestFinished(close)
  return stage
}

/** One stage for all tests of the `describe`, if they leave it as they found it. */
export function useStage(node: PrivateNode, options: StageOptions = {}): () => Stage {
  let opened: Awaited<ReturnType<typeof open>> | undefined
  beforeAll(async () => {
    opened = await open(node, options)
  })
  afterAll(() => opened?.close())
  return () => {
    if (!opened) throw new Error('the stage is open while a test runs')
    return opened.stage
  }
}

async function open(node: PrivateNode, options: StageOptions) {
  const vhost = await node.createVhost()
  const admin = await connectAdmin(vhost.url)
  await options.prepare?.(admin, vhost)
  const gateway = await startTestGateway(vhost.url, options.env, options.overrides)
  const close = async () => {
    await gateway.destroy()
    await admin.close()
    await vhost.drop()
  }
  return { stage: { vhost, admin, gateway }, close }
}

let queues = 0

/** The name of a queue that no other test uses. */
export function newQueue(): string {
  queues += 1
  return `q-${queues}`
}

/** Pushes `count` jobs one after the other; their ids, in order. */
export async function pushed(
  gateway: TestGateway,
  queue: string,
  count: number,
  over: object = {},
): Promise<string[]> {
  const ids: string[] = []
  for (let i = 0; i < count; i++) {
    const { status, body } = await gateway.push(queue, over)
    if (status !== 201) throw new Error(`PUSH answered ${status}: ${JSON.stringify(body)}`)
    ids.push(body.job.id)
  }
  return ids
}

export interface Fetched {
  readonly id: string
  readonly attempt: number
}

/** FETCHes until `count` jobs have come; throws when they do not. */
export async function fetched(
  gateway: TestGateway,
  queue: string,
  count: number,
  over: object = {},
): Promise<Fetched[]> {
  const jobs: Fetched[] = []
  await eventually(async () => {
    jobs.push(
      ...(await gateway.fetch([queue], { count: count - jobs.length, wait_ms: 500, ...over })),
    )
    return jobs.length >= count
  })
  return jobs.map(({ id, attempt }) => ({ id, attempt }))
}

/**
 * What a FETCH finds that waits as long as a job message in the broker may take: nothing, when all job
 * messages that are left belong to jobs that are over.
 */
export function restOf(gateway: TestGateway, queue: string): Promise<Fetched[]> {
  return gateway.fetch([queue], { count: 100, wait_ms: 700 })
}

export async function stateOf(gateway: TestGateway, id: string): Promise<string> {
  return (await gateway.get(id)).body.state
}

export async function untilState(gateway: TestGateway, id: string, state: string): Promise<void> {
  await eventually(async () => (await stateOf(gateway, id)) === state)
}

type Answer = ReturnType<TestGateway['get']>

export function nack(gateway: TestGateway, id: string, over: object = {}): Answer {
  const error = { code: 'test_failure', message: 'it failed' }
  return gateway.request('POST', '/ojs/v1/workers/nack', { job_id: id, error, ...over })
}

export function beat(gateway: TestGateway, over: object): Answer {
  return gateway.request('POST', '/ojs/v1/workers/heartbeat', over)
}

export function pushBatch(gateway: TestGateway, jobs: readonly object[]): Answer {
  return gateway.request('POST', '/ojs/v1/jobs/batch', { jobs })
}

/** The sum of a metric over all of its labels, or over those series that have these. */
export async function metric(
  gateway: TestGateway,
  name: string,
  labels: Record<string, string> = {},
): Promise<number> {
  const { body } = await gateway.request('GET', '/metrics')
  return sumOf(String(body), name, labels)
}

export function sumOf(
  exposition: string,
  name: string,
  labels: Record<string, string> = {},
): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`)
  const lines = exposition
    .split('\n')
    .filter((line) => /^[^ {]+/.exec(line)?.[0] === name)
    .filter((line) => wanted.every((label) => line.includes(label)))
  return lines.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0)
}

export async function depthOf(admin: Admin, queue: string): Promise<number> {
  return (await admin.channel.checkQueue(queue)).messageCount
}

/** Through the management API, as an operator would: `PUT /api{path}`. */
export async function operate(node: PrivateNode, path: string, body: object): Promise<void> {
  const port = node.managementPort
  if (port === undefined) throw new Error('the node of these tests has the management plugin')
  const { status, text } = await managementRequest(port, 'PUT', path, body)
  if (status >= 300) throw new Error(`PUT ${path}: ${status} ${text}`)
}
