import { pid } from 'node:process'
import { readText } from './read-text.mjs'
import { findExecutable } from './run.mjs'

let calls = 0

/**
 * Returns `command` so that it runs on one CPU, by turns on each that this process may use; as it is where
 * there is no `taskset`. Erlang's threads wake each other all the time. In a virtual machine, waking a thread
 * on another CPU that idles can take longer than what it then does: a start of RabbitMQ took 2.3 s of CPU on
 * one CPU, and 2.4 to 5 s on two, the more the busier the host was.
 * @param {[string, ...string[]]} command
 * @returns {[string, ...string[]]}
 */
export function onOneCpu(command) {
  const taskset = findExecutable('taskset')
  const cpus = allowedCpus()
  if (taskset === undefined || cpus.length === 0) return command
  calls += 1
  return [taskset, '-c', String(cpus[(pid + calls) % cpus.length]), ...command]
}

/** The CPUs that this process may use; empty if the system does not tell. */
export function allowedCpus(status = readText('/proc/self/status')) {
  const [, list = ''] = /^Cpus_allowed_list:\s*(\S+)$/m.exec(status) ?? []
  return list.split(',').filter(Boolean).flatMap(cpusOf)
}

/**
 * Of `3` or `0-3`.
 * @param {string} range
 */
function cpusOf(range) {
  const [first = 0, last = first] = range.split('-').map(Number)
  return Array.from({ length: last - first + 1 }, (_, i) => first + i)
}
