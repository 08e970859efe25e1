/** Where the steps of a workflow stand in its graph. */
import { Graph, layout } from '@dagrejs/dagre'

export interface Arrow {
  from: string
  to: string
}

export const BOX = { width: 190, height: 64 }

/** The upper left corner of each step, by its id. `isUpright`: from the top down, for narrow windows. */
export function layOut(
  ids: readonly string[],
  arrows: readonly Arrow[],
  isUpright: boolean,
): ReadonlyMap<string, { x: number; y: number }> {
  const graph = new Graph()
  graph.setGraph({ rankdir: isUpright ? 'TB' : 'LR', nodesep: 24, ranksep: 56 })
  graph.setDefaultEdgeLabel(() => ({}))
  for (const id of ids) graph.setNode(id, { ...BOX })
  for (const { from, to } of arrows) graph.setEdge(from, to)
  layout(graph)
  return new Map(
    ids.map((id) => {
      const { x = 0, y = 0 } = graph.node(id)
      return [id, { x: x - BOX.width / 2, y: y - BOX.height / 2 }]
    }),
  )
}
