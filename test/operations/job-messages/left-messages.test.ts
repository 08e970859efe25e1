import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { retryDeadLetter } from '../../../src/operations/dead-letters/dead-letters.ts'
import { activate } from '../../../src/operations/enqueue/activate.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { pushBatch } from '../../../src/operations/enqueue/push-batch.ts'
import { createWorkflow } from '../../../src/operations/workflows/workflows.ts'
import { type Relay, relay } from '../../../src/services/relay.ts'
import { died, rowOf } from '../../ledger/harness.ts'
import { ledgerOfTest } from '../../ledger/sqlite/harness.ts'
import { onToldBroker, type ToldStage } from './told-broker.ts'

const CONTEXT = { requestId: 'req_1' }
/** For `vi.waitFor`, which would give up after a second. */
const PATIENTLY = { timeout: 15_000 }
const JOB = { type: 'a', args: [] }
const REPLACING = { ...JOB, options: { unique: { key: [], on_conflict: 'replace' } } }

const harness = ledgerOfTest()
let stage: ToldStage
let outbox: Relay
/**
 * RabbitMQ nacks the next job message, once the relay has looked at the outbox; later publishes are
 * confirmed.
 */
let isFull: boolean
let refused: string | undefined

beforeEach(async () => {
  isFull = false
  refused = undefined
  stage = onToldBroker(harness, {
    ensureQueue: async () => 'ready',
    isQueueGone: async () => false,
    broadcast: async () => 'confirmed',
    async publish({ id }) {
      if (!isFull) return 'confirmed'
      isFull = false
      refused = id
      const looks = vi.spyOn(harness.ledger.read, 'outboxPage')
      outbox.wake()
      await vi.waitFor(() => expect(looks.mock.settledResults.at(-1)?.value).toEqual([]), PATIENTLY)
      return 'nacked'
    },
  })
  outbox = relay(stage.deps)
  stage.deps.wakeRelay = (what) => outbox.wake(what)
  await outbox.start()
})
afterEach(async () => {
  await outbox.stop(AbortSignal.timeout(1_000))
})

/** Operations that store their job even if its job message is refused. */
const WAYS: Record<string, () => Promise<() => Promise<unknown>>> = {
  async ACTIVATE() {
    const { job } = await push(stage.deps, { ...JOB, options: { pending: true } }, CONTEXT)
    return () => activate(stage.deps, job.id, CONTEXT)
  },
  async 'the retry of a dead letter'() {
    const { id } = await died(harness.ledger)
    return () => retryDeadLetter(stage.deps, id, CONTEXT)
  },
  async 'the first step of a workflow'() {
    const workflow = { type: 'chain', name: 'w', steps: [JOB] }
    return () => createWorkflow(stage.deps, workflow, CONTEXT)
  },
  async 'a PUSH that has replaced another job'() {
    await push(stage.deps, REPLACING, CONTEXT)
    return () => push(stage.deps, REPLACING, CONTEXT)
  },
  async 'a batch that has replaced another job'() {
    await push(stage.deps, REPLACING, CONTEXT)
    return () => pushBatch(stage.deps, { jobs: [REPLACING] }, CONTEXT)
  },
}

it.each(Object.entries(WAYS))(
  'the relay soon publishes the job message that was refused during %s',
  async (_, prepare) => {
    const act = await prepare()
    isFull = true
    await act()
    await vi.waitFor(() => expect(refused).toBeDefined(), PATIENTLY)
    await vi.waitFor(
      async () => expect((await rowOf(harness.ledger, refused ?? '')).outbox).toBeNull(),
      PATIENTLY,
    )
  },
)
