/** `ojs-rabbitmq topology diff`: compares what RabbitMQ has with what would be declared. */
import { readConfig } from '../config/config.ts'
import { type Command, complain, print, printable } from './command.ts'

/** Compares what RabbitMQ has with what the gateway would declare. Declares nothing. */
export const topologyCommand: Command = {
  summary:
    'compare the broker with the topology (exit code 1: they differ; 2: the comparison failed)',
  usage: 'ojs-rabbitmq topology diff',
  async run(args, env) {
    if (args[0] !== 'diff' || args.length > 1) {
      console.error(`usage: ${topologyCommand.usage}`)
      return 2
    }
    try {
      const { NOT_COMPARED, topologyDiff } = await import('../broker/topology/topology-diff.ts')
      const found = await topologyDiff(readConfig(env).config)
      for (const { message } of found) print(printable(message))
      if (found.length === 0) print('no differences')
      if (found.some(({ code }) => code !== NOT_COMPARED)) return 1
      return found.length === 0 ? 0 : 2
    } catch (error) {
      // Exit code 2, as with `diff`: a failure must not be taken for a difference (1).
      complain(error)
      return 2
    }
  },
}
