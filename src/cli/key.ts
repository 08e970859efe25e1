/** `ojs-rabbitmq key new`: an API key and its entry for `OJS_API_KEYS`. */
import { writeSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { isKeyName, isRole, newApiKey, ROLES } from '../http/access/api-keys.ts'
import { isQueuePattern } from '../job/queue-scope.ts'
import type { Command } from './command.ts'

/** Creates an API key. It is printed once and stored nowhere; the gateway gets only its hash. */
export const keyCommand: Command = {
  summary: 'create an API key and its entry for OJS_API_KEYS',
  usage: `ojs-rabbitmq key new [--name NAME] [--role ${ROLES.join('|')}] [--queues a,b.*]`,
  async run(args) {
    const { values, positionals } = parseArgs({
      args: [...args],
      options: { name: { type: 'string' }, role: { type: 'string' }, queues: { type: 'string' } },
      allowPositionals: true,
    })
    // The role with the fewest rights that are still useful to a program.
    const { role = 'producer', name = role } = values
    const queues = values.queues?.split(',') ?? []
    const isNew = positionals.length === 1 && positionals[0] === 'new'
    if (!isNew || !isRole(role) || !isKeyName(name) || !queues.every(isQueuePattern)) {
      console.error(
        `usage: ${keyCommand.usage}\n\nNAME: 1 to 40 characters of a-z, 0-9, ., _ and -\n` +
          'queues: names, or their beginnings with * at the end',
      )
      return 2
    }
    const { key, entry } = newApiKey(name, role, queues)
    // `console` hides write errors: with a full disk the key would be lost, and the exit code be 0.
    writeSync(1, `key    ${key}\nentry  ${entry}\n`)
    console.error(
      'The key is shown only this once. Give it to the client program, which sends it as\n' +
        '"Authorization: Bearer <key>". The entry goes into OJS_API_KEYS (comma-separated).',
    )
    return 0
  },
}
