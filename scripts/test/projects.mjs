/** @typedef {{ rabbitmq: boolean, sharedNode: boolean, go?: boolean, chromium?: boolean,
 *   postgres?: boolean }} Needs */

/**
 * The projects of vitest.config.ts and what they need in addition to Node.
 * @type {Record<string, Needs>}
 */
const needs = {
  unit: { rabbitmq: false, sharedNode: false },
  'unit-isolated': { rabbitmq: false, sharedNode: false },
  properties: { rabbitmq: false, sharedNode: false },
  services: { rabbitmq: true, sharedNode: true, go: true, postgres: true },
  'services-isolated': { rabbitmq: true, sharedNode: true },
  conformance: { rabbitmq: true, sharedNode: true },
  browser: { rabbitmq: true, sharedNode: true, chromium: true },
  // Starts private nodes itself: a node that is killed cannot be shared.
  crash: { rabbitmq: true, sharedNode: false },
}

/** The projects of a run without arguments. */
export const PROJECTS = Object.keys(needs)

/**
 * Returns what a run needs, according to vitest's arguments; no `--project` means all projects.
 * @param {readonly string[]} vitestArgs
 * @param {boolean} isOnPostgres whether the ledgers of gateways are there
 */
export function needsOf(vitestArgs, isOnPostgres = false) {
  const selected = selectedProjects(vitestArgs)
  const known = selected.every((name) => name in needs)
  const names = selected.length > 0 && known ? selected : PROJECTS
  const wanted = names.flatMap((name) => needs[name] ?? [])
  return {
    rabbitmq: wanted.some(({ rabbitmq }) => rabbitmq),
    chromium: wanted.some(({ chromium }) => chromium === true),
    go: wanted.some(({ go }) => go === true),
    postgres: wanted.some(
      ({ postgres, rabbitmq }) => postgres === true || (isOnPostgres && rabbitmq),
    ),
    sharedNode: wanted.some(({ sharedNode }) => sharedNode),
  }
}

/** @param {readonly string[]} args */
function selectedProjects(args) {
  return args.flatMap((arg, index) => {
    if (arg.startsWith('--project=')) return [arg.slice('--project='.length)]
    return arg === '--project' ? (args[index + 1] ?? []) : []
  })
}
