import { v7 } from 'uuid'
import { describe, expect, it } from 'vitest'
import { cancel } from '../../../src/operations/cancel.ts'
import { push } from '../../../src/operations/enqueue/push.ts'
import { fetch } from '../../../src/operations/fetch/fetch.ts'
import { controlCancel } from '../../../src/operations/native/cancel.ts'
import { eventually } from '../../support/gateway/in-process.ts'
import { newJob } from '../../support/gateway/jobs.ts'
import { freshQueue } from '../harness.ts'
import { publishJobMessage } from '../job-messages/messages.ts'
import { CONTEXT, stageForAll } from './control-stage.ts'

describe('CANCEL', () => {
  const stage = stageForAll()
  const byMessage = (id: string, queue: string) =>
    controlCancel(stage.deps, { job_id: id, queue }, CONTEXT)
  const told = (id: string) => ({
    type: 'ojs.control.cancel',
    body: { job_id: id, generation: 0 },
  })
  const settled = (id: string) => eventually(async () => (await stage.row(id)).outbox === null)

  it('broadcasts the cancellation, and clears the outbox once it is confirmed', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    await cancel(stage.deps, id, CONTEXT)
    // The ledger clears the outbox nonce in the group commit after the confirm.
    await settled(id)
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told(id)])
  })

  it('is broadcast by the relay when the gateway died before its own broadcast', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    // The state after a gateway died between the commit and the broadcast.
    await stage.deps.ledger.cancel(id, stage.deps.clock.now())
    stage.deps.wakeRelay()
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told(id)])
    await settled(id)
  })

  /** A job that is stored and not published yet, as a schedule that has just come due. */
  async function owing(queue: string): Promise<string> {
    const job = newJob({ id: v7(), queue })
    await stage.deps.ledger.insert(job, stage.deps.clock.now())
    return job.id
  }

  it('marks the job message as not out when it was never published', async () => {
    const id = await owing(freshQueue())
    await cancel(stage.deps, id, CONTEXT)
    await eventually(async () => !(await stage.row(id)).messageOut)
  })

  it.each<[string, (id: string) => void]>([
    ['is being published', (id) => stage.deps.jobMessages.sending.add(id)],
    ['waits for the rest of its batch', (id) => stage.deps.jobMessages.staging.add(id)],
    ['was published without an answer', (id) => stage.deps.jobMessages.unsure.add(id)],
  ])('marks the job message as still out when it %s', async (_name, note) => {
    const id = await owing(freshQueue())
    note(id)
    await cancel(stage.deps, id, CONTEXT)
    await stage.pushed(freshQueue())
    expect((await stage.row(id)).messageOut).toBe(true)
  })

  it('broadcasts nothing for a pending job, which has no job message', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue, { pending: true })
    await cancel(stage.deps, id, CONTEXT)
    expect(await stage.row(id)).toMatchObject({
      state: 'cancelled',
      outbox: null,
      messageOut: false,
    })
    // A later broadcast is the first that arrives, so the pending job caused none.
    await byMessage('nobody', queue)
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told('nobody')])
  })

  it('by a message cancels and broadcasts, but is silent for a job that is already cancelled', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    await byMessage(id, queue)
    expect((await stage.row(id)).state).toBe('cancelled')
    await byMessage(id, queue)
    expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.cancelled'])
    await byMessage('other', queue)
    await eventually(() => heard.length === 2)
    expect(heard).toEqual([told(id), told('other')])
  })

  it('of an unknown id drops its job message when it arrives, but not a job pushed later with the id', async () => {
    const queue = freshQueue()
    await byMessage('ghost', queue)
    await stage.deps.broker.ensureQueue(queue)
    const body = { id: 'ghost', type: 'test.job', args: [] }
    await publishJobMessage(stage.vhost.url, queue, body)
    const signal = new AbortController().signal
    await eventually(async () => {
      const jobs = await fetch(stage.deps, { queues: [queue], wait_ms: 300 }, CONTEXT, signal)
      expect(jobs).toEqual([])
      return (await stage.channel.checkQueue(`ojs.queue.${queue}`)).messageCount === 0
    })
    expect(await stage.deps.ledger.read.find('ghost')).toBeNull()
    const id = stage.deps.newId()
    await byMessage(id, queue)
    await push(stage.deps, { id, type: 'test.job', args: [], options: { queue } }, CONTEXT)
    expect(await stage.fetched(queue)).toMatchObject({ id, attempt: 1, generation: 1 })
    expect((await stage.deps.ledger.read.tombstones([queue], 9)).cancelled).toEqual([
      { id, generation: 0 },
      { id: 'ghost', generation: 0 },
    ])
  })

  it('of a job that is leased over HTTP settles its delivery', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    await stage.fetched(queue)
    await cancel(stage.deps, id, CONTEXT)
    expect(stage.deps.jobMessages.held.has(id)).toBe(false)
    await eventually(async () => !(await stage.row(id)).messageOut)
  })
})
