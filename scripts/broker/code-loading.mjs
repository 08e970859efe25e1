/** Starts RabbitMQ faster: has Erlang load the code of whole applications at once (`load-applications.erl`). */
import { readFileSync } from 'node:fs'

const PROGRAM = readFileSync(new URL('load-applications.erl', import.meta.url), 'utf8')
const LOAD_AT_ONCE = PROGRAM.replaceAll(/^%%.*$/gm, '')
  .replaceAll(/\s+/g, ' ')
  .trim()

/**
 * Returns the `ERL_AFLAGS` of a node with these plugins. These flags come before all others: an `-eval` after
 * RabbitMQ's own `-s rabbit boot` would run too late.
 * @param {readonly string[]} plugins
 */
export function loadingAtOnce(plugins) {
  // RabbitMQ starts Mnesia itself and does not list it among its dependencies.
  const apps = ['rabbit', 'mnesia', ...plugins].join(', ')
  return `-eval '${LOAD_AT_ONCE.replace('APPS', apps)}'`
}
