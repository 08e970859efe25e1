import { readConfig } from '../config.ts'
import { type Command, complain } from './command.ts'

/** What the broker has, against what the gateway would declare. Declares nothing. */
export const topologyCommand: Command = {
  summary: 'compare the broker with the topology (exit code 1 when they differ, 2 when it cannot)',
  usage: 'ojs-rabbitmq topology diff',
  async run(args, env) {
    if (args[0] !== 'diff' || args.length > 1) {
      console.error(`usage: ${topologyCommand.usage}`)
      return 2
    }
    try {
      const { topologyDiff } = await import('../broker/topology-diff.ts')
      const differences = await topologyDiff(readConfig(env).config)
      for (const difference of differences) console.log(difference.message)
      if (differences.length === 0) console.log('no differences')
      return differences.length === 0 ? 0 : 1
    } catch (error) {
      // As `diff` does: whoever checks by the exit code must not take this for a difference.
      complain(error)
      return 2
    }
  },
}
