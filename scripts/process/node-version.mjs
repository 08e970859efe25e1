// This file and everything that start.mjs and test.mjs import statically must parse on Node 18,
// so that an old Node prints the line below and not a syntax error.
const MINIMUM = /** @type {const} */ ([20, 19])

/** The message for a Node that is too old; undefined if it is new enough. */
export function nodeVersionProblem(version = process.versions.node) {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const isEnough = major > MINIMUM[0] || (major === MINIMUM[0] && minor >= MINIMUM[1])
  if (isEnough) return undefined
  return `ojs-rabbitmq needs Node ${MINIMUM.join('.')} or newer; this is Node ${version}.`
}

export function requireNode() {
  const problem = nodeVersionProblem()
  if (!problem) return
  console.error(problem)
  process.exit(1)
}
