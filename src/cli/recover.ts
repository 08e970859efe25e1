import { parseArgs } from 'node:util'
import { redactUrls } from '../logger.ts'
import type { Command } from './command.ts'

/**
 * Asks the running gateway to declare a lost queue again and to publish its jobs anew, where the
 * gateway would not do so by itself (architecture §2, "Queue missing"). `OJS_API_KEY`: the key of
 * an operator, where the gateway wants one.
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
    const scheme = env['OJS_TLS_CERT'] ? 'https' : 'http'
    // Empty is not set, as in `config.ts`.
    const base =
      values.url ?? (env['OJS_URL'] || `${scheme}://127.0.0.1:${env['OJS_PORT'] || 8080}`)
    const path = `/ojs/v1/admin/queues/${encodeURIComponent(values.queue)}/recover`
    const key = env['OJS_API_KEY']
    const headers = key ? { authorization: `Bearer ${key}` } : {}
    const shown = redactUrls(base)
    if (!URL.canParse(base)) {
      console.error(`'${shown}' is no URL such as http://127.0.0.1:8080. See --url and OJS_URL.`)
      return 2
    }
    const asked = fetch(new URL(path, base), { method: 'POST', headers })
    const response = await asked.catch((error: unknown) => whyNot(error))
    if (typeof response === 'string') {
      console.error(
        `No gateway answers at ${shown} (${response}). Is it running? See --url and OJS_URL.`,
      )
      return 1
    }
    const text = await response.text()
    if (response.ok) console.log(text)
    else console.error(text)
    return response.ok ? 0 : 1
  },
}

/** `fetch` says why in the cause: refused, or a certificate that nobody here trusts. */
function whyNot(error: unknown): string {
  const cause = error instanceof Error ? (error.cause ?? error) : error
  const text = cause instanceof Error ? cause.message || cause.name : String(cause)
  return redactUrls(text)
}
