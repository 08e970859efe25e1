import { describe, expect, it } from 'vitest'
import { OjsError } from '../../../src/errors.ts'
import { type StepStart, stepJob, type WorkflowSettings } from '../../../src/job/workflow/step.ts'

const NOW = Date.parse('2026-02-12T10:30:00.000Z')
const TRACE = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
const OWN = '00-11111111111111111111111111111111-2222222222222222-01'

function start(settings: Partial<WorkflowSettings> = {}, step = 'a'): StepStart {
  return {
    id: 'j',
    now: NOW,
    wall: NOW,
    workflow: { id: 'w', step, settings: { timeoutMs: 30_000, prefix: '', ...settings } },
    parentResults: '{"b":1}',
  }
}

describe('the job of a step', () => {
  it('names its workflow and step, and has the results of its parents', () => {
    const made = stepJob({ type: 't', args: [1] }, start())
    expect(made).toMatchObject({ id: 'j', type: 't', queue: 'default' })
    expect(JSON.parse(made.envelope)).toMatchObject({
      id: 'j',
      type: 't',
      args: [1],
      workflow_id: 'w',
      workflow_step: 'a',
      parent_results: { b: 1 },
    })
  })

  it("has its step's name, whatever characters it has", () => {
    const { envelope } = stepJob({ type: 't', args: [] }, start({}, '"a"\\\n'))
    expect(JSON.parse(envelope)).toMatchObject({ workflow_step: '"a"\\\n' })
  })

  it('counts a relative delay from the start of the step', () => {
    const options = { delay_until: '+PT5S' }
    const { start: begins, createdAt } = stepJob({ type: 't', args: [], options }, start())
    expect([begins, createdAt]).toEqual([{ state: 'scheduled', dueAt: NOW + 5_000 }, NOW])
  })

  it('has the settings and trace of the workflow unless it has its own', () => {
    const settings = { timeoutMs: 7, traceparent: TRACE, tracestate: 'v=1' }
    const made = stepJob({ type: 't', args: [] }, start(settings))
    expect(made.timeoutMs).toBe(7)
    expect(made.carry).toMatchObject({ traceparent: TRACE, tracestate: 'v=1' })
    const options = { timeout_ms: 9, meta: { traceparent: OWN } }
    const other = stepJob({ type: 't', args: [], options }, start(settings))
    expect(other.timeoutMs).toBe(9)
    expect(other.carry).toMatchObject({ traceparent: OWN })
  })

  it("may not use a queue that is reserved under the gateway's prefix", () => {
    const made = (prefix: string) =>
      stepJob({ type: 't', args: [], options: { queue: 'p.ojs.x' } }, start({ prefix }))
    expect(made('').queue).toBe('p.ojs.x')
    expect(() => made('p')).toThrow(OjsError)
  })
})
