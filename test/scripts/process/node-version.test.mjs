import { expect, test } from 'vitest'
import { nodeVersionProblem } from '../../../scripts/process/node-version.mjs'

test.each(['18.20.8', '20.18.3', '20.0.0', '9.11.2'])(
  'Node %s is refused in one line',
  (version) => {
    const problem = nodeVersionProblem(version)
    expect(problem).toContain(`this is Node ${version}`)
    expect(problem).not.toContain('\n')
  },
)

test.each(['20.19.0', '20.20.2', '22.0.0', '24.1.0'])('Node %s is accepted', (version) => {
  expect(nodeVersionProblem(version)).toBeUndefined()
})
