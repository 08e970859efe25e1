/** `ojs-rabbitmq recover`: asks a gateway to publish the jobs of a lost queue again. */
import { parseArgs } from 'node:util'
import { askGateway } from './ask-gateway.ts'
import type { Command } from './command.ts'

/**
 * Asks the running gateway to declare a lost queue again and to publish its jobs again, in the cases in which
 * the gateway does not do so by itself (docs/architecture.md §2, "Queue missing").
 */
export const recoverCommand: Command = {
  summary:
    'publish the jobs of a lost queue again, and others without a message, at OJS_URL with OJS_API_KEY',
  usage: 'ojs-rabbitmq recover --queue NAME [--dry-run] [--url http://127.0.0.1:8080]',
  async run(args, env) {
    const { values } = parseArgs({
      args: [...args],
      options: {
        queue: { type: 'string' },
        url: { type: 'string' },
        'dry-run': { type: 'boolean' },
      },
    })
    if (!values.queue) {
      console.error(`usage: ${recoverCommand.usage}`)
      return 2
    }
    const path = `/ojs/v1/admin/queues/${encodeURIComponent(values.queue)}/recover`
    const request = { dry_run: values['dry-run'] === true }
    return await askGateway(path, request, { url: values.url, env })
  },
}
