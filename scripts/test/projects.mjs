/** The projects of vitest.config.ts and what they need in addition to Node. */
const needs = {
  unit: { rabbitmq: false, sharedNode: false },
  'unit-isolated': { rabbitmq: false, sharedNode: false },
  properties: { rabbitmq: false, sharedNode: false },
  services: { rabbitmq: true, sharedNode: true, go: true },
  'services-isolated': { rabbitmq: true, sharedNode: true },
  conformance: { rabbitmq: true, sharedNode: true },
  // Starts private nodes itself: a node that is killed cannot be shared.
  crash: { rabbitmq: true, sharedNode: false },
}

/** The projects of a run without arguments. */
export const PROJECTS = Object.keys(needs)

/** Returns what a run needs, according to vitest's arguments; no `--project` means all projects. */
export function needsOf(vitestArgs) {
  const selected = selectedProjects(vitestArgs)
  const known = selected.every((name) => name in needs)
  const names = selected.length > 0 && known ? selected : PROJECTS
  return {
    rabbitmq: names.some((name) => needs[name].rabbitmq),
    go: names.some((name) => needs[name].go === true),
    sharedNode: names.some((name) => needs[name].sharedNode),
  }
}

function selectedProjects(args) {
  return args.flatMap((arg, index) => {
    if (arg.startsWith('--project=')) return [arg.slice('--project='.length)]
    return arg === '--project' && args[index + 1] ? [args[index + 1]] : []
  })
}
