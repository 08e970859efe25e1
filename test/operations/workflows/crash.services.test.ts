import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { restartDoomed, untilDead } from '../../crash/failpoints.ts'
import { Random, SEED } from '../../crash/random.ts'
import { inOrder } from '../../support/broker/order.ts'
import { vhostForAll } from '../../support/broker/rabbit.ts'
import { jobsOf } from '../../support/gateway/client.ts'
import { Gateway } from '../../support/gateway/gateway.ts'
import { eventually } from '../../support/gateway/in-process.ts'

/**
 * Runs graphs of 20 steps while the gateway is killed at commits of its ledger: no step is lost, none has
 * two jobs, and none begins before the steps that it depends on have ended. This covers the gateway with
 * broker, workers and clients; test/ledger/sqlite/workflow-crash.test.ts covers each commit by itself.
 */
const vhost = vhostForAll()

const KILLS = 6
const WORKERS = 6
const LAYER = 5
const PATIENCE_MS = 60_000
/**
 * Where a gateway is killed: right before a commit of its ledger, and right after. These are the calls that
 * a group commit makes around its COMMIT: the last `store` of its committed state, and the first `commit`
 * (src/ledger/sqlite/state/store.ts has their order).
 */
const COMMIT_POINTS = [
  'ledger/sqlite/state/workflow-counts.js:WorkflowCounts.store:before',
  'ledger/sqlite/state/state-counter.js:StateCounter.commit:before',
]

const ids = Array.from({ length: 20 }, (_, i) => `s${i}`)
const before = (i: number) =>
  i < LAYER ? [] : [i - LAYER, i < 2 * LAYER ? (i + 1) % LAYER : i - LAYER - 1]
const GRAPH = {
  name: 'graph',
  steps: ids.map((id, i) => ({ id, type: id, args: [], depends_on: before(i).map((n) => ids[n]) })),
  options: { queue: 'steps', retry: { max_attempts: 50 } },
}

/** All steps that step `i` depends on, directly or indirectly. */
function ancestors(i: number): Set<number> {
  return new Set(before(i).flatMap((n) => [n, ...ancestors(n)]))
}

/** Fetches, works and acknowledges, also while the gateway is down; records wrong parent results. */
function work({ client }: Gateway): { wrong: string[]; stop(): Promise<void> } {
  const wrong: string[] = []
  let isStopped = false
  const acknowledge = async (id: string, type: unknown): Promise<void> => {
    const result = { of: type }
    // Without an answer the ACK may or may not have been applied. It is repeated, and a 409 means it was.
    while ((await client.ack({ job_id: id, result })).status === 0 && !isStopped) await sleep(20)
  }
  const one = async (): Promise<void> => {
    while (!isStopped) {
      const jobs = jobsOf(await client.fetch({ queues: ['steps'], count: 3, wait_ms: 200 }))
      if (jobs.length === 0) await sleep(20)
      for (const { id, type, parent_results: given } of jobs) {
        const seen = Object.entries(given as object).map(([name, result]) => `${name}:${result.of}`)
        const expected = [...ancestors(ids.indexOf(String(type)))].map((n) => `${ids[n]}:${ids[n]}`)
        if (inOrder(seen).join() !== inOrder(expected).join()) wrong.push(`${type} saw ${seen}`)
        await acknowledge(id, type)
      }
    }
  }
  const done = Promise.all(Array.from({ length: WORKERS }, one))
  return {
    wrong,
    async stop() {
      isStopped = true
      await done
    },
  }
}

async function create({ client }: Gateway): Promise<string | null> {
  const { status, body } = await client.send('POST', '/ojs/v1/workflows', GRAPH)
  return status === 201 ? (body as { workflow: { id: string } }).workflow.id : null
}

/** The state of each workflow by its id; null when the gateway did not answer. */
async function states({ client }: Gateway): Promise<Map<string, string> | null> {
  const { status, body } = await client.send('GET', '/ojs/v1/workflows?limit=100')
  if (status !== 200) return null
  const { workflows } = body as { workflows: { id: string; state: string }[] }
  return new Map(workflows.map(({ id, state }) => [id, state]))
}

/** The steps of each workflow, once per job that was made for the step. */
async function stepsIn({ ledger }: Gateway): Promise<Map<string, string[]>> {
  const rows: { envelope: string }[] = await ledger.rows(
    'SELECT envelope FROM jobs',
    'SELECT envelope FROM job_bodies',
  )
  const steps = new Map<string, string[]>()
  for (const { envelope } of rows) {
    const { workflow_id: id, workflow_step: step } = JSON.parse(envelope)
    steps.set(id, [...(steps.get(id) ?? []), step])
  }
  return steps
}

test(`gateway killed at commits while workflows run: each step has one job (OJS_CRASH_SEED=${SEED})`, {
  timeout: 8 * PATIENCE_MS,
}, async () => {
  const random = new Random(SEED)
  const env = { OJS_VISIBILITY_TIMEOUT_MS: '1000' }
  const gateway = await Gateway.start({ amqpUrl: vhost.url, env })
  const worker = work(gateway)
  const accepted: string[] = []
  try {
    for (let kill = 0; kill < KILLS; kill++) {
      const point = COMMIT_POINTS[kill % COMMIT_POINTS.length]
      const failpoint = `${point}:${random.integer(2, 50)}`
      await restartDoomed(gateway, failpoint)
      while (gateway.isRunning) {
        const id = await create(gateway)
        if (id !== null) accepted.push(id)
        // A pause, so that the earlier workflows make progress too.
        await sleep(200)
      }
      await untilDead(gateway, failpoint, PATIENCE_MS)
    }
    await gateway.restart()
    await eventually(async () => {
      const known = await states(gateway)
      return known !== null && [...known.values()].every((state) => state !== 'running')
    }, PATIENCE_MS)
    const known = (await states(gateway)) ?? new Map()
    expect(new Set(known.values())).toEqual(new Set(['completed']))
    expect(accepted.filter((id) => !known.has(id))).toEqual([])
    await gateway.stop()
    const made = await stepsIn(gateway)
    expect(made.size).toBe(known.size)
    for (const steps of made.values()) expect(inOrder(steps)).toEqual(inOrder(ids))
    expect(worker.wrong).toEqual([])
    process.stdout.write(`  ${known.size} workflows, ${accepted.length} answered, ${KILLS} kills\n`)
  } finally {
    await worker.stop()
    await gateway.dispose()
  }
})
