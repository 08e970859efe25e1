/** The steps of a workflow as a graph, with their states as they are now. */
import {
  Background,
  Controls,
  type Edge,
  Handle,
  type Node,
  type NodeProps,
  Position,
  ReactFlow,
} from '@xyflow/react'
import { type ReactNode, useMemo } from 'react'
import type { WorkflowStep } from '../../api/openapi.ts'
import { t } from '../../text/text.ts'
import { Raw } from '../../ui/raw.tsx'
import { State } from '../../ui/state.tsx'
import { type Arrow, BOX, layOut } from './layout.ts'
import '@xyflow/react/dist/base.css'

interface GraphProps {
  steps: readonly WorkflowStep[]
  /** They follow when all steps have ended. */
  callbacks: readonly WorkflowStep[]
  onChoose: (id: string) => void
}

type StepNode = Node<{ step: WorkflowStep; isUpright: boolean }, 'step'>

const NARROW_PX = 700
const KINDS = { step: Box }
const FIT = { maxZoom: 1, padding: 0.15 }

export function WorkflowGraph({ steps, callbacks, onChoose }: GraphProps): ReactNode {
  const isUpright = window.innerWidth < NARROW_PX
  const all = useMemo(() => [...steps, ...callbacks], [steps, callbacks])
  const arrows = useMemo(() => arrowsOf(steps, callbacks), [steps, callbacks])
  // The states change all the time, the shape does not.
  const shape = JSON.stringify([all.map(({ id }) => id), arrows])
  const places = useMemo(() => {
    const [ids, found]: [string[], Arrow[]] = JSON.parse(shape)
    return layOut(ids, found, isUpright)
  }, [shape, isUpright])
  const nodes = all.map(
    (step): StepNode => ({
      id: step.id,
      type: 'step',
      position: places.get(step.id) ?? { x: 0, y: 0 },
      data: { step, isUpright },
      ...BOX,
      ariaRole: 'button',
    }),
  )
  const states = new Map(all.map(({ id, state }) => [id, state]))
  const edges = arrows.map(
    ({ from, to }): Edge => ({
      id: `${from}\n${to}`,
      source: from,
      target: to,
      focusable: false,
      animated: states.get(to) === 'active',
      className: states.get(from) === 'completed' ? 'passed' : '',
    }),
  )
  return (
    <section className="graph" aria-label={t.workflows.graph}>
      <ReactFlow
        nodes={nodes}
        edges={edges}
        nodeTypes={KINDS}
        fitView
        fitViewOptions={FIT}
        minZoom={0.05}
        maxZoom={1.5}
        nodesDraggable={false}
        nodesConnectable={false}
        elementsSelectable
        edgesFocusable={false}
        onlyRenderVisibleElements={nodes.length > 200}
        preventScrolling={false}
        zoomOnScroll={false}
        deleteKeyCode={null}
        onNodesChange={(changes) => {
          for (const change of changes) {
            if (change.type === 'select' && change.selected) onChoose(change.id)
          }
        }}
        ariaLabelConfig={LABELS}
      >
        <Background />
        <Controls showInteractive={false} />
      </ReactFlow>
    </section>
  )
}

const LABELS = {
  'node.a11yDescription.default': t.workflows.keys,
  'node.a11yDescription.keyboardDisabled': t.workflows.keys,
  'controls.ariaLabel': t.workflows.controls,
  'controls.zoomIn.ariaLabel': t.workflows.zoomIn,
  'controls.zoomOut.ariaLabel': t.workflows.zoomOut,
  'controls.fitView.ariaLabel': t.workflows.fit,
}

function Box({ data: { step, isUpright } }: NodeProps<StepNode>): ReactNode {
  return (
    <div className={`graph-step ${step.state}`}>
      <Handle type="target" position={isUpright ? Position.Top : Position.Left} />
      <strong>
        <Raw text={step.id} />
      </strong>
      <State of={step.state} />
      <span className="faint">
        <Raw text={step.type} />
      </span>
      <Handle type="source" position={isUpright ? Position.Bottom : Position.Right} />
    </div>
  )
}

function arrowsOf(steps: readonly WorkflowStep[], callbacks: readonly WorkflowStep[]): Arrow[] {
  const known = new Set(steps.map(({ id }) => id))
  const arrows = steps.flatMap(({ id, depends_on: before }) =>
    before.filter((each) => known.has(each)).map((from) => ({ from, to: id })),
  )
  const followed = new Set(arrows.map(({ from }) => from))
  const last = steps.filter(({ id }) => !followed.has(id))
  const ends = callbacks.flatMap((each) => last.map(({ id }) => ({ from: id, to: each.id })))
  return [...arrows, ...ends]
}
