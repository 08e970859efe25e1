import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { planWorkflow } from '../../src/job/workflow/plan.ts'
import { nodesIn } from '../../src/job/workflow/results.ts'
import {
  decideNode,
  type GraphStep,
  type Outcome,
  type Plan,
  type PlannedJob,
} from '../../src/job/workflow/workflow.ts'

/** Which jobs succeed, by id, and in which order they end. */
interface Fate {
  succeeds(id: string): boolean
  /** The index of the running job that ends next. */
  next(running: number): number
}

interface Story {
  outcome: Outcome
  /** The ids of the jobs in the order of their starts. */
  begun: string[]
  byId: Map<string, Outcome>
}

/** Runs a plan as the ledger does, one end after the other, and checks each start. */
function live(plan: Plan, fate: Fate): Story {
  const outcomes = new Map<number, Outcome>()
  const running: number[] = []
  const begun: string[] = []
  const settle = (place: number): boolean => {
    const node = plan.nodes[place]
    if (node === undefined || outcomes.has(place) || running.includes(place)) return false
    const ends = node.needs.map((need) => outcomes.get(need))
    const count = (outcome: Outcome) => ends.filter((end) => end === outcome).length
    const pending = ends.filter((end) => end === undefined).length
    const arrivals = {
      pending,
      completed: count('completed'),
      failed: count('failed'),
      cancelled: count('cancelled'),
    }
    const decision = decideNode(node.rule, arrivals)
    if (decision === 'wait') return false
    if (decision !== 'start') {
      outcomes.set(place, decision)
      return true
    }
    if (node.kind === 'join') throw new Error('a join began')
    expectReady(node, outcomes)
    begun.push(node.id)
    running.push(place)
    return true
  }
  const settleAll = () => {
    while (plan.nodes.some((_, place) => settle(place)));
  }
  settleAll()
  while (running.length > 0) {
    const [place = -1] = running.splice(fate.next(running.length), 1)
    const node = plan.nodes[place]
    if (node?.kind !== 'job') throw new Error('only jobs run')
    outcomes.set(place, fate.succeeds(node.id) ? 'completed' : 'failed')
    settleAll()
  }
  // Every node has an outcome, so none waits for one that can never come.
  expect(outcomes.size).toBe(plan.nodes.length)
  const byId = new Map<string, Outcome>()
  for (const [place, node] of plan.nodes.entries()) {
    if (node.kind === 'job') byId.set(node.id, outcomes.get(place) ?? 'cancelled')
  }
  return { outcome: outcomes.get(plan.nodes.length - 1) ?? 'cancelled', begun, byId }
}

/** Checks that all needs and inputs have ended, and that the needs of a step (not a callback) succeeded. */
function expectReady(node: PlannedJob, outcomes: ReadonlyMap<number, Outcome>): void {
  for (const place of [...node.needs, ...nodesIn(node.inputs)]) {
    expect(outcomes.get(place), `${node.id} before ${place}`).toBeDefined()
    if (!node.isCallback && node.needs.includes(place)) {
      expect(outcomes.get(place)).toBe('completed')
    }
  }
}

const fates = fc
  .record({
    failing: fc.array(fc.boolean(), { minLength: 40, maxLength: 40 }),
    order: fc.infiniteStream(fc.nat()),
  })
  .map(({ failing, order }) => {
    const seen = new Map<string, boolean>()
    const succeeds = (id: string) => {
      const known = seen.get(id) ?? !(failing[seen.size % 40] ?? false)
      seen.set(id, known)
      return known
    }
    return { succeeds, next: (running: number) => (order.next().value ?? 0) % running }
  })

const job = { type: 't', args: [] }

/** Steps that depend on earlier ones only, in any order. */
const graphs = fc
  .array(fc.array(fc.nat(), { maxLength: 4 }), { minLength: 1, maxLength: 14 })
  .chain((wishes) => {
    const steps = wishes.map((wish, i): GraphStep => {
      const before = i === 0 ? [] : wish.map((one) => `s${one % i}`)
      return { ...job, id: `s${i}`, depends_on: [...new Set(before)] }
    })
    return fc.shuffledSubarray(steps, { minLength: steps.length, maxLength: steps.length })
  })

const planGraph = (steps: GraphStep[]) => planWorkflow({ name: 'n', steps }, () => steps)

describe('a plan of a graph', () => {
  it('runs a step exactly when all steps that it depends on have succeeded', () => {
    fc.assert(
      fc.property(graphs, fates, (steps, fate) => {
        const { outcome, begun, byId } = live(planGraph(steps), fate)
        expect(new Set(begun).size).toBe(begun.length)
        for (const { id, depends_on } of steps) {
          const isOpen = (depends_on ?? []).every((name) => byId.get(name) === 'completed')
          const expected = isOpen ? (fate.succeeds(id) ? 'completed' : 'failed') : 'cancelled'
          expect(byId.get(id), id).toBe(expected)
        }
        const isGood = [...byId.values()].every((end) => end === 'completed')
        expect(outcome).toBe(isGood ? 'completed' : 'failed')
      }),
    )
  })

  it('gives each step the results of all its ancestors', () => {
    fc.assert(
      fc.property(graphs, (steps) => {
        const { nodes } = planGraph(steps)
        const above = (id: string): string[] => {
          const { depends_on } = steps.find((step) => step.id === id) ?? {}
          return (depends_on ?? []).flatMap((name) => [name, ...above(name)])
        }
        for (const node of nodes) {
          if (node.kind === 'join') continue
          const given = nodesIn(node.inputs).map((place) => steps[place]?.id)
          expect(new Set(given)).toEqual(new Set(above(node.id)))
          expect(given).toHaveLength(new Set(given).size)
        }
      }),
    )
  })

  it('is refused with a real cycle when there is one', () => {
    fc.assert(
      fc.property(graphs, fc.nat(), fc.nat(), (steps, a, b) => {
        const [from, to] = [steps[a % steps.length], steps[b % steps.length]]
        if (!from || !to || from === to) return
        const reaches = (id: string): boolean => {
          const { depends_on } = steps.find((step) => step.id === id) ?? {}
          return (depends_on ?? []).some((name) => name === from.id || reaches(name))
        }
        const isCyclic = reaches(to.id)
        const bent = steps.map((step) =>
          step === from ? { ...step, depends_on: [...(step.depends_on ?? []), to.id] } : step,
        )
        if (!isCyclic) {
          planGraph(bent)
          return
        }
        let cycle: string[] = []
        try {
          planGraph(bent)
        } catch (error) {
          cycle = (error as { details: { cycle: string[] } }).details.cycle
        }
        expect(cycle.length).toBeGreaterThan(2)
        expect(cycle[0]).toBe(cycle.at(-1))
        for (const [i, id] of cycle.entries()) {
          if (i === 0) continue
          expect(bent.find((step) => step.id === id)?.depends_on).toContain(cycle[i - 1])
        }
      }),
    )
  })
})

type Tree =
  | { id: string; type: 't'; args: [] }
  | {
      id: string
      type: 'chain' | 'group' | 'batch'
      jobs: Tree[]
      callbacks?: Record<string, object>
    }

const names = ['on_complete', 'on_success', 'on_failure']

/** Chains, groups and batches, up to three deep, with ids that say where a job is. */
function trees(depth: number): fc.Arbitrary<Tree> {
  const leaf = fc.constant<Tree>({ ...job, id: '', args: [], type: 't' })
  const element =
    depth === 0
      ? leaf
      : fc.oneof(
          leaf,
          fc.constant(0).chain(() => trees(depth - 1)),
        )
  const jobs = fc.array(element, { minLength: 1, maxLength: 3 })
  const callbacks = fc.subarray(names, { minLength: 1 })
  return fc.oneof(
    fc.record({
      type: fc.constantFrom('chain' as const, 'group' as const),
      jobs,
      id: fc.constant(''),
    }),
    fc.record({ jobs, callbacks }).map(
      ({ jobs: members, callbacks: some }): Tree => ({
        id: '',
        type: 'batch',
        jobs: members,
        callbacks: Object.fromEntries(some.map((name) => [name, job])),
      }),
    ),
  )
}

/** What each type promises, derived from the tree alone and not from the plan (OJS workflows). */
function tell(
  tree: Tree,
  path: string,
  fate: Fate,
  byId: Map<string, Outcome>,
  isReached: boolean,
): Outcome {
  if (tree.type === 't') {
    const outcome = isReached ? (fate.succeeds(path) ? 'completed' : 'failed') : 'cancelled'
    byId.set(path, outcome)
    return outcome
  }
  const inside = (i: number | string) => (path === '' ? String(i) : `${path}.${i}`)
  let isOpen = isReached
  const ends = tree.jobs.map((element, i) => {
    const end = tell(element, inside(i), fate, byId, isOpen)
    if (tree.type === 'chain') isOpen = isOpen && end === 'completed'
    return end
  })
  const isGood = ends.every((end) => end === 'completed')
  if (!isReached) {
    for (const name of Object.keys(tree.callbacks ?? {})) byId.set(inside(name), 'cancelled')
    return 'cancelled'
  }
  if (tree.type !== 'batch') return isGood ? 'completed' : 'failed'
  const called = Object.keys(tree.callbacks ?? {}).map((name) => {
    const isFired = name === 'on_complete' || (name === 'on_success') === isGood
    const job: Tree = { ...{ id: '', args: [], type: 't' } }
    return tell(job, inside(name), fate, byId, isFired)
  })
  const fired = called.filter((end) => end !== 'cancelled')
  if (fired.length === 0) return isGood ? 'completed' : 'failed'
  return fired.every((end) => end === 'completed') ? 'completed' : 'failed'
}

describe('a plan of a tree', () => {
  it('does what its types promise, in whatever order its jobs end', () => {
    fc.assert(
      fc.property(trees(2), fates, fates, (tree, fate, other) => {
        const plan = planWorkflow({ ...withoutIds(tree) }, () => [])
        const story = live(plan, fate)
        const expected = new Map<string, Outcome>()
        expect(story.outcome).toBe(tell(tree, '', fate, expected, true))
        expect(story.byId).toEqual(expected)
        expect(new Set(story.begun).size).toBe(story.begun.length)
        // The outcome does not depend on the order of the ends.
        expect(live(plan, { ...other, succeeds: fate.succeeds })).toMatchObject({
          outcome: story.outcome,
          byId: story.byId,
        })
      }),
      { numRuns: 300 },
    )
  })
})

/** The same tree without ids, so that the plan names each job by its position. */
function withoutIds(tree: Tree): object {
  const { id: _, ...rest } = tree
  return 'jobs' in rest ? { ...rest, jobs: rest.jobs.map(withoutIds) } : rest
}
