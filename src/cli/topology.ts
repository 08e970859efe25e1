import { topologyDiff } from '../broker/rabbit-broker.ts'
import { readConfig } from '../config.ts'
import type { Command } from './command.ts'

/** What the broker has, against what the gateway would declare. Declares nothing. */
export const topologyCommand: Command = {
  summary: 'compare the broker with the topology (exit code 1 when they differ)',
  usage: 'ojs-rabbitmq topology diff',
  async run(args, env) {
    if (args[0] !== 'diff' || args.length > 1) {
      console.error(`usage: ${topologyCommand.usage}`)
      return 2
    }
    const { config } = readConfig(env)
    const differences = await topologyDiff(config)
    for (const difference of differences) console.log(difference.message)
    if (differences.length === 0) console.log('no differences')
    return differences.length === 0 ? 0 : 1
  },
}
