import { parseArgs } from 'node:util'
import type { Command } from './command.ts'

/**
 * Asks the running gateway to declare a lost queue again and to publish its jobs anew, where the
 * gateway would not do so by itself (architecture §2, "Queue missing").
 */
export const recoverCommand: Command = {
  summary: 'declare a lost queue again and publish its available jobs anew',
  usage: 'ojs-rabbitmq recover --queue NAME [--url http://127.0.0.1:8080]',
  async run(args, env) {
    const { values } = parseArgs({
      args: [...args],
      options: { queue: { type: 'string' }, url: { type: 'string' } },
    })
    if (!values.queue) {
      console.error(`usage: ${recoverCommand.usage}`)
      return 2
    }
    const base = values.url ?? env['OJS_URL'] ?? `http://127.0.0.1:${env['OJS_PORT'] ?? 8080}`
    const path = `/ojs/v1/admin/queues/${encodeURIComponent(values.queue)}/recover`
    const response = await fetch(new URL(path, base), { method: 'POST' }).catch(() => null)
    if (response === null) {
      console.error(`No gateway answers at ${base}. Is it running? See --url and OJS_URL.`)
      return 1
    }
    const text = await response.text()
    if (response.ok) console.log(text)
    else console.error(text)
    return response.ok ? 0 : 1
  },
}
