import { beforeEach, describe, expect, it } from 'vitest'
import {
  WorkerRegistry,
  type WorkerReport,
} from '../../../src/operations/workers/worker-registry.ts'

const ALL = { limit: 100, offset: 0 }
const START = 1_000_000

let now = START
const clock = { now: () => now, wall: () => 0 }
beforeEach(() => {
  now = START
})

function report(workerId: string, over: Partial<WorkerReport> = {}): WorkerReport {
  return { workerId, activeJobs: 0, activeJobIds: [], ...over }
}

const idsOf = (registry: WorkerRegistry) => registry.list(ALL).workers.map(({ id }) => id)

describe('WorkerRegistry', () => {
  it('lists a worker from its first FETCH', () => {
    const registry = new WorkerRegistry(clock)
    expect(registry.fetched('w1', ['a'])).toBe(true)
    now += 1_000
    expect(registry.fetched('w1', ['a', 'b'])).toBe(true)
    expect(registry.list(ALL).workers).toMatchObject([
      {
        id: 'w1',
        state: 'running',
        directive: 'running',
        queues: ['a', 'b'],
        startedAt: START,
        lastHeartbeatAt: null,
        lastSeenAt: START + 1_000,
      },
    ])
  })

  it('has the queues of the last FETCH until a heartbeat names the queues', () => {
    const registry = new WorkerRegistry(clock)
    registry.fetched('w1', ['a'])
    registry.beaten(report('w1'))
    registry.fetched('w1', ['b'])
    expect(registry.queuesOf('w1')).toEqual(['b'])
    registry.beaten(report('w1', { queues: ['a', 'b'] }))
    registry.fetched('w1', ['a'])
    expect(registry.queuesOf('w1')).toEqual(['a', 'b'])
    expect(registry.list(ALL).workers[0]).not.toHaveProperty('namesQueues')
  })

  it('takes the queue on which a heartbeat without queues came, unless the worker has named its queues', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { heardOn: 'a' }))
    expect(registry.queuesOf('w1')).toEqual(['a'])
    registry.joined('w1', ['b', 'c'])
    registry.beaten(report('w1', { heardOn: 'c' }))
    expect(registry.queuesOf('w1')).toEqual(['b', 'c'])
  })

  it('merges heartbeats: members that the next one leaves out are kept', () => {
    const registry = new WorkerRegistry(clock)
    const said = { hostname: 'h', pid: 7, concurrency: 10, labels: ['l'], version: '1' }
    registry.beaten(report('w1', { ...said, queues: ['a', 'b'], state: 'quiet' }))
    now += 5_000
    registry.beaten(report('w1', { activeJobs: 3 }))
    registry.beaten(report('w1', { activeJobs: 2, activeJobIds: ['x', 'y'], state: 'lunch' }))
    registry.fetched('w1', ['a'])
    expect(registry.list(ALL).workers).toMatchObject([
      {
        ...said,
        queues: ['a', 'b'],
        reported: 'quiet',
        activeJobs: 2,
        activeJobIds: ['x', 'y'],
        startedAt: START,
        lastHeartbeatAt: START + 5_000,
      },
    ])
    registry.beaten(report('w1'))
    expect(registry.list(ALL).workers).toMatchObject([{ activeJobs: 0, activeJobIds: [] }])
  })

  it('lists at most 100 active jobs of a worker', () => {
    const registry = new WorkerRegistry(clock)
    const ids = Array.from({ length: 150 }, (_, i) => `job${i}`)
    registry.beaten(report('w1', { activeJobs: 150, activeJobIds: ids }))
    expect(registry.list(ALL).workers[0]).toMatchObject({
      activeJobs: 150,
      activeJobIds: ids.slice(0, 100),
    })
  })

  it('lists a silent worker as stale after 30 s, and removes it after 5 minutes', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { activeJobs: 1 }))
    now += 30_000
    expect(registry.list(ALL).workers[0]?.state).toBe('running')
    expect(registry.gauges()).toEqual({ active: 1, busy: 1 })
    now += 1
    expect(registry.list(ALL).workers[0]?.state).toBe('stale')
    expect(registry.gauges()).toEqual({ active: 0, busy: 0 })
    registry.fetched('w1', [])
    expect(registry.list(ALL).workers[0]?.state).toBe('running')
    now += 300_000
    expect(idsOf(registry)).toEqual(['w1'])
    now += 1
    expect(idsOf(registry)).toEqual([])
    expect(registry.direct('w1', 'quiet')).toBe('unknown')
  })

  it('removes the worker that was silent for longest when there are too many', () => {
    const registry = new WorkerRegistry(clock, 3)
    for (const id of ['a', 'b', 'c']) {
      registry.fetched(id, [])
      now += 1
    }
    registry.fetched('a', [])
    now += 1
    registry.fetched('d', [])
    expect(idsOf(registry)).toEqual(['a', 'c', 'd'])
  })

  it('holds at most 10,000 workers', () => {
    const registry = new WorkerRegistry(clock)
    for (let i = 0; i < 10_050; i++) registry.fetched(`w${i}`, [])
    expect(registry.list(ALL).summary.total).toBeLessThanOrEqual(10_000)
    expect(registry.list(ALL).summary.total).toBeGreaterThan(9_800)
  })

  it('does not scan all workers for each new one', () => {
    let looks = 0
    const counting = {
      now: () => {
        looks += 1
        return now
      },
      wall: () => now,
    }
    const registry = new WorkerRegistry(counting, 1_000)
    for (let i = 0; i < 2_000; i++) registry.fetched(`w${i}`, [])
    expect(looks).toBeLessThan(10 * 2_000)
  })

  it('removes the workers with the largest reports when all reports together are too large', () => {
    const registry = new WorkerRegistry(clock, 1_000, 100_000)
    registry.fetched('fetcher', ['email'])
    registry.beaten(report('beater', { queues: ['email'], activeJobIds: ['j1'] }))
    registry.direct('beater', 'quiet')
    for (let i = 0; i < 100; i++) {
      const texts = Array.from({ length: 50 }, (_, k) => `${i}-${k}`.padEnd(100, 'x'))
      const loud = { labels: texts, queues: texts, activeJobIds: texts }
      registry.beaten(report(`loud${i}`, loud))
      registry.fetched(`loud-fetcher${i}`, texts)
      now += 1
    }
    const ids = idsOf(registry)
    expect(ids.slice(0, 2)).toEqual(['fetcher', 'beater'])
    expect(ids.length).toBeLessThan(15)
    expect(registry.beaten(report('beater'))).toBe('quiet')
  })

  it('does not count replaced reports, nor those of removed workers, towards the total size', () => {
    const registry = new WorkerRegistry(clock, 2, 20_000)
    const texts = Array.from({ length: 50 }, (_, k) => `${k}`.padEnd(50, 'x'))
    for (let i = 0; i < 50; i++) {
      registry.beaten(report('w1', { labels: texts, pid: i }))
      registry.fetched('w2', texts)
      registry.fetched(`other${i % 2}`, [])
      registry.fetched('w2', [])
      now += i === 25 ? 300_001 : 1
    }
    registry.beaten(report('w1', { labels: texts }))
    expect(idsOf(registry)).toContain('w1')
    expect(registry.list(ALL).summary.total).toBe(2)
    const roomy = new WorkerRegistry(clock, 10, 20_000)
    for (let pid = 0; pid < 50; pid++) roomy.beaten(report('w1', { labels: texts, pid }))
    expect(idsOf(roomy)).toEqual(['w1'])
  })

  it.each(['hostname', 'version'])('counts the length of the %s towards the total size', (name) => {
    const registry = new WorkerRegistry(clock, 10, 1_000)
    registry.beaten(report('w1', { [name]: 'x'.repeat(500) }))
    expect(idsOf(registry)).toEqual([])
  })

  it('counts the workers by state', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('silent'))
    now += 40_000
    registry.beaten(report('r'))
    registry.beaten(report('q', { state: 'quiet' }))
    registry.beaten(report('own-word', { state: 'lunch', activeJobs: 1 }))
    registry.fetched('told', [])
    registry.direct('told', 'terminate')
    const { summary } = registry.list({ limit: 1, offset: 1 })
    expect(summary).toEqual({ total: 5, running: 2, quiet: 1, terminate: 1, stale: 1 })
    expect(registry.list({ limit: 1, offset: 1 }).workers.map(({ id }) => id)).toEqual(['r'])
    expect(registry.gauges()).toEqual({ active: 4, busy: 1 })
  })
})

describe('a worker that reports quiet by itself', () => {
  it('gets no jobs until it reports running, or its heartbeats have ended', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { state: 'quiet' }))
    now += 30_000
    expect(registry.fetched('w1', ['a'])).toBe(false)
    now += 1
    expect(registry.fetched('w1', ['a'])).toBe(true)
    registry.beaten(report('w1'))
    expect(registry.fetched('w1', ['a'])).toBe(false)
    registry.beaten(report('w1', { state: 'running' }))
    expect(registry.fetched('w1', ['a'])).toBe(true)
  })
})

describe('directives of the WorkerRegistry', () => {
  it('are answered to the next heartbeat, and stop FETCH', () => {
    const registry = new WorkerRegistry(clock)
    registry.fetched('w1', [])
    expect(registry.direct('w1', 'quiet')).toMatchObject({ id: 'w1', directive: 'quiet' })
    expect(registry.beaten(report('w1', { state: 'running' }))).toBe('quiet')
    expect(registry.fetched('w1', [])).toBe(false)
    expect(registry.fetched('w2', [])).toBe(true)
  })

  it('cannot be taken back from terminate to quiet', () => {
    const registry = new WorkerRegistry(clock)
    registry.fetched('w1', [])
    expect(registry.direct('w1', 'terminate')).toMatchObject({ directive: 'terminate' })
    expect(registry.direct('w1', 'terminate')).toMatchObject({ directive: 'terminate' })
    expect(registry.direct('w1', 'quiet')).toBe('too-late')
    expect(registry.beaten(report('w1'))).toBe('terminate')
    expect(registry.direct('nobody', 'quiet')).toBe('unknown')
  })

  it('do not go to workers that were silent for more than five minutes', () => {
    const registry = new WorkerRegistry(clock)
    registry.fetched('w1', [])
    registry.fetched('w2', [])
    now += 300_001
    expect(registry.direct('w1', 'quiet')).toBe('unknown')
    registry.fetched('w3', [])
    now += 300_000
    expect(registry.directAll('quiet')).toBe(1)
    now += 1
    expect(registry.directAll('quiet')).toBe(0)
  })

  it('are kept when many other workers come or send large reports', () => {
    const registry = new WorkerRegistry(clock, 10, 20_000)
    for (const id of ['told', 'fetcher']) registry.fetched(id, [])
    registry.direct('told', 'terminate')
    for (let i = 0; i < 50; i++) {
      now += 1
      registry.beaten(report(`other${i}`, { labels: Array(20).fill('x'.repeat(100)) }))
    }
    for (let i = 0; i < 50; i++) registry.fetched(`small${i}`, [])
    expect(idsOf(registry)).not.toContain('fetcher')
    expect(registry.beaten(report('told', { state: 'running' }))).toBe('terminate')
  })

  it('do not keep a worker that was silent for five minutes', () => {
    const registry = new WorkerRegistry(clock, 3)
    for (const id of ['a', 'b', 'c']) registry.fetched(id, [])
    registry.directAll('quiet')
    now += 300_001
    for (const id of ['d', 'e', 'f']) registry.fetched(id, [])
    expect(idsOf(registry)).toEqual(['d', 'e', 'f'])
  })

  it('end with five minutes of silence, even if the list is not read meanwhile', () => {
    const registry = new WorkerRegistry(clock)
    registry.fetched('w1', [])
    registry.direct('w1', 'quiet')
    now += 300_000
    expect(registry.fetched('w1', [])).toBe(false)
    now += 300_001
    expect(registry.beaten(report('w1'))).toBe('running')
  })

  it('for all workers do not go to those that have a stronger one', () => {
    const registry = new WorkerRegistry(clock)
    for (const id of ['a', 'b', 'c']) registry.fetched(id, [])
    registry.direct('a', 'terminate')
    registry.direct('b', 'quiet')
    expect(registry.directAll('quiet')).toBe(2)
    expect(registry.list(ALL).workers.map(({ directive }) => directive)).toEqual([
      'terminate',
      'quiet',
      'quiet',
    ])
  })

  it('end when another process has the same worker id', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { pid: 7 }))
    registry.direct('w1', 'terminate')
    expect(registry.beaten(report('w1'))).toBe('terminate')
    expect(registry.beaten(report('w1', { pid: 7 }))).toBe('terminate')
    now += 10
    expect(registry.beaten(report('w1', { pid: 8 }))).toBe('running')
    expect(registry.list(ALL).workers).toMatchObject([{ pid: 8, startedAt: START + 10 }])
    registry.direct('w1', 'terminate')
    expect(registry.beaten(report('w1', { pid: 8, hostname: 'here' }))).toBe('terminate')
    expect(registry.beaten(report('w1', { pid: 8, hostname: 'there' }))).toBe('running')
  })

  it('end when a terminated worker starts again with the same id and pid, as in a container', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { pid: 1, state: 'running' }))
    registry.direct('w1', 'terminate')
    expect(registry.beaten(report('w1', { pid: 1, state: 'running' }))).toBe('terminate')
    expect(registry.beaten(report('w1', { pid: 1, state: 'terminate' }))).toBe('terminate')
    expect(registry.fetched('w1', [])).toBe(false)
    expect(registry.beaten(report('w1', { pid: 1, state: 'running' }))).toBe('running')
    expect(registry.fetched('w1', [])).toBe(true)
    registry.direct('w1', 'terminate')
    registry.beaten(report('w1', { pid: 1, state: 'terminate' }))
    expect(registry.beaten(report('w1', { pid: 1, state: 'quiet' }))).toBe('running')
  })

  it('end when a terminated native worker joins again before its first heartbeat', () => {
    const registry = new WorkerRegistry(clock)
    registry.joined('w1', ['a'])
    registry.direct('w1', 'terminate')
    expect(registry.joined('w1', ['a'])).toBe('terminate')
    registry.beaten(report('w1', { pid: 1, state: 'terminate' }))
    expect(registry.joined('w1', ['a'])).toBe('running')
    expect(registry.beaten(report('w1', { pid: 1, state: 'running' }))).toBe('running')
  })

  it('hold for a worker that was quiet by itself and runs again', () => {
    const registry = new WorkerRegistry(clock)
    registry.beaten(report('w1', { pid: 1, state: 'quiet' }))
    registry.direct('w1', 'quiet')
    expect(registry.beaten(report('w1', { pid: 1, state: 'running' }))).toBe('quiet')
  })
})

it('WorkerRegistry counts down active jobs beyond the listed ids, but not below their number', () => {
  const registry = new WorkerRegistry(clock)
  const activeJobIds = ['a', 'b', 'c']
  registry.beaten(report('many', { activeJobs: 150, activeJobIds }))
  registry.beaten(report('few', { activeJobs: 1, activeJobIds }))
  for (const worker of ['many', 'few']) registry.ended(worker, 'b')
  for (const worker of ['many', 'few']) registry.ended(worker, 'unknown')
  expect(registry.list(ALL).workers).toMatchObject([
    { id: 'many', activeJobs: 149, activeJobIds: ['a', 'c'] },
    { id: 'few', activeJobs: 2, activeJobIds: ['a', 'c'] },
  ])
})
