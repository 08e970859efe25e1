/** `ojs-rabbitmq prune`: tells a gateway that its clock is right. */
import { parseArgs } from 'node:util'
import { askGateway } from './ask-gateway.ts'
import type { Command } from './command.ts'

/** Tells the running gateway that its clock is right, and that it may delete old jobs: see `PruneHold`. */
export const pruneCommand: Command = {
  summary: 'let a gateway prune that warns of clock_ahead, at OJS_URL with OJS_API_KEY',
  usage: 'ojs-rabbitmq prune [--url http://127.0.0.1:8080]',
  async run(args, env) {
    const { values } = parseArgs({ args: [...args], options: { url: { type: 'string' } } })
    return await askGateway('/ojs/v1/admin/retention/resume', {}, { url: values.url, env })
  },
}
