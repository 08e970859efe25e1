import { describe, expect, it } from 'vitest'
import { OjsError } from '../../src/errors.ts'
import { type StepStart, stepJob, type WorkflowSettings } from '../../src/job/workflow-step.ts'

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
  it('is one of its own that says where it belongs and what it comes after', () => {
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

  it('names its step as it is called, whatever that is', () => {
    const { envelope } = stepJob({ type: 't', args: [] }, start({}, '"a"\\\n'))
    expect(JSON.parse(envelope)).toMatchObject({ workflow_step: '"a"\\\n' })
  })

  it('counts its delay from where it begins', () => {
    const options = { delay_until: '+PT5S' }
    const { start: begins, createdAt } = stepJob({ type: 't', args: [], options }, start())
    expect([begins, createdAt]).toEqual([{ state: 'scheduled', dueAt: NOW + 5_000 }, NOW])
  })

  it('has the settings and the trace of the workflow, where it says nothing else', () => {
    const settings = { timeoutMs: 7, traceparent: TRACE, tracestate: 'v=1' }
    const made = stepJob({ type: 't', args: [] }, start(settings))
    expect(made.timeoutMs).toBe(7)
    expect(made.carry).toMatchObject({ traceparent: TRACE, tracestate: 'v=1' })
    const options = { timeout_ms: 9, meta: { traceparent: OWN } }
    const other = stepJob({ type: 't', args: [], options }, start(settings))
    expect(other.timeoutMs).toBe(9)
    expect(other.carry).toMatchObject({ traceparent: OWN })
  })

  it("is refused a queue that the gateway's prefix keeps for itself", () => {
    const made = (prefix: string) =>
      stepJob({ type: 't', args: [], options: { queue: 'p.ojs.x' } }, start({ prefix }))
    expect(made('').queue).toBe('p.ojs.x')
    expect(() => made('p')).toThrow(OjsError)
  })
})
