import { v7 } from 'uuid'
import { describe, expect, it } from 'vitest'
import { cancel } from '../../src/operations/cancel.ts'
import { fetch } from '../../src/operations/fetch.ts'
import { controlCancel } from '../../src/operations/native/cancel.ts'
import { push } from '../../src/operations/push.ts'
import { eventually } from '../support/in-process.ts'
import { newJob } from '../support/jobs.ts'
import { CONTEXT, stageForAll } from './control-stage.ts'
import { freshQueue } from './harness.ts'
import { publishToken } from './tokens.ts'

describe('a cancellation', () => {
  const stage = stageForAll()
  const byMessage = (id: string, queue: string) =>
    controlCancel(stage.deps, { job_id: id, queue }, CONTEXT)
  const told = (id: string) => ({
    type: 'ojs.control.cancel',
    body: { job_id: id, generation: 0 },
  })
  const settled = (id: string) => eventually(() => stage.row(id).outbox === null)

  it('is answered when the broker has the broadcast', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    await cancel(stage.deps, id, CONTEXT)
    // The confirm is in, and clears the nonce with the next group.
    await settled(id)
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told(id)])
  })

  it('that nobody has told the workers is told by the relay', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    // As a gateway that dies between the commit and the broadcast leaves it.
    await stage.deps.ledger.cancel(id, stage.deps.clock.now())
    stage.deps.wakeRelay()
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told(id)])
    await settled(id)
  })

  /** Stored, and not published yet: as a schedule that has just come due. */
  async function owing(queue: string): Promise<string> {
    const job = newJob({ id: v7(), queue })
    await stage.deps.ledger.insert(job, stage.deps.clock.now())
    return job.id
  }

  it('waits for no token that was never published, and now never will be', async () => {
    const id = await owing(freshQueue())
    await cancel(stage.deps, id, CONTEXT)
    await eventually(() => !stage.row(id).tokenOut)
  })

  it.each<[string, (id: string) => void]>([
    ['is being published', (id) => stage.deps.tokens.sending.add(id)],
    ['waits for the rest of its batch', (id) => stage.deps.tokens.staging.add(id)],
    ['was published without an answer', (id) => stage.deps.tokens.unsure.add(id)],
  ])('waits for one that %s', async (_name, note) => {
    const id = await owing(freshQueue())
    note(id)
    await cancel(stage.deps, id, CONTEXT)
    await stage.pushed(freshQueue())
    expect(stage.row(id).tokenOut).toBe(true)
  })

  it('owes nothing where no token is out', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue, { pending: true })
    await cancel(stage.deps, id, CONTEXT)
    expect(stage.row(id)).toMatchObject({ state: 'cancelled', outbox: null, tokenOut: false })
    // What was told later is heard: nothing was told before.
    await byMessage('nobody', queue)
    await eventually(() => heard.length > 0)
    expect(heard).toEqual([told('nobody')])
  })

  it('by a message is the same; of a job that has ended it says nothing', async () => {
    const queue = freshQueue()
    const heard = await stage.heard(queue)
    const id = await stage.pushed(queue)
    await byMessage(id, queue)
    expect(stage.row(id).state).toBe('cancelled')
    await byMessage(id, queue)
    expect(stage.storyOf(id)).toEqual(['job.enqueued', 'job.cancelled'])
    await byMessage('other', queue)
    await eventually(() => heard.length === 2)
    expect(heard).toEqual([told(id), told('other')])
  })

  it('of an unknown id drops its token when it comes, and no job that has the id later', async () => {
    const queue = freshQueue()
    await byMessage('ghost', queue)
    await stage.deps.broker.ensureQueue(queue)
    const body = { id: 'ghost', type: 'test.job', args: [] }
    await publishToken(stage.vhost.url, queue, body)
    const signal = new AbortController().signal
    await eventually(async () => {
      const jobs = await fetch(stage.deps, { queues: [queue], wait_ms: 300 }, CONTEXT, signal)
      expect(jobs).toEqual([])
      return (await stage.channel.checkQueue(`ojs.queue.${queue}`)).messageCount === 0
    })
    expect(stage.deps.ledger.find('ghost')).toBeNull()
    const id = stage.deps.newId()
    await byMessage(id, queue)
    await push(stage.deps, { id, type: 'test.job', args: [], options: { queue } }, CONTEXT)
    expect(await stage.fetched(queue)).toMatchObject({ id, attempt: 1, generation: 1 })
    expect(stage.deps.ledger.tombstones([queue], 9).cancelled).toEqual([
      { id: 'ghost', generation: 0 },
    ])
  })

  it('of a job that is leased over HTTP frees its delivery', async () => {
    const queue = freshQueue()
    const id = await stage.pushed(queue)
    await stage.fetched(queue)
    await cancel(stage.deps, id, CONTEXT)
    expect(stage.deps.tokens.held.has(id)).toBe(false)
    await eventually(() => !stage.row(id).tokenOut)
  })
})
